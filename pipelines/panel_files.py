"""One node's day of cells as a Parquet file, and back.

The columns are ``time``, one a series named ``metric|gpu``, and ``offset:0``, ``offset:1``...: when in its cell
each sample was taken. Series scraped together share an offset column. Reading a panel leaves the offsets
out; they decide which sample is the last of a cell when another input holds samples of the same day.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features.tables import InputError, Series
from pipelines.grid import Cells

_LOOK_BACK = 8  # offset columns tried for a series: targets of a node are few; more only costs space


def column_name(series: Series) -> str:
    """``metric|gpu``; a GPU holds no bar, so the last bar divides."""
    return f"{series.metric}|{series.gpu}"


def split_name(name: str) -> Series:
    """The series of a column."""
    metric, _, gpu = name.rpartition("|")
    return Series(metric, gpu)


def _share_offsets(offsets: NDArray[np.int64]) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Offset columns [T] that serve all rows of ``offsets`` [S, T] (-1 without a sample), and which serves which."""
    pool: list[NDArray[np.int64]] = []
    which = []
    for row in offsets:
        taken = row >= 0
        for index in range(len(pool) - 1, max(-1, len(pool) - 1 - _LOOK_BACK), -1):
            known = pool[index]
            if not ((known != row) & taken & (known >= 0)).any():
                np.maximum(known, row, out=known)
                which.append(index)
                break
        else:
            which.append(len(pool))
            pool.append(row.copy())
    return pool, which


def _narrow(row: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
    """float32 where that loses nothing."""
    with np.errstate(over="ignore"):
        small = row.astype(np.float32)
    return small if np.array_equal(small.astype(np.float64), row, equal_nan=True) else row


def write_day(cells: Cells, step_ns: int) -> bytes:
    """The file's bytes; the same for the same cells, however they came to be."""
    names = cells.names()
    columns: list[Any] = [pa.array(cells.times, type=pa.timestamp("ns", tz="UTC"))]
    stamps = np.empty((len(names), len(cells.times)), dtype=np.int64)
    for index, series in enumerate(names):
        values, stamps[index] = cells.row(series)
        columns.append(pa.array(_narrow(values)))
    known = stamps[stamps >= 0]
    offsets = np.where(stamps >= 0, stamps - cells.times, -1)
    pool, which = _share_offsets(offsets)
    titles = ["time", *(column_name(series) for series in names), *(f"offset:{index}" for index in range(len(pool)))]
    columns.extend(pa.array(row) for row in pool)
    said = {
        "offsets": which,
        "step_ns": step_ns,
        "samples": len(known),
        "first_ns": int(known.min()) if len(known) else 0,
        "last_ns": int(known.max()) if len(known) else 0,
    }
    # Nothing is null (missing is NaN), and saying so spares a reader its null maps. LZ4 takes 14 % more space than
    # zstd on a node-day of 1,540 series and opens it in two thirds of the time; it is read many times.
    schema = pa.schema(
        [pa.field(title, column.type, nullable=False) for title, column in zip(titles, columns, strict=True)]
    )
    table = pa.table(columns, schema=schema)
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink,
        table.schema,
        compression="lz4",
        use_dictionary=False,
        use_byte_stream_split=titles[1 : 1 + len(names)],
        write_statistics=False,
        store_schema=False,
    ) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({"foreshock": json.dumps(said)})
    return bytes(sink.getvalue())


def _open(path: Path) -> Any:
    try:
        return pq.ParquetFile(path, memory_map=True, pre_buffer=False)
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is damaged; delete it and ingest its exports again: {error}") from error


def read_values(path: Path, wanted: Callable[[str], bool] | None = None) -> tuple[list[Series], NDArray[np.float64]]:
    """The day's series and float64 values [S, T]; with ``wanted`` only of the metrics it says yes to.

    Raises
    ------
    InputError
        The file is damaged.
    """
    file = _open(path)
    titles = [name for name in file.schema_arrow.names if "|" in name]
    if wanted is not None:
        titles = [name for name in titles if wanted(split_name(name).metric)]
    table = file.read_row_group(0, columns=titles, use_threads=False)
    values = np.empty((len(titles), file.metadata.num_rows))
    for row, column in enumerate(table.itercolumns()):
        values[row] = column.chunk(0).to_numpy()
    return [split_name(title) for title in titles], values


def read_stamps(path: Path, wanted: Callable[[str], bool]) -> tuple[list[Series], NDArray[np.int64]]:
    """When the samples of these metrics were taken, int64 [S, T]; -1 in a cell without one."""
    file = _open(path)
    names = [name for name in file.schema_arrow.names if "|" in name]
    which = json.loads(file.metadata.metadata[b"foreshock"])["offsets"]
    picked = {
        name: f"offset:{index}" for name, index in zip(names, which, strict=True) if wanted(split_name(name).metric)
    }
    table = file.read_row_group(0, columns=["time", *picked, *sorted(set(picked.values()))], use_threads=False)
    starts = table.column("time").to_numpy().astype("datetime64[ns]").astype(np.int64)
    out = np.full((len(picked), len(starts)), -1, dtype=np.int64)
    for row, (name, offset) in enumerate(picked.items()):
        there = ~np.isnan(table.column(name).to_numpy())
        out[row, there] = (starts + table.column(offset).to_numpy())[there]
    return [split_name(name) for name in picked], out


def read_day(path: Path, cells: Cells) -> None:
    """Fill cells with the day's values and the times of its samples."""
    file = _open(path)
    table = file.read(use_threads=False)
    which = json.loads(file.metadata.metadata[b"foreshock"])["offsets"]
    names = [name for name in table.column_names if "|" in name]
    for name, index in zip(names, which, strict=True):
        values = table.column(name).to_numpy().astype(np.float64)
        offsets = table.column(f"offset:{index}").to_numpy()
        cells.put(split_name(name), values, np.where(np.isnan(values), -1, cells.times + offsets))


def day_statistics(path: Path) -> dict[str, Any]:
    """Counts and span of the day from the file's footer, and the names of its series."""
    file = _open(path)
    said: dict[str, Any] = json.loads(file.metadata.metadata[b"foreshock"])
    return {**said, "series": [name for name in file.schema_arrow.names if "|" in name]}
