"""Samples just pulled, as panels: the same identity and the same grid that the store is filled by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import gauge
from features.tables import Panel, Series
from pipelines.config import Config
from pipelines.grid import DAY_NS, Cells, last_of_cells
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
    addresses: dict[str, str] | None = None,
) -> tuple[dict[str, Panel], pd.DataFrame]:
    """Raw panels of every node over the cells that start in ``[start_ns, end_ns)``, and the GPUS seen.

    Each panel is bit-equal to what `Store.panel` gives after the same samples were ingested, for the series
    that have a sample in the span. ``addresses`` are those the store has names for (`Store.addresses`).
    """
    found = gather(chunks, config, step_ns, start_ns, end_ns, node=node, addresses=addresses)
    return found.panels, found.gpus


def gather(
    chunks: Iterable[SampleChunk],
    config: Config,
    step_ns: int,
    start_ns: int,
    end_ns: int,
    *,
    node: str = "",
    addresses: dict[str, str] | None = None,
) -> Taken:
    """As `panels`, with the times at which gauges of XIDs were read."""
    identifier = Identifier(config.ingest, node)
    held: list[tuple[Identity, SampleChunk]] = []
    known: defaultdict[str, set[str]] = defaultdict(set)
    for chunk in chunks:
        identity = identifier.identify(chunk.labels)
        if not identity.node or not identity.series.metric:
            continue
        held.append((identity, chunk))
        if identity.settled and identity.address and identity.address != identity.node:
            known[identity.address].add(identity.node)
    names = {address: next(iter(nodes)) for address, nodes in known.items() if len(nodes) == 1} | (addresses or {})
    cells: dict[str, Cells] = {}
    gpus: list[dict[Hashable, object]] = []
    for identity, chunk in held:
        name = identity.node if identity.settled else names.get(identity.node, identity.node)
        if name not in cells:
            cells[name] = Cells(start_ns, end_ns, step_ns)
        times, values, _ = last_of_cells(chunk.times, chunk.values, step_ns)
        cells[name].add(identity.series, times, values)
        if identity.series.gpu:
            first, last = pd.Timestamp(int(times[0]), tz="UTC"), pd.Timestamp(int(times[-1]), tz="UTC")
            gpus.append({"node": name, "gpu": identity.series.gpu, "pci": identity.pci, "first": first, "last": last})
    stamps: dict[str, Stamps] = {
        name: {one: of_node.row(one)[1] for one in of_node.names() if gauge.is_gauge(one.metric)}
        for name, of_node in cells.items()
    }
    return Taken({name: cells[name].panel(name) for name in sorted(cells)}, last_known(gpus), stamps)


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
