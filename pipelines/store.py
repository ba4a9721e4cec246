"""The Parquet store: one wide file a node and day for samples, one for log lines, and three small tables.

::

    STORE/store.json                         format and step
    STORE/panels/<node>/<2026-01-04>.parquet time, one column a series (``metric|gpu``), sample offsets
    STORE/logs/<node>/<2026-01-04>.parquet   rows of LOGS in time order
    STORE/gpus.parquet sessions.parquet incidents.parquet first_codes.json
    STORE/inputs/<digest>.json               what was taken in; written when it is in for good
    STORE/staging/                           inputs on their way in
    STORE/cache/                             what can be computed again

A file is replaced whole (written beside, synced, renamed), so a reader sees the old or the new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import quote, unquote

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.tables import GPUS, LOGS, SESSIONS, BusyError, InputError, Panel, Series, Table, UsageError, conform
from pipelines.day_lines import SCHEMA as LINES_SCHEMA
from pipelines.day_lines import lines_statistics
from pipelines.grid import DAY_NS, Cells
from pipelines.panel_files import day_statistics, read_day, read_stamps, read_values, write_day

FORMAT = 1
_SMALL = ("first_codes.json", "gpus.parquet", "incidents.parquet", "sessions.parquet", "store.json")
INCIDENTS = Table(
    "incidents",
    {
        "node": "str",
        "start": "datetime64[ns, UTC]",
        "end": "datetime64[ns, UTC]",
        "kind": "str",
    },
    ("node", "start", "kind"),
)


def replace_file(path: Path, content: bytes) -> None:
    """Put the content there for good, or leave what was there."""
    with replacing(path) as file:
        file.write(content)


@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file whose content is put there for good when all is written; otherwise what was there stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.new")
    try:
        with beside.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except Exception:
        with suppress(OSError):  # half a file would keep a full disk full
            beside.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in the folder outlive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def frame_bytes(frame: pd.DataFrame) -> bytes:
    """A frame as one Parquet file, the same bytes for the same content."""
    sink = pa.BufferOutputStream()
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    pq.write_table(table, sink, compression="zstd", write_statistics=False)
    return bytes(sink.getvalue())


def read_frame(path: Path, table: Table) -> pd.DataFrame:
    """A small table of the store; empty when there is no such file."""
    if not path.exists():
        return table.empty()
    frame = pq.read_table(path, memory_map=False).to_pandas()
    for name, dtype in table.columns.items():
        if dtype == "object" and name in frame:
            frame[name] = pd.Series([list(row) if row is not None else [] for row in frame[name]], dtype=object)
    return conform(frame, table)


def day_text(day: int) -> str:
    """2026-01-04 of a day counted since 1970."""
    return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")


def day_number(text: str) -> int:
    """The day counted since 1970 of 2026-01-04."""
    return int(datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()) // 86_400


def node_folder(node: str) -> str:
    """A folder name that no node can leave its folder by."""
    return quote(node, safe=" ").replace(".", "%2E") if node.startswith(".") else quote(node, safe=" ")


class Store:
    """A store that exists; `create` and `open` make one."""

    def __init__(self, path: Path, step_ns: int) -> None:
        self.path = path
        self.step_ns = step_ns

    @classmethod
    def create(cls, path: Path, step_ns: int = 30_000_000_000) -> Self:
        """A new store, or the one that is there when its step is the same.

        Raises
        ------
        UsageError
            The step does not divide a day, or the store that is there has another.
        InputError
            The folder holds something else.
        """
        if (path / "store.json").exists():
            store = cls.open(path)
            if store.step_ns != step_ns:
                raise UsageError(
                    f"{path} has a step of {store.step_ns // 10**9}s, not {step_ns // 10**9}s; "
                    "a store's step is fixed when it is made: leave --step out or make another store"
                )
            return store
        if step_ns <= 0 or DAY_NS % step_ns:
            raise UsageError(f"step {step_ns / 1e9:g}s does not divide a day; take one that does, e.g. 15s, 30s or 1m")
        if path.exists() and (not path.is_dir() or any(not child.name.startswith(".") for child in path.iterdir())):
            raise InputError(f"{path} is there and is no store; name a new folder")
        replace_file(path / "store.json", json.dumps({"format": FORMAT, "step_ns": step_ns}).encode() + b"\n")
        return cls(path, step_ns)

    @classmethod
    def open(cls, path: Path) -> Self:
        """The store in this folder.

        Raises
        ------
        InputError
            There is none, or it is of a format this version does not know.
        """
        try:
            said = json.loads((path / "store.json").read_text(encoding="utf-8"))
            found, step_ns = int(said["format"]), int(said["step_ns"])
        except OSError as error:
            raise InputError(f"{path} holds no store; 'foreshock ingest {path} --metrics ...' makes one") from error
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path}/store.json is damaged; ingest the exports into a new store") from error
        if found != FORMAT or step_ns <= 0 or DAY_NS % step_ns:
            raise InputError(f"{path} is a store of format {found}, this version reads {FORMAT}; ingest anew")
        return cls(path, step_ns)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Hold the store for writing.

        Raises
        ------
        BusyError
            Another run holds it.
        """
        with (self.path / ".lock").open("w", encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise BusyError(f"{self.path} is being written by another run; try again when it is done") from error
            yield

    @cached_property
    def cache_dir(self) -> Path:
        """Where results that can be computed again are kept."""
        folder = self.path / "cache"
        folder.mkdir(exist_ok=True)
        return folder

    def panel_path(self, node: str, day: int) -> Path:
        """The file of a node's samples of a day."""
        return self.path / "panels" / node_folder(node) / f"{day_text(day)}.parquet"

    def logs_path(self, node: str, day: int) -> Path:
        """The file of a node's log lines of a day."""
        return self.path / "logs" / node_folder(node) / f"{day_text(day)}.parquet"

    def nodes(self) -> list[str]:
        """Every node with samples or log lines, sorted."""
        return sorted({*self._folders("panels"), *self._folders("logs")})

    def days(self, node: str) -> list[int]:
        """Days (counted since 1970) for which the node has samples."""
        return self._days("panels", node)

    def log_days(self, node: str) -> list[int]:
        """Days (counted since 1970) for which the node has log lines."""
        return self._days("logs", node)

    def _folders(self, kind: str) -> list[str]:
        folder = self.path / kind
        if not folder.is_dir():
            return []
        return [unquote(child.name) for child in folder.iterdir() if next(child.glob("[0-9]*.parquet"), None)]

    def _days(self, kind: str, node: str) -> list[int]:
        files = (self.path / kind / node_folder(node)).glob("[0-9]*.parquet")
        return sorted(day_number(path.stem) for path in files)

    def panel(self, node: str, start_ns: int, end_ns: int, wanted: Callable[[str], bool] | None = None) -> Panel:
        """The raw cells of a node that start in ``[start_ns, end_ns)``; an absent day is all NaN.

        With ``wanted`` only the series of metrics that it says yes to are read.
        """
        cells = Cells(start_ns, end_ns, self.step_ns)
        if not len(cells.times):
            return Panel(node, cells.times, (), np.empty((0, 0)))
        days = range(int(cells.times[0]) // DAY_NS, int(cells.times[-1]) // DAY_NS + 1)
        parts = {day: read_values(path, wanted) for day in days if (path := self.panel_path(node, day)).exists()}
        names = sorted({series for names, _ in parts.values() for series in names})
        if len(parts) == 1 and len(days) == 1:
            ((_, values),) = parts.values()
            low = int(cells.times[0] % DAY_NS) // self.step_ns
            return Panel(node, cells.times, tuple(names), values[:, low : low + len(cells.times)])
        values = np.full((len(names), len(cells.times)), np.nan)
        rows = {series: row for row, series in enumerate(names)}
        for day, (held, block) in parts.items():
            first = (day * DAY_NS - int(cells.times[0])) // self.step_ns
            low, high = max(first, 0), min(first + block.shape[1], values.shape[1])
            values[[rows[series] for series in held], low:high] = block[:, low - first : high - first]
        return Panel(node, cells.times, tuple(names), values)

    def logs(self, start_ns: int, end_ns: int, nodes: list[str] | None = None) -> pd.DataFrame:
        """The log lines in ``[start_ns, end_ns)``, by node and time."""
        first, last = start_ns // DAY_NS, -(-end_ns // DAY_NS)
        days = [
            (self.logs_path(node, day), node, day)
            for node in (self._folders("logs") if nodes is None else nodes)
            for day in self.log_days(node)
            if first <= day < last
        ]
        frames = []
        for _, node, day in sorted(days):
            for frame in self.log_batches(node, day):
                times = frame["time"].astype("int64")
                inside = (times >= start_ns) & (times < end_ns)
                if inside.any():
                    frames.append(frame if inside.all() else frame[inside])
        return pd.concat(frames, ignore_index=True) if frames else LOGS.empty()

    def log_batches(self, node: str, day: int, most: int = 65_536) -> Iterator[pd.DataFrame]:
        """A day's log lines of a node in time order, at most so many at once: frames of LOGS."""
        with pq.ParquetFile(self.logs_path(node, day), memory_map=False) as file:
            for batch in file.iter_batches(batch_size=most, use_threads=False):
                yield conform(batch.to_pandas(), LOGS)

    def gpus(self) -> pd.DataFrame:
        """Which GPU was seen at which PCI address, the last known one: GPUS."""
        return read_frame(self.path / "gpus.parquet", GPUS)

    def address_book(self) -> dict[str, list[str]]:
        """Scraped addresses and every node that was named in series scraped there."""
        path = self.path / "addresses.json"
        book: dict[str, list[str]] = json.loads(path.read_bytes()) if path.exists() else {}
        return book

    def first_codes(self) -> dict[tuple[str, str], tuple[int, float]]:
        """By node and `features.gauge.device`, time [ns] and code of the first sample of its gauge of XIDs."""
        path = self.path / "first_codes.json"
        rows = json.loads(path.read_bytes()) if path.exists() else []
        return {(node, device): (time, code) for node, device, time, code in rows}

    def stamps(self, node: str, day: int, wanted: Callable[[str], bool]) -> dict[Series, NDArray[np.int64]]:
        """When a day's samples were taken, int64 [T] (-1 without one), of the metrics that `wanted` says yes to."""
        path = self.panel_path(node, day)
        return dict(zip(*read_stamps(path, wanted), strict=True)) if path.exists() else {}

    def addresses(self) -> dict[str, str]:
        """Addresses that are one node's; one with series of several nodes (kube-state-metrics) is none's."""
        return {address: nodes[0] for address, nodes in self.address_book().items() if len(nodes) == 1}

    def sessions(self) -> pd.DataFrame:
        """Tries of training jobs: SESSIONS."""
        return read_frame(self.path / "sessions.parquet", SESSIONS)

    def incidents(self) -> pd.DataFrame:
        """Incidents that were given: node, start, end, kind."""
        return read_frame(self.path / "incidents.parquet", INCIDENTS)

    def span(self) -> tuple[int, int]:
        """``[start, end)`` in nanoseconds that the samples cover, or the log lines when there are none.

        Raises
        ------
        InputError
            The store is empty.
        """
        for kind in ("panels", "logs"):
            spans = [self._node_span(kind, node) for node in self._folders(kind)]
            if spans:
                starts, ends = zip(*spans, strict=True)
                # the cell that holds the last sample ends here
                return min(starts) // self.step_ns * self.step_ns, (max(ends) // self.step_ns + 1) * self.step_ns
        raise InputError(f"{self.path} is empty; 'foreshock ingest {self.path} --metrics PATH --logs PATH' fills it")

    def node_span(self, node: str) -> tuple[int, int]:
        """Times [ns] of a node's first and last sample, or of its log lines when it has no samples."""
        return self._node_span("panels" if self.days(node) else "logs", node)

    def _node_span(self, kind: str, node: str) -> tuple[int, int]:
        days = self._days(kind, node)
        said = [self._day_statistics(kind, node, day) for day in (days[0], days[-1])]
        return said[0]["first_ns"], said[1]["last_ns"]

    def totals(self) -> dict[str, int]:
        """Nodes, distinct series of a node, cells with a sample, log lines."""
        series: set[tuple[str, str]] = set()
        samples = lines = 0
        for node in self._folders("panels"):
            for day in self.days(node):
                said = self._day_statistics("panels", node, day)
                samples += said["samples"]
                series.update((node, name) for name in said["series"])
        for node in self._folders("logs"):
            lines += sum(self._day_statistics("logs", node, day)["lines"] for day in self.log_days(node))
        return {"nodes": len(self.nodes()), "series": len(series), "samples": samples, "log_lines": lines}

    def _day_statistics(self, kind: str, node: str, day: int) -> dict[str, Any]:
        if kind == "panels":
            return day_statistics(self.panel_path(node, day))
        return lines_statistics(self.logs_path(node, day))

    def inputs(self) -> list[dict[str, Any]]:
        """What was taken in, in the order of its digests."""
        return [json.loads(path.read_bytes()) for path in sorted((self.path / "inputs").glob("[0-9a-f]*.json"))]

    def day_digest(self, node: str, day: int) -> str:
        """SHA-256 of what the store holds of a node's samples of a day; "" for nothing."""
        path = self.panel_path(node, day)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""

    def digest(self) -> str:
        """SHA-256 of all content: equal for equal content, however it came in."""
        whole = hashlib.sha256()
        small = [self.path / name for name in _SMALL]
        large = [path for kind in ("panels", "logs") for path in (self.path / kind).glob("*/[0-9]*.parquet")]
        for path in (*small, *sorted(large)):
            if path.exists():
                whole.update(str(path.relative_to(self.path)).encode() + b"\0")
                whole.update(hashlib.sha256(path.read_bytes()).digest())
        return whole.hexdigest()

    def held_lines(self, node: str, day: int) -> Iterator[Any]:
        """What the store holds of a node's log lines of a day: Arrow batches of its rows, in order."""
        path = self.logs_path(node, day)
        if path.exists():
            with pq.ParquetFile(path, memory_map=False) as file:
                yield from file.iter_batches(use_threads=False)

    def put_lines(self, node: str, day: int, groups: Iterator[Any]) -> None:
        """Write a node's log lines of a day; ``groups`` of `DayLines` hold what the store held."""
        said: dict[str, Any] = {"compression": "zstd", "write_statistics": False}
        with replacing(self.logs_path(node, day)) as file, pq.ParquetWriter(file, LINES_SCHEMA, **said) as writer:
            for group in groups:
                writer.write_table(group)

    def merge_day(self, node: str, day: int, cells: Cells) -> None:
        """Write a node's day; ``cells`` come from `day_cells` and hold what the store held."""
        replace_file(self.panel_path(node, day), write_day(cells, self.step_ns))

    def day_cells(self, node: str, day: int) -> Cells:
        """What the store holds of a node's day, ready to be added to."""
        cells = Cells(day * DAY_NS, (day + 1) * DAY_NS, self.step_ns)
        path = self.panel_path(node, day)
        if path.exists():
            read_day(path, cells)
        return cells
