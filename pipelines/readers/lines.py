"""Bytes to lines, many at once: split at newlines only, cut at a limit, never more than a few blocks in memory.

Of a file larger than a block the usual lines are found by compiled code in the bytes themselves; it takes seconds to
compile on a machine's first run, which a small file is not worth.
"""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import zstandard
from numpy.typing import NDArray

from pipelines.readers.tally import Tally

BLOCK_BYTES = 4 << 20
BATCH_LINES = 50_000
_PIECE_BYTES = 1 << 18
_NEWLINE = 10
PLAIN_BYTES = 3 << 20  # a file of fewer is read without compiled code, which takes most of a second to load
_TORN = (EOFError, zlib.error, lzma.LZMAError, zstandard.ZstdError, OSError)


class Rows(NamedTuple):
    """Lines of one batch, column by column; all columns have one length, texts are Arrow's large strings."""

    nodes: Any
    times: NDArray[np.int64]  # nanoseconds since 1970
    sources: Any
    severities: Any
    messages: Any
    kernel: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        nodes: Sequence[str],
        times: Sequence[int] | NDArray[np.int64],
        sources: Sequence[str],
        severities: Sequence[str],
        messages: Sequence[str],
        kernel: Sequence[bool],
    ) -> Rows:
        """Rows of texts that were read one by one."""
        return cls(
            texts(nodes),
            np.asarray(times, dtype=np.int64),
            texts(sources),
            texts(severities),
            texts(messages),
            np.asarray(kernel, dtype=np.bool_),
        )

    def pick(self, places: NDArray[np.int64]) -> Rows:
        """The rows at these places."""
        return Rows(
            self.nodes.take(places),
            self.times[places],
            self.sources.take(places),
            self.severities.take(places),
            self.messages.take(places),
            self.kernel[places],
        )

    def beside(self, other: Rows) -> Rows:
        """These rows and the other's behind them."""
        return Rows(
            pa.concat_arrays([self.nodes, other.nodes]),
            np.concatenate([self.times, other.times]),
            pa.concat_arrays([self.sources, other.sources]),
            pa.concat_arrays([self.severities, other.severities]),
            pa.concat_arrays([self.messages, other.messages]),
            np.concatenate([self.kernel, other.kernel]),
        )


# Takes lines of any dialect; gives the rows of those that are kept, and their places
Told = Callable[[list[str]], tuple[Rows, Sequence[int]]]
# Takes a block and where its lines end; gives each line's state and the rows of the usual ones, or None if the block
# must be read line by line
Scan = Callable[[NDArray[np.uint8], NDArray[np.int64]], tuple[NDArray[np.uint8], Rows] | None]
BLANK, USUAL, ODD = 0, 1, 2  # states of a line


def texts(values: Sequence[str]) -> Any:
    """Texts as Arrow's; a half of a character is replaced."""
    try:
        return pa.array(values, pa.large_string())
    except UnicodeEncodeError:
        return pa.array([value.encode("utf-8", "replace").decode() for value in values], pa.large_string())


def blocks(stream: BinaryIO, limit: int, tally: Tally) -> Iterator[bytes]:
    r"""Pieces of whole lines, UTF-8, without the last line's end.

    NULs are dropped, other bytes that are no UTF-8 become U+FFFD, and a line is cut at `limit` bytes; a torn archive
    gives what could be unpacked.
    """
    for chunk in _whole_lines(stream, limit, tally):
        # 0x1e begins a record of json-seq; looking for the two is four times faster than taking them out
        bare = chunk.translate(None, b"\0\x1e") if b"\0" in chunk or b"\x1e" in chunk else chunk
        yield bare if bare.isascii() else bare.decode("utf-8", "replace").encode()


def lines_of(block: bytes, tally: Tally) -> list[str]:
    r"""The lines without their ends; each is counted as read, blank ones as rejected.

    Only ``\n`` ends a line: log text holds ``\x0b``, ``\x0c``, U+2028 ...
    """
    text = block.decode("utf-8")
    if "\r" in text:
        text = text.replace("\r\n", "\n").removesuffix("\r")
    lines = text.split("\n")
    tally.read += len(lines)
    kept = [line for line in lines if line and not line.isspace()]
    tally.reject("blank line", len(lines) - len(kept))
    return kept


def batches(stream: BinaryIO, limit: int, tally: Tally) -> Iterator[list[str]]:
    """Lists of at most `BATCH_LINES` lines without their ends."""
    for block in blocks(stream, limit, tally):
        kept = lines_of(block, tally)
        for start in range(0, len(kept), BATCH_LINES):
            yield kept[start : start + BATCH_LINES]


def rows_of(pieces: Iterable[bytes], scan: Scan, told: Told, tally: Tally) -> Iterator[Rows]:
    """Rows of each block: the usual lines' by `scan`, all others' by `told`, in the lines' order."""
    passed = 0
    for block in pieces:
        data = np.frombuffer(block, dtype=np.uint8)
        ends = np.append(np.flatnonzero(data == _NEWLINE), len(data))
        found = scan(data, ends) if passed + len(block) >= PLAIN_BYTES else None
        passed += len(block)
        if found is None:
            kept = lines_of(block, tally)
            for start in range(0, len(kept), BATCH_LINES):
                yield told(kept[start : start + BATCH_LINES])[0]
            continue
        state, rows = found
        tally.read += len(ends)
        tally.reject("blank line", int((state == BLANK).sum()))
        odd = np.flatnonzero(state == ODD)
        yield _with_odd(rows, np.flatnonzero(state == USUAL), block, ends, odd, told, tally) if len(odd) else rows


def _with_odd(
    rows: Rows,
    usual: NDArray[np.int64],
    block: bytes,
    ends: NDArray[np.int64],
    odd: NDArray[np.int64],
    told: Told,
    tally: Tally,
) -> Rows:
    """The rows of the usual lines with those of the odd ones put where they stand."""
    lines, places = [], []
    for place in odd.tolist():
        line = block[int(ends[place - 1]) + 1 if place else 0 : int(ends[place])].decode("utf-8").removesuffix("\r")
        if line.isspace():  # blanks beyond ASCII
            tally.reject("blank line")
        else:
            lines.append(line)
            places.append(place)
    if not lines:
        return rows
    others, kept = told(lines)
    where = np.concatenate((usual, np.array([places[index] for index in kept], dtype=np.int64)))
    return rows.beside(others).pick(np.argsort(where, kind="stable"))


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
    ends = np.flatnonzero(np.frombuffer(chunk, dtype=np.uint8) == _NEWLINE)
    if np.diff(ends, prepend=-1, append=len(chunk)).max() - 1 <= limit:
        return chunk
    lines = chunk.split(b"\n")
    long = [index for index, line in enumerate(lines) if len(line) > limit]
    for index in long:
        end = limit
        while end and (lines[index][end] & 0xC0) == 0x80:
            end -= 1
        lines[index] = lines[index][:end]
    tally.note("truncated", len(long))
    tally.hint(f"lines over {limit} bytes were cut; what lies beyond was not scanned for XIDs")
    return b"\n".join(lines)
