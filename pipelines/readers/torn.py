"""A file that ends in the middle: what came before the tear is read, the tear is counted."""

from __future__ import annotations

import io
import lzma
import zlib
from pathlib import Path

import pyarrow as pa
import zstandard

from pipelines.readers.recognise import open_stream
from pipelines.readers.tally import Tally

# what a torn or damaged file raises from the libraries that unpack it
TORN = (EOFError, OSError, zlib.error, lzma.LZMAError, zstandard.ZstdError, pa.ArrowInvalid)
_LONGEST_LINE = 64 << 20
_PIECE = 1 << 20


class Untorn(io.RawIOBase):
    """The unpacked bytes up to where they end or can't be unpacked any more.

    With ``whole_lines`` a line cut by the tear is left out: half a number reads as another number.
    """

    def __init__(self, path: Path, tally: Tally, *, whole_lines: bool = False) -> None:
        self._stream = open_stream(path)
        self._tally = tally
        self._path = path
        self._whole_lines = whole_lines
        self._held = bytearray()
        self._ended = False

    def readable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Close the file too."""
        self._stream.close()
        super().close()

    def read(self, size: int | None = -1) -> bytes:
        """Up to ``size`` bytes; fewer only at the end."""
        wanted = size if size is not None and size >= 0 else 1 << 62
        if not self._whole_lines:
            return self._direct(wanted)
        while (ready := self._ready()) < wanted and not self._ended:
            self._held += self._piece(_PIECE)
        cut = min(wanted, ready)
        given = bytes(self._held[:cut])
        del self._held[:cut]
        return given

    def _direct(self, wanted: int) -> bytes:
        """As `read`, where no line need be whole: without a copy of what comes in one piece."""
        pieces: list[bytes] = []
        while wanted > 0 and not self._ended:
            pieces.append(self._piece(min(wanted, _PIECE)))
            wanted -= len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _ready(self) -> int:
        """How many of the bytes held may leave: only whole lines while a tear may still come."""
        if self._ended or not self._whole_lines or len(self._held) > _LONGEST_LINE:
            return len(self._held)
        return self._held.rfind(b"\n") + 1

    def _piece(self, size: int) -> bytes:
        """What can be unpacked next; b"" at the end or the tear."""
        # read1 hands on what is unpacked before an error; read would lose up to its whole size
        read1 = getattr(self._stream, "read1", self._stream.read)
        try:
            piece: bytes = read1(size)
        except TORN as error:
            self._ended = True
            self._tally.drop("torn file")
            self._tally.hint(f"{self._path} is torn or damaged ({error}); what came before was kept")
            if self._whole_lines:
                del self._held[self._held.rfind(b"\n") + 1 :]
            return b""
        self._ended = not piece
        return piece
