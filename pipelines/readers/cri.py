"""Container logs as kubelet's runtimes write them: ``TIME stdout|stderr P|F text``; P is a part of a long line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from pipelines.readers import stamps
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.tally import Tally

LINE = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)) (stdout|stderr) ([PF])(?: |$)(.*)", re.DOTALL
)


def read(batches: Iterable[list[str]], context: LogContext, tally: Tally, source: str) -> Iterator[Rows]:
    """Rows of each batch; parts are joined up to the line's limit, and each counts as kept with what it became.

    The parts of a line whose last one is in the next file, as after a rotation, are a line as they are.
    """
    parts: dict[str, tuple[str, str]] = {}  # by stream, the time of the latest and the text so far
    for lines in batches:
        whole: list[tuple[str, str]] = []
        for line in lines:
            found = LINE.match(line)
            if not found:
                tally.reject("no CRI line")
                continue
            stamp, stream, tag, text = found.groups()
            if stream in parts:
                text = parts.pop(stream)[1] + text
                tally.ok += 1
            told = stamp, text[: context.max_line_bytes]
            if tag == "P":
                parts[stream] = told
            else:
                whole.append(told)
        yield _rows(whole, context, tally, source)
    if parts:
        tally.note("line without its last part", len(parts))
        yield _rows(sorted(parts.values()), context, tally, source)


def _rows(lines: list[tuple[str, str]], context: LogContext, tally: Tally, source: str) -> Rows:
    if lines and not context.node:
        tally.reject("no host", len(lines))
        tally.hint("container logs name no host; say whose they are with --node")
        lines = []
    count = len(lines)
    times = stamps.iso_many([stamp for stamp, _ in lines], context, tally).tolist()
    messages = [text for _, text in lines]
    return Rows.of([context.node] * count, times, [source] * count, [""] * count, messages, [False] * count)
