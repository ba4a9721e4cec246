"""Samples just pulled, as panels: the same identity and the same grid that the store is filled by."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable

import pandas as pd

from features.tables import Panel
from pipelines.config import Config
from pipelines.grid import Cells, last_of_cells
from pipelines.identity import Identifier, Identity, last_known
from pipelines.readers.samples import SampleChunk


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
    return {name: cells[name].panel(name) for name in sorted(cells)}, last_known(gpus)
