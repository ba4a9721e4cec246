"""Which processes still run: a run left open by a killed one can be closed."""

from __future__ import annotations

import os
import socket
from pathlib import Path


def this() -> str:
    """Host, boot, process id and its start: a reused id is another process."""
    return "/".join([socket.gethostname(), _boot(), str(os.getpid()), _started(os.getpid())])


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "-"


def _started(pid: int) -> str:
    """Clock ticks from boot to the start of a process (field 22 of proc(5) stat); "" when it is gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]


def is_dead(process: str) -> bool:
    """True for a process of this host that no longer runs; other hosts' can't be known."""
    host, boot, pid, started = (process.split("/") + [""] * 4)[:4]
    if host != socket.gethostname() or not pid.isdigit():
        return False
    return boot != _boot() or _started(int(pid)) != started
