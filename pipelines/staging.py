"""Inputs on their way into the store: written as parts while they are read, merged by node and day when all are read.

An input's folder is named by its digest and counts only once ``done.json`` is in it. Merging is idempotent and
does not depend on order (`Cells` decides by sample time, log lines by their key), so a run that was killed is
completed by merging again what is there.
"""

from __future__ import annotations

import json
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from features import gauge
from features.tables import Series
from pipelines.grid import DAY_NS, by_day, last_of_cells
from pipelines.identity import Identifier, Identity
from pipelines.readers.samples import SampleChunk
from pipelines.readers.tally import Tally
from pipelines.store import replace_file

_CHUNK_BYTES = 200  # of Python objects beside a chunk's samples
_SAMPLE_BYTES = 16
_PARTS = pa.schema([("series", pa.int32()), ("times", pa.list_(pa.int64())), ("values", pa.list_(pa.float64()))])
Key = tuple[str, int]  # node, day since 1970
Held = tuple[int, int, int]  # a chunk's series, and from where to where its samples lie


class Staged:
    """One input's parts; `add`, `add_logs`, then `finish`."""

    def __init__(self, folder: Path, step_ns: int, memory_bytes: int) -> None:
        """Begin anew; what an interrupted run left is removed."""
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.folder = folder
        self._step_ns = step_ns
        self._memory_bytes = memory_bytes
        self._held = 0
        # Samples lie in two arrays made once: many small ones, let go between those of a reader, would leave the heap
        # in holes. Memory that nothing was written to is none.
        self._times = np.empty(max(memory_bytes // _SAMPLE_BYTES, DAY_NS // step_ns), dtype=np.int64)
        self._values = np.empty(len(self._times))
        self._used = 0
        self._samples: defaultdict[Key, list[Held]] = defaultdict(list)
        self._lines: list[pd.DataFrame] = []
        self._series: dict[Series, int] = {}
        self._parts: list[dict[str, Any]] = []
        self._gpus: dict[tuple[str, str, str], list[int]] = {}
        self._addresses: defaultdict[str, set[str]] = defaultdict(set)
        self._unsettled: set[str] = set()
        self._first_codes: dict[tuple[str, str], tuple[int, float]] = {}
        self._line_count = 0
        self.conflicts = 0

    def add(self, identity: Identity, chunk: SampleChunk) -> None:
        """Take one chunk whose node is known."""
        if gauge.is_gauge(identity.series.metric):
            self._remember_code(identity, chunk)
        times, values, conflicts = last_of_cells(chunk.times, chunk.values, self._step_ns)
        self.conflicts += conflicts
        node, series = identity.node, identity.series
        number = self._series.setdefault(series, len(self._series))
        for day, low, high in by_day(times):
            size = high - low
            if self._used + size > len(self._times) or self._held > self._memory_bytes:
                self.spill()
            first, self._used = self._used, self._used + size
            self._times[first : self._used], self._values[first : self._used] = times[low:high], values[low:high]
            self._samples[node, day].append((number, first, self._used))
            self._held += _SAMPLE_BYTES * size + _CHUNK_BYTES
        self._remember(identity, int(times[0]), int(times[-1]))

    def _remember(self, identity: Identity, first: int, last: int) -> None:
        """Which GPU was where, and which address is which node."""
        if identity.series.gpu:
            seen = self._gpus.setdefault((identity.node, identity.series.gpu, identity.pci), [first, last])
            seen[0], seen[1] = min(seen[0], first), max(seen[1], last)
        if not identity.settled:
            self._unsettled.add(identity.node)
        elif identity.address and identity.address != identity.node:
            self._addresses[identity.address].add(identity.node)

    def _remember_code(self, identity: Identity, chunk: SampleChunk) -> None:
        """The first code that each gauge of XIDs showed: the cell it lies in may hold a later one."""
        codes = gauge.code_of(identity.series.metric, chunk.values)
        known = np.flatnonzero(~np.isnan(codes))
        if len(known):
            place = known[np.lexsort((codes[known], chunk.times[known]))[0]]
            key, found = (identity.node, gauge.device(identity.series)), (int(chunk.times[place]), float(codes[place]))
            self._first_codes[key] = min(found, self._first_codes.get(key, found))

    def add_logs(self, frame: pd.DataFrame, *, ordered: bool = True) -> None:
        """Take a frame of LOGS; where the input's order means nothing, lines of one time are put in their words'."""
        if not len(frame):
            return
        first = self._line_count
        self._lines.append(frame.assign(seq=np.arange(first, first + len(frame)) if ordered else np.int64(0)))
        self._line_count += len(frame)
        self._held += int(frame["message"].str.len().sum()) + 150 * len(frame)
        if self._held > self._memory_bytes:
            self.spill()

    def spill(self) -> None:
        """Write what is held to parts."""
        if self._samples:
            keys = sorted(self._samples)
            # one node's day at a time, each let go before the next: the joined arrays would double what is held
            self._write("samples", _PARTS, ((key, self._samples_batch(self._samples.pop(key))) for key in keys))
        if self._lines:
            frame = pd.concat(self._lines, ignore_index=True)
            self._lines.clear()
            days = frame["time"].astype("int64") // DAY_NS
            whole = pa.Schema.from_pandas(frame, preserve_index=False).remove_metadata()
            groups = frame.groupby([frame["node"], days], sort=True)
            # joined frames hold their text in pieces, and a batch must be one
            lines = (((str(node), int(str(day))), _one_batch(part, whole)) for (node, day), part in groups)
            self._write("logs", whole, lines)
        self._samples.clear()
        self._lines.clear()
        self._held = self._used = 0

    def _samples_batch(self, chunks: list[Held]) -> Any:
        bounds = np.concatenate(([0], np.cumsum([high - low for _, low, high in chunks]))).astype(np.int32)
        times = pa.array(np.concatenate([self._times[low:high] for _, low, high in chunks]))
        values = pa.array(np.concatenate([self._values[low:high] for _, low, high in chunks]))
        return pa.RecordBatch.from_arrays(
            [
                pa.array(np.array([number for number, _, _ in chunks], dtype=np.int32)),
                pa.ListArray.from_arrays(pa.array(bounds), times),
                pa.ListArray.from_arrays(pa.array(bounds), values),
            ],
            schema=_PARTS,
        )

    def _write(self, kind: str, schema: Any, batches: Iterable[tuple[Key, Any]]) -> None:
        name = f"{kind}-{len(self._parts):05d}.arrow"
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        keys = []
        with pa.OSFile(str(self.folder / name), "wb") as sink, pa.ipc.new_file(sink, schema, options=options) as writer:
            for key, batch in batches:
                writer.write_batch(batch.replace_schema_metadata(None))
                keys.append(key)
        self._parts.append({"file": name, "kind": kind, "keys": keys})

    def finish(self, record: dict[str, Any]) -> None:
        """Write the rest and say that the input is whole; ``record`` is what the store remembers of it."""
        self.spill()
        said = {
            "record": {**record, "conflicts": self.conflicts},
            "parts": self._parts,
            "series": list(self._series),
            "gpus": [[*key, *seen] for key, seen in sorted(self._gpus.items())],
            "addresses": {address: sorted(nodes) for address, nodes in sorted(self._addresses.items())},
            "unsettled": sorted(self._unsettled),
            "first_codes": [[*key, *found] for key, found in sorted(self._first_codes.items())],
        }
        replace_file(self.folder / "done.json", json.dumps(said).encode())


def _one_batch(frame: pd.DataFrame, schema: Any) -> Any:
    return pa.Table.from_pandas(frame, schema=schema, preserve_index=False).combine_chunks().to_batches()[0]


def stage_chunks(chunks: Iterable[SampleChunk], identifier: Identifier, staged: Staged, tally: Tally) -> None:
    """Chunks with a metric and a node to the staging folder; others are counted as rejected."""
    for chunk in chunks:
        identity = identifier.identify(chunk.labels)
        reason = "" if identity.node else "no node in the labels"
        if not identity.series.metric:
            reason = "no metric name"
        if reason:
            tally.ok -= len(chunk.times)
            tally.reject(reason, len(chunk.times))
            if identity.series.metric:
                tally.hint("some series name no node; say it with --node or name the label in ingest.node_labels")
            continue
        staged.add(identity, chunk)


class Finished:
    """A staged input that is whole."""

    def __init__(self, folder: Path) -> None:
        """Read what `Staged.finish` wrote."""
        self.folder = folder
        said = json.loads((folder / "done.json").read_bytes())
        self.record: dict[str, Any] = said["record"]
        self.gpus: list[list[Any]] = said["gpus"]
        self.addresses: dict[str, list[str]] = said["addresses"]
        self.unsettled: set[str] = set(said["unsettled"])
        self.first_codes: list[tuple[str, str, int, float]] = [tuple(row) for row in said.get("first_codes", ())]
        self._series = [Series(*pair) for pair in said["series"]]
        self._where: defaultdict[tuple[str, Key], list[tuple[str, int]]] = defaultdict(list)
        for part in said["parts"]:
            for number, (node, day) in enumerate(part["keys"]):
                self._where[part["kind"], (node, day)].append((part["file"], number))

    @classmethod
    def all(cls, staging: Path) -> list[Self]:
        """Every whole input in the folder, by name."""
        return [cls(path.parent) for path in sorted(staging.glob("*/done.json"))]

    def keys(self, kind: str) -> set[Key]:
        """Nodes and days that the input has samples or logs of."""
        return {key for found, key in self._where if found == kind}

    def samples(self, key: Key) -> Iterable[tuple[Series, NDArray[np.int64], NDArray[np.float64]]]:
        """The input's chunks of a node's day."""
        for batch in self._batches("samples", key):
            bounds = batch.column(1).offsets.to_numpy()
            times, values = batch.column(1).values.to_numpy(), batch.column(2).values.to_numpy()
            for row, number in enumerate(batch.column(0).to_numpy()):
                low, high = bounds[row], bounds[row + 1]
                yield self._series[number], times[low:high], values[low:high]

    def lines(self, key: Key) -> Iterable[Any]:
        """Arrow batches of the input's log lines of a node's day: rows of `LOGS`, and ``seq``, their order."""
        return self._batches("logs", key)

    def _batches(self, kind: str, key: Key) -> Iterable[Any]:
        for name, number in self._where.get((kind, key), ()):
            with pa.memory_map(str(self.folder / name)) as source:
                yield pa.ipc.open_file(source).get_batch(number)


def tally_record(path: str, kind: str, tally: Tally) -> dict[str, Any]:
    """An input as the store remembers it and `--json` prints it."""
    return {
        "path": path,
        "format": kind,
        "read": tally.read,
        "ok": tally.ok,
        "rejected": dict(sorted(tally.rejected.items())),
        "noted": dict(sorted(tally.noted.items())),
        "hints": list(tally.hints),
    }
