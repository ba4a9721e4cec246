"""Lines a CPU-second from a log file to the table of logs, beside orjson's bare parsing of the same journal.

Run as ``python -m benchmarks.log_lines``; the lines are made up and shaped like a journal's, about 600 bytes each.
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import orjson
import pandas as pd

from pipelines.readers.context import LogContext
from pipelines.readers.logs import read_logs
from pipelines.readers.tally import Tally

LINES = 200_000


def journal(number: int, message: str) -> bytes:
    """One entry as ``journalctl -o json`` writes it."""
    entry = {
        "__CURSOR": f"s={number:032x};i={number:x};b=c2c5b1",
        "__REALTIME_TIMESTAMP": str(1_767_225_600_000_000 + number * 13_127),
        "__MONOTONIC_TIMESTAMP": str(number * 131),
        "_BOOT_ID": f"{7:032x}",
        "_MACHINE_ID": f"{9:032x}",
        "_HOSTNAME": f"node{number % 60:02}",
        "PRIORITY": "6",
        "_TRANSPORT": "kernel" if number % 3 == 0 else "syslog",
        "SYSLOG_IDENTIFIER": "kernel" if number % 3 == 0 else "systemd",
        "_PID": str(number % 30_000),
        "_EXE": "/usr/lib/systemd/systemd",
        "_CMDLINE": "/usr/lib/systemd/systemd --user",
        "_SYSTEMD_UNIT": "user@0.service",
        "MESSAGE": message,
    }
    return orjson.dumps(entry)


def syslog(number: int, message: str) -> bytes:
    """One RFC 3339 line."""
    hour, minute, second = number // 3600 % 24, number // 60 % 60, number % 60
    return f"2026-01-01T{hour:02}:{minute:02}:{second:02}.{number:06}Z node{number % 60:02} app[1]: {message}".encode()


def old_syslog(number: int, message: str) -> bytes:
    """One RFC 3164 line, fifty a second."""
    return f"{_moment(number):%b %e %H:%M:%S} node{number % 60:02} app[1]: {message}".encode()


def new_syslog(number: int, message: str) -> bytes:
    """One RFC 5424 line."""
    return f"<30>1 {_moment(number).isoformat()}Z node{number % 60:02} app 1 - - {message}".encode()


def _moment(number: int) -> datetime:
    return datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None) + timedelta(milliseconds=20 * number)


def main() -> None:
    """Measure and print: a first read with the loading of compiled code, and the best of the rounds after it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--rounds", type=int, default=3)
    wanted = parser.parse_args()
    draw = random.Random(0)  # noqa: S311  # made-up lines
    messages = [f"Started session {number} of user root in {draw.random():.4f}s" for number in range(wanted.lines)]
    forms = {"journald": journal, "rfc 3339": syslog, "rfc 3164": old_syslog, "rfc 5424": new_syslog}
    print(f"load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log"
        for name, line in forms.items():
            with path.open("wb") as file:
                for number, message in enumerate(messages):
                    file.write(line(number, message) + b"\n")
            took = [seconds(partial(read, path)) for _ in range(wanted.rounds + 1)]
            best, first = wanted.lines / min(took[1:]), wanted.lines / took[0]
            print(f"{name:10} {best:10,.0f} lines a CPU-second; the first time {first:,.0f}")
            if name == "journald":
                took = [seconds(partial(parse, path)) for _ in range(wanted.rounds)]
                print(f"{'orjson':10} {wanted.lines / min(took):10,.0f} lines a CPU-second, parsing only")


def read(path: Path) -> None:
    """A log file to the table of logs."""
    for _ in read_logs(path, LogContext(reference_time=pd.Timestamp("2026-06-01", tz="UTC")), Tally()):
        pass


def parse(path: Path) -> None:
    """The bar of journald's JSON."""
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def seconds(run: Callable[[], object]) -> float:
    """CPU-seconds of one run."""
    began = time.process_time()
    run()
    return time.process_time() - began


if __name__ == "__main__":
    main()
