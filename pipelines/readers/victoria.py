"""VictoriaMetrics' ``/api/v1/export``: one JSON line a series, times in milliseconds.

    {"metric":{"__name__":"up","instance":"n1:9400"},"values":[1,null,2],"timestamps":[1767225600000,...]}

https://docs.victoriametrics.com/#how-to-export-data-in-json-line-format
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from pipelines.readers.samples import ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally
from pipelines.readers.torn import Untorn

_BLOCK_BYTES = 1 << 20  # larger ones leave the processor's cache before they are parsed
_LONGEST_LINE = 64 << 20  # a series of 2 million samples; what it is parsed into takes eight times as much
_CURE = "; export with max_rows_per_line=1000000"
_PLAIN_BYTES = 4 << 20  # so many are read without compiled code, which takes most of a second to load
_VALUES = b',"values":['
_STAMPS = b',"timestamps":'
_COMMA = ord(",")
_MOST_CHANGES = 100  # more and the times are in no order
_WIDTH = 14  # 13 digits and a comma
_MS_LIMIT = 4_102_444_800_000  # 2100-01-01


def lines(path: Path, tally: Tally, cure: str = "") -> Iterator[bytes]:
    """The file's lines without their ends; one too long to hold is counted and passed over, and the cure told."""
    rest: list[bytes] = []
    size = 0
    with Untorn(path, tally) as stream:
        while block := stream.read(_BLOCK_BYTES):
            head, *more = block.split(b"\n")
            size += len(head)
            rest = [*rest, head] if size <= _LONGEST_LINE else []
            if more:
                yield from _whole(rest, size, tally, cure)
                yield from more[:-1]
                rest, size = [more[-1]], len(more[-1])
        yield from _whole(rest, size, tally, cure)


def _whole(pieces: list[bytes], size: int, tally: Tally, cure: str) -> Iterator[bytes]:
    if size <= _LONGEST_LINE:
        yield b"".join(pieces)
    else:
        tally.drop("line too long")
        tally.hint(f"a line of over {_LONGEST_LINE >> 20} MiB is not read{cure}")


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a file of export lines; a broken line is counted as one."""
    scraped = b""
    stamps: Any = None
    passed = 0
    for line in lines(path, tally, _CURE):
        if not line or line.isspace():
            continue
        passed += len(line)
        # Series scraped together have the same times, written the same: those are parsed once. Where this text
        # stands inside a label instead, its quotes are escaped, so it is not found.
        place = line.rfind(b"[")
        ending = line[place + 1 :].rstrip()
        try:
            if ending.endswith(b"]}") and line.endswith(_STAMPS, 0, place):
                if ending != scraped:
                    stamps, scraped = _times(ending[:-2]), ending
                body = line[: place - len(_STAMPS)]
                entry = _compiled(body, len(stamps)) if passed > _PLAIN_BYTES else None
                if entry is None:
                    entry = orjson.loads(body + b"}")
                entry["timestamps"] = stamps
            else:
                entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            tally.drop("broken line")
            scraped = b""
            continue
        except (TypeError, ValueError, OverflowError, KeyError):
            tally.drop("line of another shape")
            scraped = b""
            continue
        chunk = parse(entry, tally, context)
        if chunk is not None:
            yield chunk


def _compiled(body: bytes, count: int) -> Any:
    """The line without its times, the values as float64 at once; None when it is not written as usual.

    JSONDecodeError when the labels are no JSON.
    """
    from pipelines.readers import decimals  # noqa: PLC0415  # half a second that small files need not wait

    place = body.find(_VALUES)  # inside a label its quotes would be escaped
    if place < 0 or not count or not body.endswith(b"]"):
        return None
    first = place + len(_VALUES)
    text = np.frombuffer(body, dtype=np.uint8, offset=first, count=len(body) - 1 - first)
    values, found = decimals.read(text, count)
    return {**orjson.loads(body[:place] + b"}"), "values": values} if found == count else None


def _times(text: bytes) -> Any:
    """Milliseconds as int64 of the numbers between the brackets.

    From 2001 to 2286 each has 13 digits and begins 14 bytes after the one before, so eight digits of all of them
    are turned into numbers at once: four times faster than a parser that makes an object of each.
    """
    count, rest = divmod(len(text) + 1, _WIDTH)
    if count and not rest:
        whole = text + b","
        first, middle, last = (_words(whole, place, count) for place in (0, 5, 6))
        low = _eight_digits(middle)
        head = first << np.uint64(24)  # the first five digits, which change once in 28 hours
        changes = [0, *(np.flatnonzero(head[1:] != head[:-1]) + 1).tolist()]
        heads = [text[_WIDTH * place : _WIDTH * place + 5] for place in changes[:_MOST_CHANGES]]
        sound = all(part.isdigit() and part[:1] != b"0" for part in heads) and len(heads) == len(changes)
        if sound and low is not None and (last >> np.uint64(56) == _COMMA).all():
            for place, part, end in zip(changes, heads, [*changes[1:], count], strict=True):
                low[place:end] += int(part) * 10**8
            return low
    return np.array(orjson.loads(b"[" + text + b"]"), dtype=np.int64)


def _words(text: bytes, place: int, count: int) -> Any:
    """uint64 [count]: the eight bytes from `place` on of each number."""
    return np.ndarray((count,), dtype="<u8", buffer=text, offset=place, strides=(_WIDTH,)).copy()


def _eight_digits(held: Any) -> Any:
    """int64 of eight ASCII digits each, the first in the lowest byte; None when some byte is no digit.

    Digits to pairs, pairs to fours, fours to eights, each step for all digits of a word at once.
    """
    digits = held ^ np.uint64(0x3030303030303030)
    if (((digits + np.uint64(0x0606060606060606)) | digits) & np.uint64(0xF0F0F0F0F0F0F0F0)).any():
        return None
    pairs = digits * np.uint64(10) + (digits >> np.uint64(8))
    mask = np.uint64(0x000000FF000000FF)
    whole = (pairs & mask) * np.uint64(0x000F424000000064) + ((pairs >> np.uint64(16)) & mask) * np.uint64(
        0x0000271000000001
    )
    return (whole >> np.uint64(32)).astype(np.int64)


def _floats(values: Any) -> Any:
    """Values as float64, null as NaN."""
    if isinstance(values, np.ndarray):
        return values
    if isinstance(values, list):
        try:
            return np.fromiter(values, dtype=np.float64, count=len(values))
        except TypeError:
            pass  # a null
    return np.array(values, dtype=np.float64)


def parse(entry: Any, tally: Tally, context: ReadContext) -> SampleChunk | None:
    """One line's samples."""
    try:
        labels, values, stamps = entry["metric"], entry["values"], entry["timestamps"]
        if len(values) != len(stamps):
            tally.drop("values and timestamps differ in number", max(len(values), len(stamps)))
            return None
        held = _floats(values)
        times = np.asarray(stamps, dtype=np.int64)
        shaped = held.ndim == 1 and times.ndim == 1 and all(isinstance(value, str) for value in labels.values())
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        shaped = False
    if not shaped:
        tally.drop("line of another shape")
        return None
    there = ~np.isnan(held)
    if not there.all():
        if isinstance(values, list):
            there = np.array([value is not None for value in values])
        tally.drop("null", int((~there).sum()))
        held, times = held[there], times[there]
    times = np.clip(times, -_MS_LIMIT, 2 * _MS_LIMIT) * 1_000_000
    return clean(labels, times, held, tally, context.latest_ns)
