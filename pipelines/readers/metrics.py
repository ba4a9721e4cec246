"""A metric file of any known format to chunks of samples."""

from __future__ import annotations

import lzma
import re
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import zstandard

from features.tables import InputError
from pipelines.readers import prometheus_json, victoria
from pipelines.readers.recognise import open_stream
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally

HEAD_BYTES = 64 << 10
# what a torn or damaged file raises from the libraries that unpack it
TORN = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowInvalid)
Reader = Callable[[Path, Tally, ReadContext], Iterator[SampleChunk]]
READERS: dict[str, Reader] = {
    "victoria": victoria.read,
    "prometheus-json": prometheus_json.read,
}
_VICTORIA = re.compile(rb'^\s*\{"metric":\{[^\n]*?"values":\[\s*(?!\[)')
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
    return None
