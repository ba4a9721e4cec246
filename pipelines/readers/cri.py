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
    """Rows of each batch; parts are joined up to the line's limit and counted as kept with their last part."""
    parts: dict[str, str] = {}
    for lines in batches:
        times: list[str] = []
        messages: list[str] = []
        for line in lines:
            found = LINE.match(line)
            if not found:
                tally.reject("no CRI line")
                continue
            stamp, stream, tag, text = found.groups()
            whole = (parts.pop(stream, "") + text)[: context.max_line_bytes]
            if tag == "P":
                parts[stream] = whole
                tally.ok += 1
            elif not context.node:
                tally.reject("no host")
                tally.hint("container logs name no host; say whose they are with --node")
            else:
                times.append(stamp)
                messages.append(whole)
        count = len(times)
        numbers = stamps.iso_many(times, context, tally).tolist()
        yield Rows.of([context.node] * count, numbers, [source] * count, [""] * count, messages, [False] * count)
