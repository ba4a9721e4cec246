"""A node-day's rows as a Parquet file, and which columns of a history say nothing of their own.

A file holds each series of values once, with the names of all columns that have it: of a node-day's 4,300 columns at
full width 2,600 differ (the mean, the least and the most of what never moves are one, and a fan of a GPU that has
none is another's). So nothing is lost, and a file is read back bit for bit.

Over a whole history a column is left out of training when no node-day has a value of it, or when it is equal to
another one, bit for bit, on every node and day. A column that never moved stays as long as its metric has no other
that says so: that it moves at last may be the first sign of all.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from features import matrix, names
from features.tables import InputError

Digests = NDArray[np.uint64]
_NOTHING = 0  # digest of a column without a value
_MIX = np.uint64(0x9E3779B97F4A7C15)  # odd, so that no bit of an earlier day is lost: 2^64 over the golden ratio


class Kinds(NamedTuple):
    """A node-day's columns [C], what tells their values apart, and whether a column never moves."""

    columns: list[str]
    digests: Digests
    still: NDArray[np.bool_]


def write(rows: pd.DataFrame, ends: NDArray[np.int64]) -> bytes:
    """The file's bytes; the same for the same rows."""
    values = np.array(rows.to_numpy(dtype=np.float32).T, order="C")
    values[np.isnan(values)] = np.nan  # one of the many NaNs
    bits = values.view(np.uint32)
    said = [hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in bits]
    digests = np.frombuffer(b"".join(said), dtype=np.uint64).copy()
    digests[np.isnan(values).all(axis=1)] = _NOTHING
    _, first, which = np.unique(digests, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.argsort(order)[which]
    titles = rows.columns.to_numpy(dtype=object)[np.argsort(place, kind="stable")]
    edges = np.concatenate(([0], np.cumsum(np.bincount(place, minlength=len(first)))))
    kept = first[order]
    table = pa.table(
        {
            "columns": pa.ListArray.from_arrays(pa.array(edges, type=pa.int32()), pa.array(titles, type=pa.string())),
            "digest": pa.array(digests[kept]),
            "still": pa.array((bits[kept] == bits[kept, :1]).all(axis=1)),
            "values": pa.FixedSizeListArray.from_arrays(pa.array(values[kept].ravel()), len(ends)),
        }
    ).replace_schema_metadata({"ends": json.dumps(ends.tolist())})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd", use_dictionary=False, write_statistics=False)
    return bytes(sink.getvalue())


def read(path: Path, node: str, without: Collection[str] = (), only: Collection[str] | None = None) -> pd.DataFrame:
    """The rows of a node-day, the columns in the order of their names.

    Parameters
    ----------
    without
        Columns to leave out.
    only
        With it no others are read.

    Raises
    ------
    InputError
        The file is damaged; it is deleted, so that the next run makes it anew.
    """
    table = _table(path, ["columns", "values"])
    ends = np.array(json.loads(table.schema.metadata[b"ends"]), dtype=np.int64)
    titles, place = _columns(table)
    wanted = [at for at, name in enumerate(titles) if name not in without and (only is None or name in only)]
    wanted.sort(key=titles.__getitem__)
    values = table.column("values").combine_chunks().flatten().to_numpy(zero_copy_only=False)
    block = values.reshape(-1, len(ends))[place[wanted]].T
    return pd.DataFrame(block, index=matrix.index_of(node, ends), columns=[titles[at] for at in wanted])


def kinds(path: Path) -> Kinds:
    """What the file says of its columns, without their values.

    Raises
    ------
    InputError
        As `read`.
    """
    table = _table(path, ["columns", "digest", "still"])
    titles, place = _columns(table)
    digest, still = (table.column(name).to_numpy() for name in ("digest", "still"))
    return Kinds(titles, digest[place], still[place])


def _table(path: Path, columns: list[str]) -> pa.Table:
    try:
        table = pq.read_table(path, columns=columns, memory_map=False)
        table.schema.metadata[b"ends"]
    except (pa.ArrowInvalid, OSError, ValueError, KeyError, TypeError) as error:
        path.unlink(missing_ok=True)
        raise InputError(f"{path} was damaged and is deleted; run the command again") from error
    return table


def _columns(table: pa.Table) -> tuple[list[str], NDArray[np.int64]]:
    """Every column, and the row of the table that holds its values."""
    lists = table.column("columns").combine_chunks()
    counts = np.diff(lists.offsets.to_numpy())
    return lists.flatten().to_pylist(), np.repeat(np.arange(len(counts)), counts)


def idle(node_days: Iterable[Kinds]) -> dict[str, str]:
    """Columns that say nothing of their own over these node-days, and why.

    Presence and phases are always kept: others are judged by them.
    """
    place: dict[str, int] = {}
    mixed, still = np.empty(0, dtype=np.uint64), np.empty(0, dtype=bool)
    for day in node_days:
        new = [name for name in day.columns if name not in place]
        place.update(zip(new, range(len(place), len(place) + len(new)), strict=True))
        mixed = np.concatenate([mixed, np.zeros(len(new), dtype=np.uint64)])  # as one without a value before
        still = np.concatenate([still, np.ones(len(new), dtype=bool)])
        into = np.array([place[name] for name in day.columns], dtype=np.int64)
        today = np.full(len(mixed), _NOTHING, dtype=np.uint64)
        today[into] = day.digests
        mixed = (mixed + today) * _MIX
        still[into] &= day.still
    out: dict[str, str] = {}
    seen: dict[tuple[str, int], str] = {}
    for name in sorted(place):
        metric = names.split(name).metric
        at = place[name]
        if metric in {"presence", "phase"}:
            continue
        if mixed[at] == _NOTHING:
            out[name] = "no value"
            continue
        # of what never moves only the metric's own columns are alike: another metric may move when this one does not
        first = seen.setdefault((metric if still[at] else "", int(mixed[at])), name)
        if first != name:
            out[name] = f"same as {first}"
    return out
