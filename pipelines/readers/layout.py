"""What the columns of a metric table are, and its rows to chunks of samples; for CSV and Parquet alike.

- long: a time, a metric, a value, and labels (a column each, or one column of JSON or ``a="b"`` text)
- wide: a time, one column a metric; the node in a label column, or in the file's name
- node-gpu: ``Time`` and one column a GPU named ``<node>-<index>``, the metric in the file's name (AcmeTrace:
  https://github.com/InternLM/AcmeTrace)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pipelines.readers import times
from pipelines.readers.exposition import LABEL, unquote
from pipelines.readers.samples import ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally

_TIMES = ("time", "timestamp", "ts", "datetime", "date", "_time", "@timestamp", "__timestamp__")
_METRICS = ("metric", "__name__", "metric_name", "name")
_VALUES = ("value", "_value", "__value__", "metric_value")
_NODE_GPU = re.compile(r"^(.+)-(\d{1,2})$")
# 1767225600 to nanoseconds, or RFC 3339
_MOMENT = re.compile(r"(?:9|1\d|2\d)\d{8}(?:\d{3}){0,3}|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S{0,20}")
_METRIC = re.compile(r"[a-zA-Z_:][\w:]{1,200}")
_UUID = re.compile(r"(?:GPU|MIG)-[0-9a-fA-F]")
# How pandas writes the number of a row: as a label each row would be a series of its own
_ROW_NUMBER = re.compile(r"|unnamed: ?\d{1,4}|__index_level_\d{1,4}__")
_MOST_COMBINATIONS = 1 << 62
# AcmeTrace names DCGM's fields without their prefixes
_PROFILING = re.compile(r"^(GR_ENGINE|SM|PIPE_\w+|DRAM)_(ACTIVE|OCCUPANCY)$|^(PCIE|NVLINK)_[TR]X_BYTES$")


@dataclass(frozen=True)
class Layout:
    """Positions of a table's columns.

    Attributes
    ----------
    kind
        "long", "wide" or "node-gpu".
    time
        The time's.
    metric, value
        Of a long table; -1 otherwise.
    labels
        Position: label name. "labels" itself stands for a column that holds several.
    metrics
        Position: labels of the column's series, of a table that is not long.
    """

    kind: str
    time: int
    metric: int = -1
    value: int = -1
    labels: Mapping[int, str] = field(default_factory=dict)
    metrics: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


def find(names: list[str], context: ReadContext, time: int = -1) -> Layout | None:
    """The layout of columns of these names; None when no column is a time, or nothing is left beside it.

    ``time`` is the time column's position where its type tells it, else it is told by its name.
    """
    low = [name.strip().lower() for name in names]
    if time < 0:
        time = next((low.index(name) for name in _TIMES if name in low), -1)
    if time < 0:
        time = next((place for place, name in enumerate(low) if name.startswith("__timestamp__")), -1)
    if time < 0 or len(names) < 2:
        return None
    metric = next((low.index(name) for name in _METRICS if name in low), -1)
    value = next((low.index(name) for name in _VALUES if name in low), -1)
    rest = [place for place in range(len(names)) if place != time and not _ROW_NUMBER.fullmatch(low[place])]
    if metric >= 0 and value >= 0:
        labels = {place: names[place].strip() for place in rest if place not in {metric, value}}
        return Layout("long", time, metric, value, labels)
    if names[time].strip() == "Time" and all(_NODE_GPU.match(names[place]) for place in rest):
        return Layout("node-gpu", time, metrics={place: _acme(names[place], context.stem) for place in rest})
    labels = {place: names[place].strip() for place in rest if names[place].strip() in context.label_names}
    metrics = {place: {"__name__": names[place].strip()} for place in rest if place not in labels}
    return Layout("wide", time, labels=labels, metrics=metrics) if metrics else None


def headless(cells: list[str], context: ReadContext) -> Layout | None:
    """The layout of a table whose first row is no header, as VictoriaMetrics exports CSV; None when it is none.

    The columns are those that the user named, or told by what the row holds: a moment, a metric's name, the first
    other number, and GPUs by the form of their UUIDs. Other cells are labels that nobody named.
    """
    if len(context.csv_columns) == len(cells):
        return find([name.split(":")[0] for name in context.csv_columns], context)
    moments = [place for place, cell in enumerate(cells) if _MOMENT.fullmatch(cell.strip())]
    numbers = [place for place, cell in enumerate(cells) if place not in moments[:1] and not np.isnan(_number(cell))]
    names = [place for place, cell in enumerate(cells) if place not in numbers and _METRIC.fullmatch(cell.strip())]
    if len(moments) != 1 or not numbers or not names:
        return None
    rest = set(range(len(cells))) - {moments[0], numbers[0], names[0]}
    labels = {place: "UUID" if _UUID.match(cells[place]) else f"column_{place + 1}" for place in sorted(rest)}
    return Layout("long", moments[0], names[0], numbers[0], labels)


def _acme(column: str, stem: str) -> dict[str, str]:
    found = _NODE_GPU.match(column)
    node = found[1] if found else column
    if not stem.startswith(("DCGM_", "PROF_", "DEV_")):
        stem = f"{'PROF' if _PROFILING.match(stem) else 'DEV'}_{stem}"
    metric = stem if stem.startswith("DCGM_") else f"DCGM_FI_{stem}"
    return {"__name__": metric, "node": node, "UUID": column}


def chunks(layout: Layout, columns: list[Any], tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of some rows, given as Arrow arrays in the table's order."""
    stamps = _times(columns[layout.time], context.timezone)
    good = stamps > times.UNDATED
    if layout.kind == "long":
        yield from _long(layout, columns, stamps, tally, context)
        return
    _drop(stamps[~good], len(layout.metrics), tally)
    groups = _groups({name: columns[place] for place, name in layout.labels.items()}, good)
    for shared, rows in groups:
        if not context.node_labels & shared.keys():
            shared.setdefault("node", context.stem)
        for place, own in layout.metrics.items():
            column = columns[place] if rows is None else columns[place].take(pa.array(rows))
            values, there = _numbers(column, tally)
            when = stamps if rows is None else stamps[rows]
            if not there.all():
                values, when = values[there], when[there]
            chunk = clean({**shared, **own}, when, values, tally, context.latest_ns)
            if chunk is not None:
                yield chunk


def _long(
    layout: Layout, columns: list[Any], stamps: NDArray[np.int64], tally: Tally, context: ReadContext
) -> Iterator[SampleChunk]:
    values, there = _numbers(columns[layout.value], tally)
    good = stamps > times.UNDATED
    _drop(stamps[there & ~good], 1, tally)
    named = {"__name__": columns[layout.metric], **{name: columns[place] for place, name in layout.labels.items()}}
    for labels, rows in _groups(named, there & good):
        packed = labels.pop("labels", None)
        whole = {**_unpack(packed), **labels} if packed else labels
        if not context.node_labels & whole.keys():
            whole.setdefault("node", context.stem)
        kept = np.arange(len(values)) if rows is None else rows
        chunk = clean(whole, stamps[kept], values[kept], tally, context.latest_ns)
        if chunk is not None:
            yield chunk


def _unpack(text: str) -> dict[str, str]:
    """Labels in one cell: ``{"a": "b"}`` or ``{a="b"}``."""
    try:
        found = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {name: unquote(value) for name, value in LABEL.findall(text)}
    return {key: str(value) for key, value in found.items() if value is not None} if isinstance(found, dict) else {}


def _groups(
    labels: dict[str, Any], good: NDArray[np.bool_]
) -> Iterator[tuple[dict[str, str], NDArray[np.int64] | None]]:
    """Rows that share all labels; None for all rows."""
    if not labels:
        yield {}, None if good.all() else np.flatnonzero(good)
        return
    rows = np.flatnonzero(good)
    if not len(rows):
        return
    encoded = [_encoded(column) for column in labels.values()]
    alike = _joint([(codes, len(texts)) for codes, texts in encoded if len(texts) > 1], rows)
    order = np.argsort(alike, kind="stable")
    for places in np.split(order, np.cumsum(np.bincount(alike))[:-1]):
        one = rows[places[0]]
        parts = (texts[codes[one]] for codes, texts in encoded)
        yield {name: part for name, part in zip(labels, parts, strict=True) if part != ""}, rows[places]


def _encoded(column: Any) -> tuple[NDArray[np.int64], list[str]]:
    """A column as places among its different texts: rows are millions, texts few."""
    try:
        kinds = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    except pa.ArrowNotImplementedError:  # maps and structs
        each = words(column)
        which = np.arange(len(each))
    else:
        each = [*words(kinds.dictionary), ""]
        places = kinds.indices.cast(pa.int64())
        which = (places.fill_null(len(each) - 1) if places.null_count else places).to_numpy()
    # two values may have one text: nothing and "", or bytes that are no UTF-8
    codes, texts = pd.factorize(np.array(each, dtype=object))
    return codes[which], list(texts)


def _joint(codes: list[tuple[NDArray[np.int64], int]], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """One number for each combination of codes in these rows, counted in the order in which they come."""
    out = np.zeros(len(rows), dtype=np.int64)
    most = 1
    for of, size in codes:
        if most * size >= _MOST_COMBINATIONS:
            out, kinds = pd.factorize(out)
            most = len(kinds)
        out, most = out * size + of[rows], most * size
    return np.asarray(pd.factorize(out)[0], dtype=np.int64)


def words(column: Any) -> list[str]:
    """A column as text, "" for nothing; bytes that are no UTF-8 are replaced."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_map(column.type) or pa.types.is_struct(column.type):
        return [orjson.dumps(dict(row)).decode() if row else "" for row in column.to_pylist()]
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        try:
            column = column.cast(pa.string())
        except pa.ArrowInvalid:
            return [(row or b"").decode("utf-8", "replace") for row in column.to_pylist()]
    return ["" if row is None else str(row) for row in column.to_pylist()]


def _drop(wrong: NDArray[np.int64], samples: int, tally: Tally) -> None:
    """Count the samples of rows whose times can't be used."""
    undated = int((wrong == times.UNDATED).sum())
    tally.drop("unreadable time", (len(wrong) - undated) * samples)
    tally.drop("time in an hour that the clock repeats or skips", undated * samples)
    if undated:
        tally.hint("times without a zone in the hour in which summer time begins or ends tell no moment; export in UTC")


def _times(column: Any, timezone: str) -> NDArray[np.int64]:
    if pa.types.is_timestamp(column.type):
        stamps = pd.Series(column.to_pandas())
        if column.type.tz is None:
            return times.localise(stamps, timezone)
        return times.ns(stamps)
    if pa.types.is_integer(column.type) or pa.types.is_floating(column.type):
        return times.epochs(column.to_numpy(zero_copy_only=False))
    numbers = _epochs(column)
    return times.epochs(numbers) if numbers is not None else _written(column, timezone)


def _epochs(column: Any) -> NDArray[Any] | None:
    """A text column's plain numbers, whole where all are; None when some cell is no number."""
    if not _is_text(column.type) or column.null_count:
        return None
    try:
        text = column.cast(pa.string())
        numbers = np.asarray(text.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    try:  # nanoseconds are more than a float holds; with a fraction in the first this would fail, and slowly
        return np.asarray(text.cast(pa.int64())) if len(numbers) and float(numbers[0]).is_integer() else numbers
    except pa.ArrowInvalid:
        return numbers


def _written(column: Any, timezone: str) -> NDArray[np.int64]:
    """Moments written out; those of a scrape are many rows'."""
    codes, texts = _encoded(column)
    return times.texts(pd.Series(texts, dtype="str"), timezone)[codes]


def _numbers(column: Any, tally: Tally) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Values, and where there are any; what is empty or no number is counted."""
    kind = column.type
    if (
        pa.types.is_floating(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        there = column.is_valid().to_numpy(zero_copy_only=False)
        tally.drop("null", int((~there).sum()))
        return np.asarray(column.cast(pa.float64(), safe=False).fill_null(np.nan)), there
    blank = pc.equal(pc.binary_length(column), 0) if _is_text(kind) else None
    if blank is not None:
        try:
            there = ~np.asarray(pc.fill_null(blank, fill_value=True))
            numbers = pc.if_else(blank, None, column).cast(pa.string()).cast(pa.float64())
            tally.drop("empty", int((~there).sum()))
            return np.asarray(numbers.fill_null(np.nan)), there
        except pa.ArrowInvalid:
            pass  # some cell is no number for Arrow: one by one
    cells = words(column)
    values = np.array([_number(cell) for cell in cells], dtype=np.float64)
    empty = np.array([not cell.strip() for cell in cells], dtype=bool)
    wrong = (
        np.isnan(values) & ~empty & np.array([cell.strip().lower() not in {"nan", "+nan", "-nan"} for cell in cells])
    )
    tally.drop("empty", int(empty.sum()))
    tally.drop("not a number", int(wrong.sum()))
    return values, ~(empty | wrong)


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
