"""Which foreign format a file is in, told by its content; compressed files are opened by their magic bytes."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path
from typing import BinaryIO, cast

import zstandard


def open_stream(path: Path) -> BinaryIO:
    """The file's bytes, unpacked when it is gz, xz or zst by its first bytes, whatever its name.

    Errors of the unpacking library (a torn file) come from the reads.
    """
    raw = path.open("rb")
    magic = raw.read(6)
    raw.seek(0)
    if magic.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast("BinaryIO", lzma.LZMAFile(raw))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", reader)))
    return raw
