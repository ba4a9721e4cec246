"""Staged inputs into the store, one node's day after the other."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import chain, pairwise
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.compute as pc

from pipelines.day_lines import DayLines
from pipelines.grid import Cells
from pipelines.identity import last_known
from pipelines.panel_files import day_statistics
from pipelines.staging import Finished, Key
from pipelines.store import Store, frame_bytes, node_folder, replace_file

# A break in a node's samples from which on features are missing; single lost scrapes are no gap
GAP_NS = 600_000_000_000


class Merged(NamedTuple):
    """What came of a merge.

    Attributes
    ----------
    conflicts
        Samples that contradicted another of their time.
    gaps, gap_seconds
        Breaks of a node's samples within the days written and between them and their neighbours.
    duplicates
        Log lines that another input, or the store, had already.
    """

    conflicts: int = 0
    gaps: int = 0
    gap_seconds: float = 0.0
    duplicates: int = 0


def merge(store: Store, progress: Callable[[str], None] | None = None) -> Merged:
    """Bring every whole staged input in and remember it.

    The caller holds the store. A run killed anywhere in here is completed by the next call: a node's day
    merged twice is the same.
    """
    staged = Finished.all(store.path / "staging")
    if not staged:
        return Merged()
    names = _learn_names(store, staged)
    samples, lines = _plan(store, staged, names, "samples"), _plan(store, staged, names, "logs")
    conflicts, gaps = 0, list[int]()
    for number, ((node, day), sources) in enumerate(sorted(samples.items())):
        if progress:
            progress(f"writing {node} ({number + 1} of {len(samples)} node-days)")
        cells = store.day_cells(node, day)
        for source in sources:
            _add(cells, store, source)
        store.merge_day(node, day, cells)
        conflicts += cells.conflicts
        gaps += cells.gaps(GAP_NS)
    gaps += _gaps_between_days(store, samples)
    duplicates = 0
    for number, ((node, day), sources) in enumerate(sorted(lines.items())):
        if progress:
            progress(f"writing lines of {node} ({number + 1} of {len(lines)} node-days)")
        duplicates += _merge_lines(store, node, day, sources)
    _merge_gpus(store, staged, names)
    _merge_codes(store, staged, names)
    for address in names:  # all it had is under its name now
        for kind in ("panels", "logs"):
            shutil.rmtree(store.path / kind / node_folder(address), ignore_errors=True)
    for finished in staged:
        replace_file(store.path / "inputs" / f"{finished.folder.name}.json", json.dumps(finished.record).encode())
    for finished in staged:
        shutil.rmtree(finished.folder)
    return Merged(conflicts, len(gaps), sum(gaps) / 1e9, duplicates)


Source = tuple[Finished | None, Key]  # None: what the store holds under an address that has now got a name


def _plan(store: Store, staged: list[Finished], names: dict[str, str], kind: str) -> dict[Key, list[Source]]:
    """Which inputs have something for which node's day."""
    plan: defaultdict[Key, list[Source]] = defaultdict(list)
    for finished in staged:
        for node, day in finished.keys(kind):
            plan[names.get(node, node), day].append((finished, (node, day)))
    days = store.days if kind == "samples" else store.log_days
    for node, target in names.items():
        for day in days(node):
            plan[target, day].append((None, (node, day)))
    return plan


def _gaps_between_days(store: Store, written: Iterable[Key]) -> list[int]:
    """Lengths [ns] of the breaks from a day's last sample to the next held day's first, where one of the two is new."""
    fresh: defaultdict[str, set[int]] = defaultdict(set)
    for node, day in written:
        fresh[node].add(day)
    lengths = []
    for node, days in fresh.items():
        for pair in pairwise(store.days(node)):
            if days.intersection(pair):
                before, after = (day_statistics(store.panel_path(node, day)) for day in pair)
                empty = after["first_ns"] // store.step_ns - before["last_ns"] // store.step_ns - 1
                lengths.append(int(empty) * store.step_ns)
    return [length for length in lengths if length >= GAP_NS]


def _learn_names(store: Store, staged: list[Finished]) -> dict[str, str]:
    """Addresses that are known to be one node: an exporter that names the node and is scraped there said so."""
    hosts = store.hosts()
    for finished in staged:
        hosts.add(finished.hosts.named, finished.hosts.unsettled)
    replace_file(store.path / "hosts.json", json.dumps(hosts.said()).encode())
    return hosts.names()


def _add(cells: Cells, store: Store, source: Source) -> None:
    finished, (node, day) = source
    if finished is not None:
        for series, times, values in finished.samples((node, day)):
            cells.add(series, times, values)
        return
    held = store.day_cells(node, day)
    for series in held.names():
        values, stamps = held.row(series)
        cells.add(series, stamps[stamps >= 0], values[stamps >= 0])


def _merge_lines(store: Store, node: str, day: int, sources: list[Source]) -> int:
    """A node's day of lines as one; how many of them were another's."""
    lines = DayLines(node, store.path / "staging")
    held = [(None, (node, day)), *sources]
    given = kept = 0

    def counted(tables: Iterable[Any]) -> Iterator[Any]:
        nonlocal kept
        for table in tables:
            kept += _lines_in(table)
            yield table

    try:
        for number, (finished, key) in enumerate(held):
            for rows in store.held_lines(*key) if finished is None else finished.lines(key):
                lines.add(number, rows)
                given += _lines_in(rows)
        store.put_lines(node, day, counted(lines.groups()))
    except sqlite3.Error as error:  # a full disk, to a database
        raise OSError(f"{store.path}: {error}") from error
    return given - kept


def _lines_in(rows: Any) -> int:
    """How many lines some rows stand for."""
    return int(pc.sum(rows.column("count")).as_py() or 0)


def _merge_gpus(store: Store, staged: list[Finished], names: dict[str, str]) -> None:
    """The last known address of every GPU; it outlives the GPU's series."""
    rows: list[dict[Hashable, Any]] = store.gpus().to_dict("records")
    for row in rows:
        row["node"] = names.get(row["node"], row["node"])
    for finished in staged:
        for node, gpu, pci, first, last in finished.gpus:
            rows.append(
                {
                    "node": names.get(node, node),
                    "gpu": gpu,
                    "pci": pci,
                    "first": pd.Timestamp(first, tz="UTC"),
                    "last": pd.Timestamp(last, tz="UTC"),
                }
            )
    if not rows:
        return
    replace_file(store.path / "gpus.parquet", frame_bytes(last_known(rows)))


def _merge_codes(store: Store, staged: list[Finished], names: dict[str, str]) -> None:
    """The first code of every gauge of XIDs; of two inputs the earlier sample's."""
    held: dict[tuple[str, str], tuple[int, float]] = {}
    known = [(node, gpu, *found) for (node, gpu), found in store.first_codes().items()]
    for node, gpu, time, code in chain(known, *(finished.first_codes for finished in staged)):
        key = names.get(node, node), gpu
        held[key] = min((time, code), held.get(key, (time, code)))
    if held:
        said = [[*key, *found] for key, found in sorted(held.items())]
        replace_file(store.path / "first_codes.json", json.dumps(said).encode())
