"""The Prometheus HTTP API's JSON, saved to files: whole responses, or its result entries one a line.

    {"status":"success","data":{"resultType":"matrix","result":[
      {"metric":{"__name__":"m"},"values":[[1767225600,"1"],[1767225615.5,"NaN"]]}]}}

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from pipelines.readers.samples import ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally
from pipelines.readers.torn import Untorn

_BLOCK_BYTES = 8 << 20
_LONGEST_ENTRY = 48 << 20  # 1.8 million samples; what it is parsed into takes twelve times as much
# An entry begins so; inside a string its quotes would be escaped, so this never stands in a label.
_ENTRY = re.compile(rb'\{\s*"metric"\s*:\s*\{')
_S_LIMIT = 4_102_444_800.0  # 2100-01-01
_DECODER = json.JSONDecoder()


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a file; entry by entry, so the file may be of any size."""
    with Untorn(path, tally) as stream:
        held = b""
        while block := stream.read(_BLOCK_BYTES):
            held += block
            starts = [found.start() for found in _ENTRY.finditer(held)]
            for low, high in pairwise(starts):
                yield from _entry(held[low:high], tally, context)
            if starts:
                held = held[starts[-1] :]
            elif len(held) > _BLOCK_BYTES:
                held = held[-64:]
            if len(held) > _LONGEST_ENTRY:
                tally.drop("entry too long")
                tally.hint(f"a series of over {_LONGEST_ENTRY >> 20} MiB is not read; ask the server for shorter spans")
                held = b""
    if _ENTRY.match(held):
        yield from _entry(held, tally, context)
    elif error := re.search(rb'"status"\s*:\s*"error".*?"error"\s*:\s*"(.{0,200}?)"', held, re.DOTALL):
        tally.drop("error response")
        tally.hint(f"the server answered with an error: {error[1].decode('utf-8', 'replace')}")


def _entry(text: bytes, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """One entry and what follows it before the next."""
    try:
        entry = orjson.loads(text.rstrip(b", \r\n\t"))
    except orjson.JSONDecodeError:
        try:
            # the last entry of a response is followed by the response's own end
            entry, _ = _DECODER.raw_decode(text.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            tally.drop("broken entry")
            return
    yield from parse(entry, tally, context)


def parse(entry: Any, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of one result entry, of a matrix or a vector."""
    histograms = entry.get("histograms") or ([entry["histogram"]] if "histogram" in entry else [])
    if histograms:
        tally.drop("native_histogram", len(histograms) if isinstance(histograms, list) else 1)
    labels = entry.get("metric")
    pairs = entry.get("values")
    if pairs is None:
        if "value" not in entry:
            if not histograms:
                tally.drop("entry of another shape")
            return
        pairs = [entry["value"]]
    try:
        stamps, values = _columns(pairs)
        shaped = all(isinstance(value, str) for value in labels.values())
    except (TypeError, ValueError, AttributeError, OverflowError):
        shaped = False
    if not shaped:
        tally.drop("entry of another shape")
        return
    if not (np.abs(stamps) <= 2 * _S_LIMIT).all():
        stamps = np.clip(np.nan_to_num(stamps), -_S_LIMIT, 2 * _S_LIMIT)
    times = np.rint(stamps * 1000).astype(np.int64) * 1_000_000  # the API's times are exact to the millisecond
    chunk = clean(labels, times, values, tally, context.latest_ns)
    if chunk is not None:
        yield chunk


def _columns(pairs: list[Any]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    if not pairs:
        return np.empty(0), np.empty(0)
    stamps, values = zip(*pairs, strict=True)
    return np.array(stamps, dtype=np.float64), np.array(list(map(float, values)), dtype=np.float64)
