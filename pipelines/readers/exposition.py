r"""Lines of ``name{labels} value time``: text exposition and OpenMetrics pages, and ``promtool tsdb dump``.

    node_load1{instance="n1:9100"} 0.5 1767225600000         text exposition: milliseconds
    node_load1{instance="n1:9100"} 0.5 1767225600.000        OpenMetrics: seconds
    {__name__="node_load1", instance="n1:9100"} 0.5 1767225600000      promtool tsdb dump

https://github.com/prometheus/docs/blob/main/content/docs/instrumenting/exposition_formats.md
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pipelines.readers import times
from pipelines.readers.samples import ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally
from pipelines.readers.victoria import lines

# Possessive throughout, and a label begins at a word's edge: no line takes more than linear time.
LINE = re.compile(
    r"([a-zA-Z_:][\w:]*+)?+[ \t]*+"
    r"(\{(?:[^\"}]++|\"(?:[^\"\\]++|\\.)*+\")*+\})?+[ \t]*+(?<=[ \t}])"
    r"([^\s#]\S*+)(?:[ \t]++(-?[\d.]++(?:[eE][+-]?\d++)?+))?+[ \t]*+(?:#.*)?"
)
LABEL = re.compile(r'(?<![\w.])([a-zA-Z_][\w.]*+)\s*+=\s*+"((?:[^"\\]++|\\.)*+)"')
_QUOTED = re.compile(r"\\(.)", re.DOTALL)
_HELD_SAMPLES = 1 << 20
Held = dict[str, tuple[list[str], list[float]]]


def unquote(text: str) -> str:
    r"""A label's value without its escapes: ``\\``, ``\"`` and ``\n``."""
    return _QUOTED.sub(lambda found: "\n" if found[1] == "n" else found[1], text) if "\\" in text else text


def is_page(head: bytes) -> bool:
    """Whether these are the first bytes of such lines."""
    text = head.decode("utf-8", "replace")
    whole = text.split("\n")[:-1] if "\n" in text else [text]
    found = [line for line in whole if line.strip() and not line.startswith("#")][:50]
    good = sum(parse(line) is not None for line in found)
    return good * 2 > len(found) or (not found and head.startswith((b"# HELP ", b"# TYPE ")))


def parse(line: str) -> tuple[str, float, str | None] | None:
    """A line's series as written, its value and its time as written; None when it is no such line."""
    found = LINE.fullmatch(line.strip())
    if not found or not (found[1] or found[2]):
        return None
    try:
        value = float(found[3])
    except ValueError:
        return None
    return f"{found[1] or ''}{found[2] or ''}", value, found[4]


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """The samples of a file of such lines."""
    held: Held = {}
    count = 0
    for raw in lines(path, tally):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if not line.strip() or line.startswith("#"):
            continue
        found = parse(line)
        if found is None:
            tally.drop("broken line")
            continue
        series, value, stamp = found
        stamps, values = held.setdefault(series, ([], []))
        stamps.append(stamp or "")
        values.append(value)
        count += 1
        if count >= _HELD_SAMPLES:
            yield from _flush(held, tally, context)
            held, count = {}, 0
    yield from _flush(held, tally, context)


def _flush(held: Held, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    for series, (stamps, values) in held.items():
        name, _, inside = series.partition("{")
        labels = {key: unquote(value) for key, value in LABEL.findall(inside)}
        if name:
            labels["__name__"] = name
        when = _times(stamps, context.reference_ns)
        good = when != times.UNREADABLE
        if not good.all():
            tally.drop("no timestamp", int((~good).sum()))
            tally.hint("lines without a time need --reference-time, the moment at which the page was taken")
        chunk = clean(labels, when[good], np.array(values, dtype=np.float64)[good], tally, context.latest_ns)
        if chunk is not None:
            yield chunk


def _times(stamps: list[str], reference_ns: int | None) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    blank = times.UNREADABLE if reference_ns is None else reference_ns
    numbers = np.array([_float(stamp) for stamp in stamps], dtype=np.float64)
    out = times.epochs(numbers)
    out[np.array([not stamp for stamp in stamps], dtype=bool)] = blank
    return out


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
