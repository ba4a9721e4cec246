"""Lines a CPU-second from a log file to the table of logs, beside orjson's bare parsing of the same journal.

Run as ``python -m benchmarks.log_lines``; the lines are made up and shaped like a journal's, about 600 bytes each.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

import orjson

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


def main() -> None:
    """Measure and print."""
    draw = random.Random(0)  # noqa: S311  # made-up lines
    messages = [f"Started session {number} of user root in {draw.random():.4f}s" for number in range(LINES)]
    with tempfile.TemporaryDirectory() as folder:
        for name, line in (("journald", journal), ("syslog", syslog)):
            content = [line(number, message) for number, message in enumerate(messages)]
            path = Path(folder) / name
            path.write_bytes(b"\n".join(content) + b"\n")
            began = time.process_time()
            for _ in read_logs(path, LogContext(), Tally()):
                pass
            print(f"{name:10} {LINES / (time.process_time() - began):10,.0f} lines a CPU-second")
            if name == "journald":
                began = time.process_time()
                for entry in content:
                    orjson.loads(entry)
                print(f"{'orjson':10} {LINES / (time.process_time() - began):10,.0f} lines a CPU-second, parsing only")


if __name__ == "__main__":
    main()
