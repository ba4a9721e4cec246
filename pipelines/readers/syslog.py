"""Syslog files: RFC 3339 and journalctl's short-iso, RFC 5424, and RFC 3164 without year and zone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from features.tables import to_ns
from pipelines.readers import stamps
from pipelines.readers.context import LogContext
from pipelines.readers.lines import USUAL, Rows, Scan, Told, rows_of
from pipelines.readers.objects import SEVERITIES
from pipelines.readers.spans import severities, texts_at
from pipelines.readers.tally import Tally

_ISO_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"
# 2026-01-01T00:00:00Z n1 kernel: NVRM: ...      (rsyslog's file format, journalctl -o short-iso)
ISO_LINE = re.compile(rf"({_ISO_TIME}) (.*)", re.DOTALL)
# Dec 31 23:59:58 n1 kernel: NVRM: ...           (rsyslog's traditional format, RFC 3164)
OLD_LINE = re.compile(
    rf"({stamps.MONTH}) {{1,2}}(\d{{1,2}}) (?:(\d{{4}}) )?(\d\d:\d\d:\d\d)(?:\.(\d{{1,9}}))? (.*)", re.DOTALL
)
# <165>1 2026-01-01T00:00:00.003Z n1 evntslog 8710 ID47 [x@1 a="b"] text
NEW_LINE = re.compile(
    rf"1 ({_ISO_TIME}|-) (\S{{1,255}}) (\S{{1,48}}) \S{{1,128}} \S{{1,32}} ((?:-|(?:\[(?:[^\]\\]|\\.)*\])+) ?)(.*)",
    re.DOTALL,
)
_PRIORITY = re.compile(r"<(\d{1,3})>")
_BODY = re.compile(r"(\S+) ([^\s\[:]{1,64})(?:\[[^\]\s]{0,40}\])?:(?: (.*)|$)", re.DOTALL)  # n1 sshd[42]: text
_HOSTLESS = re.compile(r"([^\s\[:]{1,64})(?:\[[^\]\s]{0,40}\])?:(?: (.*)|$)", re.DOTALL)  # kernel: text
_BARE = re.compile(r"(\S+) (.*)", re.DOTALL)  # n1 text
# [  885.242168] or [    T1946] or [ 171167.620236][ T1946], which printk adds
_PRINTK = re.compile(r"(?:\[ *\d{1,12}\.\d{6}\] ?|\[ *[TC]\d{1,9}\] ?){1,2}")
_TAG = re.compile(r"([^\s\[:]{1,64})(?:\[[^\]\s]{0,40}\])?")  # sshd[42]
# The same in one step for the usual lines: time, host, tag, text without what printk adds
_USUAL = r"(\S*[^\s:]) ([^\s\[:]{1,64})(?:\[[^\]\s]{0,40}\])?: (?:\[ *\d{1,12}\.\d{6}\] ?|\[ *[TC]\d{1,9}\] ?){0,2}(.*)"
_USUAL_OLD = re.compile(rf"([A-Za-z]{{3}}) {{1,2}}(\d{{1,2}}) (\d\d:\d\d:\d\d) {_USUAL}", re.DOTALL)

Line = tuple[str | int, str, str, str, str, bool]  # ISO text or nanoseconds, node, source, severity, message, kernel


def read(blocks: Iterable[bytes], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each block; a line without time, host or text is rejected by that reason."""
    if context.reference_time is None:
        raise ValueError("a syslog reader needs a reference time")  # read_logs gives the file's own
    yearless = stamps.Yearless(context.zone(), to_ns(context.reference_time))
    scan, told = _scan_with(yearless, context, tally), _told_with(yearless, context, tally)
    yield from rows_of(blocks, scan, told, tally)
    stamps.hint_years(yearless.years, context, tally)


def _scan_with(yearless: stamps.Yearless, context: LogContext, tally: Tally) -> Scan:
    def scan(data: NDArray[np.uint8], ends: NDArray[np.int64]) -> tuple[NDArray[np.uint8], Rows] | None:
        from pipelines.readers import syslog_kernel  # noqa: PLC0415  # half a second that small files need not wait

        state, spans, times, minutes, severity, kernel = syslog_kernel.scan(data, ends)
        usual = np.flatnonzero(state == USUAL)
        times, minutes = times[usual], minutes[usual]
        without_year = np.flatnonzero(minutes)
        if len(without_year):
            began = yearless.minutes(minutes[without_year])
            if began is None:
                return None
            times[without_year] += began
            yearless.passed(int(times[without_year[-1]]))
            stamps.hint_zone(context, tally)
        hosts, sources, messages = (texts_at(data, part[usual]) for part in spans)
        return state, Rows(hosts, times, sources, severities(severity[usual]), messages, kernel[usual])

    return scan


def _told_with(yearless: stamps.Yearless, context: LogContext, tally: Tally) -> Told:
    tags = _Tags()

    def told(lines: list[str]) -> tuple[Rows, list[int]]:
        found: list[Line] = []
        places: list[int] = []
        for place, line in enumerate(lines):
            parsed = _usual(line, tags) or _old(line, yearless) or _parse(line, yearless)
            if parsed is None:
                tally.reject("no time stamp")
            elif not (parsed[1] or context.node):
                tally.reject("no host")
                tally.hint("lines without a host were rejected; say whose they are with --node")
            else:
                found.append(parsed)
                places.append(place)
        rows = _rows(found, context, tally, yearless.previous)
        if len(rows.times) and rows.times[-1] != stamps.UNREADABLE:
            yearless.passed(int(rows.times[-1]))
        return rows, places

    return told


def _usual(line: str, tags: _Tags) -> Line | None:
    """2026-01-01T00:00:00.123456+00:00 n1 sshd[42]: text, taken apart without a regular expression."""
    stamp, _, rest = line.partition(" ")
    if stamp[10:11] != "T":
        return None
    host, _, rest = rest.partition(" ")
    written, colon, text = rest.partition(": ")
    if not (colon and (tag := tags[written]) and host and host[-1] != ":" and "\t" not in host):
        return None
    return stamp, host, tag, "", strip_printk(text) if text[:1] == "[" else text, tag == "kernel"


class _Tags(dict[str, str]):
    """Programs by their tag as written, ``sshd[42]`` is sshd; "" for what is no tag."""

    def __missing__(self, written: str) -> str:
        if len(self) > 100_000:
            self.clear()
        found = _TAG.fullmatch(written)
        self[written] = name = found[1] if found else ""
        return name


def _old(line: str, yearless: stamps.Yearless) -> Line | None:
    usual = _USUAL_OLD.match(line)
    if not usual:
        return None
    month, day, clock, host, tag, text = usual.groups()
    stamp = yearless.parse(month, day, clock)
    return None if stamp is None else (stamp, host, tag, "", text, tag == "kernel")


def strip_printk(message: str) -> str:
    """The message without the seconds since boot and the thread that printk adds."""
    return _PRINTK.sub("", message, count=1) if message.startswith("[") and _PRINTK.match(message) else message


def _rows(lines: list[Line], context: LogContext, tally: Tally, previous: int) -> Rows:
    if not lines:
        return Rows.of([], [], [], [], [], [])
    raw, nodes, sources, levels, messages, kernel = (list(column) for column in zip(*lines, strict=True))
    written = [value for value in raw if type(value) is str]
    if len(written) < len(raw):
        stamps.hint_zone(context, tally)
    times = stamps.iso_many(written, context, tally, previous).tolist() if written else raw
    if 0 < len(written) < len(raw):
        read_times = iter(times)
        times = [next(read_times) if type(value) is str else value for value in raw]
    return Rows.of(nodes, times, sources, levels, messages, kernel)


def _parse(line: str, yearless: stamps.Yearless) -> Line | None:
    severity = ""
    facility = None
    if line[0] == "<" and (priority := _PRIORITY.match(line)):
        number = int(priority[1])
        severity, facility = SEVERITIES[number & 7], number >> 3
        line = line[priority.end() :]
        if line.startswith("1 ") and (new := NEW_LINE.match(line)):
            stamp, host, app, _, text = new.groups()
            if stamp == "-":
                return None
            source = "" if app == "-" else app
            text = strip_printk(text.removeprefix("\ufeff"))
            return stamp, "" if host == "-" else host, source, severity, text, source == "kernel" or facility == 0
    if found := ISO_LINE.match(line):
        return _body(found[1], found[2], severity, facility)
    if old := OLD_LINE.match(line):
        month, day, year, clock, fraction, rest = old.groups()
        number = stamps.month_number(month)
        written = f"{year}-{number:02}-{int(day):02}T{clock}"
        said = stamps.iso(written, yearless.zone, yearless.previous) if year else None
        if said is not None:
            yearless.passed(said)
        stamp = said or yearless.parse(month, day, clock, fraction)
        return None if stamp is None else _body(stamp, rest, severity, facility)
    return None


def _body(stamp: str | int, rest: str, severity: str, facility: int | None) -> Line | None:
    if found := _BODY.match(rest):
        host, tag, text = found.groups()
        if not host.endswith(":"):
            return stamp, host, tag, severity, strip_printk(text or ""), tag == "kernel"
    if found := _HOSTLESS.match(rest):
        tag, text = found.groups()
        kernel = tag == "kernel" or facility == 0
        if tag == "NVRM":  # a driver's line whose host and tag were left out
            return stamp, "", "kernel", severity, rest, True
        return stamp, "", tag, severity, strip_printk(text or ""), kernel
    if found := _BARE.match(rest):
        return stamp, found[1], "", severity, found[2], False
    return None
