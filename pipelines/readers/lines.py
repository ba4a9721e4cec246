"""Bytes to lines, many at once: split at newlines only, cut at a limit, never more than a few blocks in memory."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import zstandard

from pipelines.readers.tally import Tally

BLOCK_BYTES = 4 << 20
BATCH_LINES = 50_000
_PIECE_BYTES = 1 << 18
_TORN = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError)


class Rows(NamedTuple):
    """Lines of one batch, column by column; all lists have one length."""

    nodes: list[str]
    times: list[int]  # nanoseconds since 1970
    sources: list[str]
    severities: list[str]
    messages: list[str]
    kernel: list[bool]

    def pick(self, places: list[int]) -> Rows:
        """The rows at these places."""
        return Rows(
            [self.nodes[index] for index in places],
            [self.times[index] for index in places],
            [self.sources[index] for index in places],
            [self.severities[index] for index in places],
            [self.messages[index] for index in places],
            [self.kernel[index] for index in places],
        )


def batches(stream: BinaryIO, limit: int, tally: Tally) -> Iterator[list[str]]:
    r"""Lists of at most `BATCH_LINES` lines without their ends.

    Only ``\n`` ends a line (log text holds ``\x0b``, ``\x0c``, U+2028 ...). NULs are dropped, other bytes that
    are no UTF-8 become U+FFFD, and a line is cut at `limit` bytes. Counts every line as read, blank ones as
    rejected; a torn archive gives what could be unpacked.
    """
    for chunk in _whole_lines(stream, limit, tally):
        # 0x1e begins a record of json-seq; looking for the two is four times faster than taking them out
        bare = chunk.translate(None, b"\0\x1e") if b"\0" in chunk or b"\x1e" in chunk else chunk
        text = bare.decode("utf-8", "replace")
        if "\r" in text:
            text = text.replace("\r\n", "\n").removesuffix("\r")
        lines = text.split("\n")
        tally.read += len(lines)
        kept = [line for line in lines if line and not line.isspace()]
        tally.reject("blank line", len(lines) - len(kept))
        for start in range(0, len(kept), BATCH_LINES):
            yield kept[start : start + BATCH_LINES]


def _whole_lines(stream: BinaryIO, limit: int, tally: Tally) -> Iterator[bytes]:
    """Pieces that end where a line ends, without the last newline."""
    rest = b""
    skipping = False  # inside a line that was cut already
    for block in _blocks(stream, tally):
        piece = block
        if skipping:
            _, newline, piece = block.partition(b"\n")
            if not newline:
                continue
            skipping = False
        head, newline, tail = piece.rpartition(b"\n")
        if newline:
            yield _shorten(rest + head, limit, tally)
            rest = tail
        else:
            rest += tail
        if len(rest) > limit:
            yield _shorten(rest, limit, tally)
            rest, skipping = b"", True
    if rest:
        yield _shorten(rest, limit, tally)


def _blocks(stream: BinaryIO, tally: Tally) -> Iterator[bytes]:
    """Blocks of the stream; of a torn archive all that could be unpacked."""
    # read() of a torn archive raises with what it has unpacked, read1() gives that first
    read = getattr(stream, "read1", stream.read)
    first = True
    while True:
        pieces: list[bytes] = []
        size = 0
        torn: Exception | None = None
        try:
            while size < BLOCK_BYTES and (piece := read(_PIECE_BYTES)):
                pieces.append(piece)
                size += len(piece)
        except _TORN as error:
            torn = error
        block = b"".join(pieces)
        if block:
            yield block.removeprefix(b"\xef\xbb\xbf") if first else block
            first = False
        if torn is not None:
            tally.read += 1
            tally.reject("torn archive")
            tally.hint(f"the archive is torn ({torn or type(torn).__name__}); what came before the tear is kept")
        if torn is not None or not block:
            return


def _shorten(chunk: bytes, limit: int, tally: Tally) -> bytes:
    """Cut each line at the limit, at the start of a UTF-8 character."""
    if len(chunk) <= limit:
        return chunk
    lines = chunk.split(b"\n")
    long = [index for index, line in enumerate(lines) if len(line) > limit]
    if not long:
        return chunk
    for index in long:
        end = limit
        while end and (lines[index][end] & 0xC0) == 0x80:
            end -= 1
        lines[index] = lines[index][:end]
    tally.note("truncated", len(long))
    tally.hint(f"lines over {limit} bytes were cut; what lies beyond was not scanned for XIDs")
    return b"\n".join(lines)
