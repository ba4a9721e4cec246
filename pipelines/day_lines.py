"""A node's day of log lines, folded and in order, however many there are.

Usual days are held in memory. One that is too large, as a flood of a million lines makes it, is folded and sorted by a
database that lies beside the store without a name, so that a run which is killed leaves nothing there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from features.tables import LOGS, conform

MEMORY_BYTES = 64 << 20  # text and numbers of a day that is held; folding and sorting take some times as much
GROUP_BYTES = 64 << 20  # of messages in a row group, so that no reader has to hold more
GROUP_ROWS = 1 << 20
_AT_ONCE = 16_384  # rows that are Python objects at a time
_LARGE = 1 << 20  # bytes of messages that are
_CACHE_KIB = 65_536  # of the database
_COLUMNS = [*LOGS.columns, "seq"]
SCHEMA = pa.schema(
    [
        ("node", pa.large_string()), ("time", pa.timestamp("ns", tz="UTC")), ("source", pa.large_string()),
        ("severity", pa.large_string()), ("message", pa.large_string()), ("kernel", pa.bool_()),
        ("count", pa.int64()), ("seq", pa.int64()),
    ]
)  # fmt: skip
_TABLE = """
    CREATE TABLE held (time INT, source TEXT, message TEXT, input INT, severity TEXT, kernel INT, count INT, seq INT,
        PRIMARY KEY (time, source, message, input)) WITHOUT ROWID
"""
_HOLD = """
    INSERT INTO held VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET severity = max(severity,
        excluded.severity), kernel = max(kernel, excluded.kernel), count = count + excluded.count,
        seq = min(seq, excluded.seq)
"""
_FOLDED = """
    SELECT time, source, max(severity), message, max(kernel), max(count), min(seq) AS first FROM held {where}
        GROUP BY time, source, message {order}
"""
_Row = tuple[int, str, str, str, int, int, int]  # as `_FOLDED` gives it


class DayLines:
    """Give it what every input holds with `add`; `groups` gives the day.

    Equal lines of one time (by node, time, source and message) are one row. Within an input each was a line, so their
    counts are summed; between inputs the same line may have been exported twice, so the largest count holds.

    Parameters
    ----------
    node
        Whose lines they are now, whatever node they are said to be of.
    folder
        Where the database would lie.
    """

    def __init__(self, node: str, folder: Path, memory_bytes: int = MEMORY_BYTES) -> None:
        self._node = node
        self._folder = folder
        self._memory_bytes = memory_bytes
        self._held: list[tuple[int, Any]] = []
        self._size = 0
        self._database: sqlite3.Connection | None = None

    def add(self, number: int, rows: Any) -> None:
        """Lines of the input of this number: an Arrow batch with the columns of `LOGS` and ``seq``, their order."""
        self._held.append((number, rows))
        self._size += rows.nbytes
        if self._size > self._memory_bytes:
            self._to_disk()

    def groups(self) -> Iterator[Any]:
        """Arrow tables, each one row group of the day's file; where they end depends on the lines alone."""
        if self._database is None:
            yield from _grouped([_table(self._folded())])
            return
        self._to_disk()
        yield from _grouped(self._table_of(rows) for rows in self._sorted(self._database))
        self._database.close()

    def _folded(self) -> pd.DataFrame:
        by_input: dict[int, list[pd.DataFrame]] = {}
        for number, rows in self._held:
            by_input.setdefault(number, []).append(rows.to_pandas())
        frames = [_fold(pd.concat(parts, ignore_index=True), "sum") for parts in by_input.values()]
        return conform(_fold(pd.concat(frames, ignore_index=True).assign(node=self._node), "max"), LOGS)[_COLUMNS]

    def _to_disk(self) -> None:
        if self._database is None:
            self._database = _made(self._folder)
        while self._held:
            number, rows = self._held.pop(0)
            self._database.executemany(_HOLD, _tuples(rows, number))
        self._size = 0

    def _sorted(self, database: sqlite3.Connection) -> Iterator[list[_Row]]:
        """Folded rows, some at a time; the table's own order is that of time, where ``seq`` decides within one time."""
        rows: list[_Row] = []
        size = 0
        sorted_already: int | None = None
        for row in database.execute(_FOLDED.format(where="", order="")):
            if row[0] == sorted_already:
                continue
            if (len(rows) >= _AT_ONCE or size >= _LARGE) and row[0] != rows[-1][0]:
                yield sorted(rows, key=_order)
                rows, size = [], 0
            rows.append(row)
            size += len(row[3])
            if len(rows) >= 4 * _AT_ONCE or size >= 4 * _LARGE:  # very many lines of one time
                sorted_already = row[0]
                before = [other for other in rows if other[0] != sorted_already]
                if before:
                    yield sorted(before, key=_order)
                yield from _of_one_time(database, sorted_already)
                rows, size = [], 0
        if rows:
            yield sorted(rows, key=_order)

    def _table_of(self, rows: list[_Row]) -> Any:
        times, *columns = zip(*rows, strict=True)
        kinds = [field.type for field in SCHEMA][2:]
        plain = [pa.int64() if kind == pa.bool_() else kind for kind in kinds]
        arrays = [pa.array(*told).cast(kind) for *told, kind in zip(columns, plain, kinds, strict=True)]
        named = pa.array([self._node] * len(rows), pa.large_string())
        stamps = pa.array(times, pa.int64()).cast(SCHEMA.field("time").type)
        return pa.Table.from_arrays([named, stamps, *arrays], schema=SCHEMA)


def _order(row: _Row) -> tuple[int, int]:
    return row[0], row[-1]


def _of_one_time(database: sqlite3.Connection, time: int) -> Iterator[list[_Row]]:
    """Rows of a time that has too many to be sorted here."""
    rows: list[_Row] = []
    size = 0
    for row in database.execute(
        _FOLDED.format(where="WHERE time = ?", order="ORDER BY first, source, message"), [time]
    ):
        rows.append(row)
        size += len(row[3])
        if len(rows) >= _AT_ONCE or size >= _LARGE:
            yield rows
            rows, size = [], 0
    if rows:
        yield rows


def lines_statistics(path: Path) -> dict[str, int]:
    """Times [ns] of the first and last line of a day's file, and how many lines its rows stand for."""
    first = last = lines = 0
    with pq.ParquetFile(path, memory_map=False) as file:
        for batch in file.iter_batches(columns=["time", "count"], use_threads=False):
            times = batch.column(0).cast(pa.int64())
            first, last = first or times[0].as_py(), times[-1].as_py()
            lines += pc.sum(batch.column(1)).as_py()
    return {"first_ns": first, "last_ns": last, "lines": lines}


def _made(folder: Path) -> sqlite3.Connection:
    path = folder / ".lines"
    path.unlink(missing_ok=True)
    database = sqlite3.connect(path, isolation_level=None)
    for pragma in ("journal_mode=OFF", "synchronous=OFF", "locking_mode=EXCLUSIVE", f"cache_size=-{_CACHE_KIB}"):
        database.execute(f"PRAGMA {pragma}")
    database.execute(_TABLE)
    path.unlink()
    database.execute("BEGIN")
    return database


def _tuples(rows: Any, number: int) -> Iterator[tuple[Any, ...]]:
    for low in range(0, rows.num_rows, _AT_ONCE):
        part = rows.slice(low, _AT_ONCE)
        names = ("time", "source", "message", "severity", "kernel", "count", "seq")
        time, *columns = (part.column(part.schema.get_field_index(name)) for name in names)
        source, message, *others = (column.to_pylist() for column in columns)
        stamps = time.cast(SCHEMA.field("time").type).cast(pa.int64()).to_pylist()
        yield from zip(stamps, source, message, repeat(number), *others, strict=False)


def _fold(frame: pd.DataFrame, how: str) -> pd.DataFrame:
    """Rows of one key as one, in time order; ``how`` their counts are put together."""
    key = list(LOGS.key)
    if frame.duplicated(key).any():
        rule = {"severity": "max", "kernel": "max", "count": how, "seq": "min"}
        frame = frame.groupby(key, as_index=False, sort=False).agg(rule)
    return frame.sort_values(["time", "seq", "source", "message"], ignore_index=True)


def _table(frame: pd.DataFrame) -> Any:
    return pa.Table.from_pandas(frame, schema=SCHEMA, preserve_index=False).replace_schema_metadata(None)


def _grouped(tables: Iterable[Any]) -> Iterator[Any]:
    """The same rows in tables of at most `GROUP_ROWS` rows and `GROUP_BYTES` of messages (or one message)."""
    held: list[Any] = []
    rows = size = 0
    for table in tables:
        low = 0
        lengths = np.cumsum(pc.binary_length(table.column("message")).to_numpy(), dtype=np.int64)
        while low < len(table):
            before = int(lengths[low - 1]) if low else 0
            fits = int(np.searchsorted(lengths, GROUP_BYTES - size + before, side="right")) - low
            fits = min(fits, GROUP_ROWS - rows)
            if fits <= 0 and held:
                yield _joined(held)
                rows = size = 0
                continue
            fits = max(fits, 1)
            held.append(table.slice(low, fits))
            low, rows, size = low + fits, rows + fits, size + int(lengths[low + fits - 1]) - before
    if held:
        yield _joined(held)


def _joined(held: list[Any]) -> Any:
    """The tables as one; they are let go, so that it is there once."""
    whole = pa.concat_tables(held).combine_chunks()
    held.clear()
    return whole
