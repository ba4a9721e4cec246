"""Samples just pulled, as panels: the same identity and the same grid that the store is filled by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import gauge
from features.tables import Panel, Series, to_time
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.hosts import Hosts
from pipelines.identity import Identifier, Identity, last_known
from pipelines.readers.samples import SampleChunk

Stamps = Mapping[
    Series, NDArray[np.int64]
]  # of one node's gauges of XIDs: when each cell's sample was taken, -1 without


class Taken(NamedTuple):
    """What a pull of samples holds: raw panels by node, the GPUS seen, and when gauges of XIDs were read."""

    panels: dict[str, Panel]
    gpus: pd.DataFrame
    stamps: dict[str, Stamps]


def panels(
    chunks: Iterable[SampleChunk],
    config: Config,
    step_ns: int,
    start_ns: int,
    end_ns: int,
    *,
    node: str = "",
) -> tuple[dict[str, Panel], pd.DataFrame]:
    """Raw panels of every node over the cells that start in ``[start_ns, end_ns)``, and the GPUS seen.

    Each panel is bit-equal to what `Store.panel` gives after the same samples were ingested, for the series
    that have a sample in the span.
    """
    found = gather(chunks, config, step_ns, start_ns, end_ns, node=node)
    return found.panels, found.gpus


def gather(
    chunks: Iterable[SampleChunk],
    config: Config,
    step_ns: int,
    start_ns: int,
    end_ns: int,
    *,
    node: str = "",
) -> Taken:
    """As `panels`, with the times at which gauges of XIDs were read."""
    identifier = Identifier(config.ingest, node)
    held: list[tuple[Identity, SampleChunk]] = []
    known = Hosts()
    for chunk in chunks:
        identity = identifier.identify(chunk.labels)
        if not identity.node or not identity.series.metric:
            continue
        held.append((identity, chunk))
        known.see(identity)
    names = known.names()
    by_node: defaultdict[str, list[tuple[Identity, SampleChunk]]] = defaultdict(list)
    for identity, chunk in held:
        by_node[names.get(identity.node, identity.node)].append((identity, chunk))
    held.clear()
    times = np.arange(-(-start_ns // step_ns), -(-end_ns // step_ns), dtype=np.int64) * step_ns
    found, gpus, stamps = {}, list[dict[Hashable, object]](), {}
    for name in sorted(by_node):
        found[name], seen, stamps[name] = _of_node(name, by_node.pop(name), times, step_ns)
        gpus += seen
    return Taken(found, last_known(gpus), stamps)


def _of_node(
    node: str, held: list[tuple[Identity, SampleChunk]], times: NDArray[np.int64], step_ns: int
) -> tuple[Panel, list[dict[Hashable, object]], Stamps]:
    """A node's chunks as its panel over the cells that start at ``times``; its GPUs; when gauges of XIDs were read."""
    from pipelines.filling import fill  # noqa: PLC0415  # its compiler is loaded while the server works

    first = int(times[0]) // step_ns if len(times) else 0
    rows: dict[Series, int] = {}
    for identity, _ in held:
        rows.setdefault(identity.series, len(rows))
    values, stamps = np.full((len(rows), len(times)), np.nan), np.full((len(rows), len(times)), -1, dtype=np.int64)
    spans: dict[tuple[str, str], tuple[int, int]] = {}
    for identity, chunk in held:
        row = rows[identity.series]
        early, late = fill(chunk.times, chunk.values, first, step_ns, values[row], stamps[row])
        if identity.series.gpu:
            key = identity.series.gpu, identity.pci
            before = spans.get(key, (early, late))
            spans[key] = min(before[0], early), max(before[1], late)
    gpus: list[dict[Hashable, object]] = [
        {"node": node, "gpu": gpu, "pci": pci, "first": to_time(early), "last": to_time(late)}
        for (gpu, pci), (early, late) in spans.items()
    ]
    known: NDArray[np.bool_] = np.any(stamps >= 0, axis=1)
    names = sorted(one for one, row in rows.items() if known[row])
    order = [rows[one] for one in names]
    gauges = {one: stamps[rows[one]] for one in names if gauge.is_gauge(one.metric)}
    return Panel(node, times, tuple(names), values[order]), gpus, gauges


def over(
    held: Mapping[int, Mapping[Series, NDArray[np.int64]]],
    names: Iterable[Series],
    start_ns: int,
    end_ns: int,
    step_ns: int,
) -> Stamps:
    """Stamps of whole days as stamps over the cells of a span, -1 where there is none."""
    first, count = -(-start_ns // step_ns), -(-end_ns // step_ns) - -(-start_ns // step_ns)
    out = {one: np.full(count, -1, dtype=np.int64) for one in names}
    for day, of_day in held.items():
        at = day * DAY_NS // step_ns - first
        for one, stamps in of_day.items():
            low, high = max(0, -at), min(len(stamps), count - at)
            if low < high:
                out[one][at + low : at + high] = stamps[low:high]
    return out
