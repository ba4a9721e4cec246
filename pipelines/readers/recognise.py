"""Which foreign format a file is in, told by its content; compressed files are opened by their magic bytes."""

from __future__ import annotations

import gzip
import io
import lzma
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from features.tables import InputError


def check_file(path: Path) -> None:
    """Refuse what is there and no file: a pipe would be waited for, and gives its bytes only once.

    Raises
    ------
    InputError
        It is a pipe, a device or a folder.
    """
    if path.exists() and not path.is_file():
        raise InputError(f"{path} is no regular file; save what it gives to a file and name that")


def open_stream(path: Path) -> BinaryIO:
    """The file's bytes, unpacked when it is gz, xz or zst by its first bytes, whatever its name.

    Errors of the unpacking library (a torn file) come from the reads.

    Raises
    ------
    InputError
        It is no regular file.
    """
    check_file(path)
    with path.open("rb") as file:
        magic = file.read(6)
    if magic.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.open(path))
    if magic.startswith(b"\xfd7zXZ\x00"):
        return cast("BinaryIO", lzma.open(path))
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        reader = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True, closefd=True)
        return cast("BinaryIO", io.BufferedReader(cast("io.RawIOBase", reader)))
    return path.open("rb")
