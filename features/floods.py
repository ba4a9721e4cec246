"""Floods of log lines: what a node says beyond so many lines in a stretch is counted, not kept.

Stretches are the spans that every window is made of, so a window is the same whether its lines came alone or with a
month's. In one with more lines than `TemplateSettings.flood_lines` equal lines of a minute become one row with their
count, and of different texts the first so many are kept: the rest are one text that no template knows. So neither a
million equal lines nor a million different ones take more room than a few hundred.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from features.settings import WindowSettings, to_nanoseconds

FLOOD = "<FLOOD>"
_DAY_NS = 86_400 * 1_000_000_000
_MINUTE_NS = 60 * 1_000_000_000  # templates are rated by minutes in which they are heard


def stretch(settings: WindowSettings) -> int:
    """Nanoseconds of the longest stretch that windows are made of, and days: lines are kept by day."""
    return gcd(to_nanoseconds(settings.length), to_nanoseconds(settings.stride), _DAY_NS)


def folded(table: pd.DataFrame, stretch_ns: int, most: int) -> tuple[pd.DataFrame, int]:
    """Lines of `features.masking.lines_table` with floods folded, and how many lines lost their text.

    Parameters
    ----------
    table
        All lines of its nodes in the stretches that it touches, in the table's own order.
    most
        Lines of a node in a stretch, and different texts of them, that are left as they are.
    """
    node = table["node"].cat.codes.to_numpy().astype(np.int64)
    time = table["time"].astype("int64").to_numpy()
    _, which, count = np.unique(_joint(node, time // stretch_ns), return_inverse=True, return_counts=True)
    over = count[which] > most
    if not over.any():
        return table, 0
    text = table["masked"].cat.codes.to_numpy().astype(np.int64)
    lost = np.zeros(len(table), dtype=bool)
    rows = np.flatnonzero(over)
    lost[rows] = _beyond(which[rows], text[rows], most)
    known = table["masked"].cat.categories
    flood = int(known.get_indexer(pd.Index([FLOOD]))[0]) if FLOOD in known else len(known)
    masked, example = (_replaced(table[name], lost, flood) for name in ("masked", "example"))
    source, flags = table["source"].cat.codes.to_numpy(), 2 * table["kernel"].to_numpy() + table["error"].to_numpy()
    alike = _joint(which, time // _MINUTE_NS, np.where(lost, -1, text), source, flags)
    # what is no flood stays line by line
    alike = np.where(over, alike, alike.max() + 1 + np.arange(len(table)))
    _, first, back = np.unique(alike, return_index=True, return_inverse=True)
    total = np.zeros(len(first), dtype=np.int64)
    np.add.at(total, back, table["count"].to_numpy())
    order = np.argsort(first)
    kept = table.assign(masked=masked, example=example).iloc[first[order]].assign(count=total[order])
    return _trimmed(kept), int(table["count"].to_numpy()[lost].sum())


def _trimmed(table: pd.DataFrame) -> pd.DataFrame:
    """The table without texts that no row has; a masked text and its example keep one code."""
    codes = table["masked"].cat.codes.to_numpy()
    used, place = np.unique(codes, return_inverse=True)
    parts = {
        name: pd.Categorical.from_codes(place, categories=table[name].cat.categories[used])
        for name in ("masked", "example")
    }
    return table.assign(**parts).reset_index(drop=True)


def joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Tables of different nodes or stretches as one, as if their lines had been masked together."""
    if len(tables) == 1:
        return tables[0]
    node, source = (_united([table[name] for table in tables]) for name in ("node", "source"))
    time = np.concatenate([table["time"].astype("int64").to_numpy() for table in tables])
    order = np.lexsort((np.asarray(node.codes), time))
    texts = [_arrow(table["masked"].cat.categories) for table in tables]
    shown = pa.chunked_array([_arrow(table["example"].cat.categories) for table in tables], pa.large_string())
    every = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode()
    starts = np.cumsum([0, *(len(part) for part in texts)])
    held = np.concatenate(
        [table["masked"].cat.codes.to_numpy() + start for table, start in zip(tables, starts, strict=False)]
    )
    place = every.indices.to_numpy(zero_copy_only=False)[held][order]
    # a text's example is the line that was first in time
    kind, names = pd.factorize(place)
    example = shown.take(pa.array(held[order][np.unique(kind, return_index=True)[1]]))
    found = {
        "node": node[order],
        "time": pd.DatetimeIndex(time[order].view("datetime64[ns]")).tz_localize("UTC"),
        "source": source[order],
        "masked": pd.Categorical.from_codes(kind, categories=_index(every.dictionary.take(pa.array(names)))),
        "example": pd.Categorical.from_codes(kind, categories=_index(example.combine_chunks())),
    }
    rest = {
        name: np.concatenate([table[name].to_numpy() for table in tables])[order]
        for name in ("kernel", "error", "count")
    }
    return pd.DataFrame({**found, **rest})


def _joint(*codes: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """One number for each combination of codes."""
    out = np.zeros(len(codes[0]), dtype=np.int64)
    for code in codes:
        place = np.unique(code, return_inverse=True)[1]
        out = np.unique(out * (int(place.max(initial=0)) + 1) + place, return_inverse=True)[1].astype(np.int64)
    return out


def _beyond(which: NDArray[np.integer[Any]], text: NDArray[np.int64], most: int) -> NDArray[np.bool_]:
    """Lines whose text is not among the first ``most`` different ones of their stretch."""
    pairs, first, back = np.unique(_joint(which, text), return_index=True, return_inverse=True)
    order = np.lexsort((first, which[first]))
    of = which[first][order]
    rank = np.empty(len(pairs), dtype=np.int64)
    rank[order] = np.arange(len(pairs)) - np.searchsorted(of, of)
    return np.asarray((rank >= most)[back])


def _replaced(column: pd.Series, lost: NDArray[np.bool_], flood: int) -> pd.Categorical:
    """The texts with those that are lost as `FLOOD`, whose code is given: one of theirs or the next."""
    known = column.cat.categories
    names = known if flood < len(known) else known.append(pd.Index([FLOOD], dtype=known.dtype))
    return pd.Categorical.from_codes(np.where(lost, flood, column.cat.codes.to_numpy()), categories=names)


def _united(columns: Sequence[pd.Series]) -> pd.Categorical:
    names = sorted({str(name) for column in columns for name in column.cat.categories})
    place = {name: code for code, name in enumerate(names)}
    parts = [np.array([place[str(name)] for name in column.cat.categories], dtype=np.int64) for column in columns]
    codes = [part[column.cat.codes.to_numpy()] for part, column in zip(parts, columns, strict=True)]
    return pd.Categorical.from_codes(np.concatenate(codes), categories=pd.Index(names, dtype="str"))


def _arrow(texts: pd.Index[str]) -> pa.Array:
    found = pa.array(texts, type=pa.large_string())
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _index(texts: pa.Array) -> pd.Index[str]:
    found: pd.Index[str] = pd.Index(texts.to_pandas().array)
    return found
