"""A metric file of any known format to chunks of samples."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from features.tables import InputError
from pipelines.readers import csv_tables, exposition, layout, mountstats, parquet_tables, prometheus_json, victoria
from pipelines.readers.recognise import open_stream
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally
from pipelines.readers.torn import TORN

HEAD_BYTES = 64 << 10
Reader = Callable[[Path, Tally, ReadContext], Iterator[SampleChunk]]
_DUMP = re.compile(rb"^\s*\{__name__=")
READERS: dict[str, Reader] = {
    "victoria": victoria.read,
    "prometheus-json": prometheus_json.read,
    "parquet": parquet_tables.read,
    "exposition": exposition.read,
    "tsdb-dump": exposition.read,
    "mountstats": mountstats.read,
    "csv-long": csv_tables.read,
    "csv-wide": csv_tables.read,
    "csv-node-gpu": csv_tables.read,
}
_VICTORIA = re.compile(rb'^\s*\{\s*"metric"\s*:\s*\{[^\n]*?"values"\s*:\s*\[\s*+(?!\[)')
_PROMETHEUS = re.compile(rb'^\s*\{\s*("status"\s*:|"metric"\s*:\s*\{|"data"\s*:|"resultType"\s*:)')


def read_head(path: Path) -> bytes:
    """The first bytes, unpacked; as many as there are before a tear.

    Raises
    ------
    InputError
        Nothing can be read.
    """
    head = b""
    try:
        with open_stream(path) as stream:
            while len(head) < HEAD_BYTES and (block := stream.read(8192)):
                head += block
    except TORN as error:
        if not head:
            raise InputError(f"{path}: can't be read: {error}; export it again") from error
    return head


def recognise_metrics(head: bytes) -> str | None:
    """The metric format whose first bytes these are, or None."""
    if _VICTORIA.match(head):
        return "victoria"
    if _PROMETHEUS.match(head):
        return "prometheus-json"
    if head.startswith(b"PAR1"):
        return "parquet"
    if mountstats.is_text(head):
        return "mountstats"
    if exposition.is_page(head):
        return "tsdb-dump" if _DUMP.match(head) else "exposition"
    names, _ = csv_tables.header(head)
    found = layout.find(names, ReadContext()) or layout.headless(names, ReadContext())
    return f"csv-{found.kind}" if found else None
