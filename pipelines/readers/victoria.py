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

_BLOCK_BYTES = 8 << 20
_LONGEST_LINE = 256 << 20  # a series of 15 million samples; longer is no such export
_MS_LIMIT = 4_102_444_800_000  # 2100-01-01


def lines(path: Path, tally: Tally) -> Iterator[bytes]:
    """The file's lines without their ends; one too long to hold is counted and passed over."""
    rest: list[bytes] = []
    size = 0
    with Untorn(path, tally) as stream:
        while block := stream.read(_BLOCK_BYTES):
            head, *more = block.split(b"\n")
            rest.append(head)
            size += len(head)
            if more:
                if size <= _LONGEST_LINE:
                    yield b"".join(rest)
                yield from more[:-1]
                rest, size = [more[-1]], len(more[-1])
            if size > _LONGEST_LINE and rest:
                tally.drop("line too long")
                rest = []
        if size <= _LONGEST_LINE:
            yield b"".join(rest)


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a file of export lines; a broken line is counted as one."""
    scraped = b""
    stamps: Any = None
    for line in lines(path, tally):
        if not line or line.isspace():
            continue
        # Series scraped together have the same times, written the same: those are parsed once. Where this text
        # stands inside a label instead, its quotes are escaped, so it is not found.
        place = line.rfind(b',"timestamps":[')
        ending = line[place:] if place > 0 else b""
        try:
            if ending and ending == scraped:
                entry = {**orjson.loads(line[:place] + b"}"), "timestamps": stamps}
            else:
                entry = orjson.loads(line)
                scraped, stamps = b"", None
                if ending:
                    stamps = entry["timestamps"] = np.array(entry["timestamps"], dtype=np.int64)
                    scraped = ending
        except orjson.JSONDecodeError:
            tally.drop("broken line")
            continue
        except (TypeError, ValueError, OverflowError, KeyError):
            tally.drop("line of another shape")
            continue
        chunk = parse(entry, tally, context)
        if chunk is not None:
            yield chunk


def parse(entry: Any, tally: Tally, context: ReadContext) -> SampleChunk | None:
    """One line's samples."""
    try:
        labels, values, stamps = entry["metric"], entry["values"], entry["timestamps"]
        if len(values) != len(stamps):
            tally.drop("values and timestamps differ in number", max(len(values), len(stamps)))
            return None
        held = np.array(values, dtype=np.float64)
        times = np.asarray(stamps, dtype=np.int64)
        shaped = held.ndim == 1 and times.ndim == 1 and all(isinstance(value, str) for value in labels.values())
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        shaped = False
    if not shaped:
        tally.drop("line of another shape")
        return None
    blank = values.count(None) if np.isnan(held).any() else 0
    if blank:
        tally.drop("null", blank)
        there = np.array([value is not None for value in values])
        held, times = held[there], times[there]
    times = np.clip(times, -_MS_LIMIT, 2 * _MS_LIMIT) * 1_000_000
    return clean(labels, times, held, tally, context.latest_ns)
