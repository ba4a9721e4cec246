"""Metric tables as CSV, streamed: files of gigabytes with thousands of columns take the same memory."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv

from features.tables import InputError
from pipelines.readers import layout
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally
from pipelines.readers.torn import Untorn

_BLOCK_BYTES = 8 << 20
_MOST_COLUMNS = 100_000


class _Text(Untorn):
    """Bytes that are no UTF-8 as question marks, so that a row that holds them can be told and passed over."""

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes in whole lines."""
        block = super().read(size)
        return block if block.isascii() else block.decode("utf-8", "surrogateescape").encode("utf-8", "replace")


def header(head: bytes) -> tuple[list[str], str]:
    """The first line's names and what divides them."""
    line = head.split(b"\n", 1)[0].decode("utf-8-sig", "replace").rstrip("\r")
    divider = max(",;\t", key=line.count)
    try:
        return next(csv.reader([line], delimiter=divider), []), divider
    except csv.Error:
        return [], divider


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a CSV with a header line.

    Raises
    ------
    InputError
        The header names no time, and is no row of samples either.
    """
    with Untorn(path, tally, whole_lines=True) as stream:
        first = bytearray()
        while b"\n" not in first and len(first) < _BLOCK_BYTES and (piece := stream.read(4096)):
            first += piece
        names, divider = header(bytes(first))
    found = layout.find(names, context)
    headed = found is not None
    found = found or layout.headless(names, context)
    if found is None or len(names) > _MOST_COLUMNS:
        raise InputError(f"{path}: the header names no time column; call it time, timestamp or ts")
    inside = Tally()  # the tear was counted above, if the header met it
    with _Text(path, inside, whole_lines=True) as stream:
        kinds = _kinds(found, len(names))
        for batch in _batches(stream, kinds, divider, tally, headed=headed):
            yield from layout.chunks(found, batch.columns, tally, context)
    if not tally.rejected["torn file"]:
        tally.add(inside)


def _kinds(found: layout.Layout, columns: int) -> list[Any]:
    """Types to read columns as: of names and labels each block holds few, which Arrow then keeps once."""
    named = {found.metric, *found.labels}
    return [pa.dictionary(pa.int32(), pa.binary()) if place in named else pa.binary() for place in range(columns)]


def _batches(stream: Untorn, kinds: list[Any], divider: str, tally: Tally, *, headed: bool) -> Iterator[Any]:
    """Rows as Arrow arrays of bytes; a row with another number of cells is counted and left out."""

    def skip(_row: Any) -> str:
        tally.drop("row of another length")
        return "skip"

    names = [str(place) for place in range(len(kinds))]
    try:
        reader = pacsv.open_csv(
            pa.PythonFile(stream, mode="r"),
            read_options=pacsv.ReadOptions(
                column_names=names, skip_rows=int(headed), block_size=_BLOCK_BYTES, use_threads=False
            ),
            parse_options=pacsv.ParseOptions(delimiter=divider, invalid_row_handler=skip),
            convert_options=pacsv.ConvertOptions(
                column_types=dict(zip(names, kinds, strict=True)), strings_can_be_null=False, check_utf8=False
            ),
        )
        yield from reader
    except StopIteration:
        return
    except pa.ArrowInvalid as error:
        if "Empty CSV" not in str(error):
            tally.drop("unreadable rows")
            long = f"a row is longer than {_BLOCK_BYTES >> 20} MiB, or a quote is never closed"
            tally.hint(
                f"the CSV can't be read on, what follows is lost: {long if 'straddling' in str(error) else error}"
            )
