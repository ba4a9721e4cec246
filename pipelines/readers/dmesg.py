"""What ``dmesg`` prints (seconds since boot, ``-T``, ISO; with ``-x`` or without), and ``/dev/kmsg``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from features.tables import InputError, to_ns
from pipelines.readers import objects, stamps
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.syslog import strip_printk
from pipelines.readers.tally import Tally

_LEVEL = r"(?:<(?P<priority>\d{1,3})>|(?P<facility>[a-z]\w{1,9}) *:(?P<level>[a-z]{2,7}) *: ?)?"
# [ 1200.250000] NVRM: ...      seconds since boot
RAW = re.compile(_LEVEL + r"\[ *(?P<seconds>\d{1,12})\.(?P<micros>\d{6})\] ?(?P<text>.*)", re.DOTALL)
# [Fri Aug 30 11:43:09 2024] NVRM: ...      dmesg -T
HUMAN = re.compile(
    _LEVEL + r"\[\S{2,5} +(?P<month>[^\W\d_]{3,5}\.?) +(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d) (?P<year>\d{4})\]"
    r" ?(?P<text>.*)",
    re.DOTALL,
)
# kern  :warn  : 2025-01-21T04:41:44,283302+00:00 NVRM: ...      dmesg -x --time-format iso
ISO = re.compile(
    _LEVEL + r"(?P<iso>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{6}[+-]\d\d:\d\d) (?P<text>.*)",
    re.DOTALL,
)
# 6,3964,206764307,-;nvidia-nvswitch2: open (major=510)      /dev/kmsg
KMSG = re.compile(
    r"(?P<priority>\d{1,4}),(?P<number>\d{1,18}),(?P<micros>\d{1,18}),[^;]{0,200};(?P<text>.*)", re.DOTALL
)
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_BOOT = (
    "times are seconds since boot; say when that was with --boot-time (uptime -s on the node tells), "
    "e.g. --boot-time 2026-01-01T00:00:00Z"
)


class _Record(NamedTuple):
    time: int
    severity: str
    kernel: bool
    text: str
    number: int = -1


def read(batches: Iterable[list[str]], context: LogContext, tally: Tally) -> Iterator[Rows]:
    """Rows of each batch; a line that begins with no time continues the one before it.

    Raises
    ------
    InputError
        The lines need a boot time or a node, and the context has none.
    """
    if not context.node:
        raise InputError("dmesg names no host; say whose it is with --node")
    last: _Record | None = None
    number = -1
    for lines in batches:
        done: list[_Record] = []
        for line in lines:
            record = _parse(line, context, tally, last and last.time)
            if record is not None:
                # /dev/kmsg numbers its records: a jump is what its ring had overwritten
                tally.note("records missing by their numbers", max(record.number - number - 1, 0) if number >= 0 else 0)
                number = record.number
                done += [] if last is None else [last]
                last = record
            elif last is None or line.startswith((" SUBSYSTEM=", " DEVICE=")):
                tally.reject("no time stamp" if last is None else "kmsg attribute")
            else:
                # A message of several lines is one record; it counts as the one row it becomes
                last = last._replace(text=f"{last.text} {line.strip()}"[: context.max_line_bytes])
                tally.ok += 1
        yield _rows(done, context)
    if last is not None:
        yield _rows([last], context)


def _rows(records: list[_Record], context: LogContext) -> Rows:
    count = len(records)
    return Rows.of(
        nodes=[context.node] * count,
        times=[record.time for record in records],
        sources=["kernel" if record.kernel else "" for record in records],
        severities=[record.severity for record in records],
        messages=[strip_printk(record.text) for record in records],
        kernel=[record.kernel for record in records],
    )


def _parse(line: str, context: LogContext, tally: Tally, previous: int | None) -> _Record | None:
    if found := KMSG.match(line):
        level = int(found["priority"])
        text = _ESCAPED.sub(lambda byte: chr(int(byte[1], 16)), found["text"])
        time = _since_boot(int(found["micros"]), context)
        return _Record(time, objects.SEVERITIES[level & 7], level >> 3 == 0, text, int(found["number"]))
    if found := RAW.match(line):
        time = _since_boot(int(found["seconds"]) * 1_000_000 + int(found["micros"]), context)
    elif found := HUMAN.match(line):
        text = f"{found['year']}-{stamps.month_number(found['month']):02}-{int(found['day']):02}T{found['clock']}"
        stamp = stamps.iso(text, context.zone(), previous)
        if stamp is None:
            return None
        time = stamp
        stamps.hint_zone(context, tally)
        tally.hint("'dmesg -T' reckons its times from the boot: after a suspend they are late by its length")
    elif found := ISO.match(line):
        stamp = stamps.iso(found["iso"], context.zone())
        if stamp is None:
            return None
        time = stamp
    else:
        return None
    severity, kernel = _origin(found)
    return _Record(time, severity, kernel, found["text"])


def _origin(found: re.Match[str]) -> tuple[str, bool]:
    if found["priority"]:
        number = int(found["priority"])
        return objects.SEVERITIES[number & 7], number >> 3 == 0
    return objects.severity(found["level"]), found["facility"] in (None, "kern")


def _since_boot(micros: int, context: LogContext) -> int:
    if context.boot_time is None:
        raise InputError(_BOOT)
    time = to_ns(context.boot_time) + micros * 1000
    return time if time < 2**63 else stamps.UNREADABLE
