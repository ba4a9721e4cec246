"""``/proc/self/mountstats`` of a node, told in node_exporter's names: what the NFS client has done since it mounted.

    device 10.0.0.1:/ckpt mounted on /mnt/ckpt with fstype nfs4 statvers=1.1
        bytes:  1207640230 0 0 0 1210214218 0 295483 0
        xprt:   tcp 832 0 1 0 11 6428 6428 0 12154 0 24 26 5726
        per-op statistics
                READ: 1298 1298 0 207680 1210292152 6 79386 79407

The text holds no time and no node: both are said by the user. Fields: net/sunrpc/stats.c, net/sunrpc/xprtsock.c and
fs/nfs/iostat.h of the Linux kernel; names: node_exporter's collector/mountstats_linux.go.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pipelines.readers.samples import ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally
from pipelines.readers.victoria import lines

_PREFIX = "node_mountstats_nfs_"
_DEVICE = re.compile(r"device (?P<export>.+) mounted on (?P<mountpoint>.+) with fstype (?P<type>\S+)")
_HEAD = re.compile(rb"(?:^|\n)device \S.* mounted on .+ with fstype \S")
_BYTES = ("read", "write", "direct_read", "direct_write", "total_read", "total_write")
_PAGES = ("read", "write")
_EVENTS = (
    *("inode_revalidate", "dnode_revalidate", "data_invalidate", "attribute_invalidate", "vfs_open", "vfs_lookup"),
    *("vfs_access", "vfs_update_page", "vfs_read_page", "vfs_read_pages", "vfs_write_page", "vfs_write_pages"),
    *("vfs_getdents", "vfs_setattr", "vfs_flush", "vfs_fsync", "vfs_lock", "vfs_file_release"),
    *("", "truncation", "write_extension", "silly_rename", "short_read", "short_write", "jukebox_delay"),  # "" no name
    *("pnfs_read", "pnfs_write"),
)
# Fields after the protocol; "" has no name in node_exporter. RDMA's own fields come after these.
_STREAM = (
    *("", "bind_total", "connect_total", "", "idle_time_seconds", "sends_total", "receives_total"),
    *("bad_transaction_ids_total", "", "backlog_queue_total"),
)
_DATAGRAM = ("", "bind_total", "sends_total", "receives_total", "bad_transaction_ids_total", "", "backlog_queue_total")
_SINCE_1_1 = ("maximum_rpc_slots", "sending_queue_total", "pending_queue_total")
_TRANSPORTS = {"tcp": _STREAM + _SINCE_1_1, "udp": _DATAGRAM + _SINCE_1_1, "rdma": _STREAM}
# What an operation's line counts, and by what it is divided: times are in milliseconds.
_OPERATION = (
    *(("requests_total", 1), ("transmissions_total", 1), ("major_timeouts_total", 1)),
    *(("sent_bytes_total", 1), ("received_bytes_total", 1)),
    *(("queue_time_seconds_total", 1000), ("response_time_seconds_total", 1000), ("request_time_seconds_total", 1000)),
)
_WRAPPED = 1 << 63  # an unsigned count above it went below zero
_MANTISSA = 1 << 53  # node_exporter takes counts modulo this, so that a step of 1 stays visible in a float64


def is_text(head: bytes) -> bool:
    """Whether these are the first bytes of such a text."""
    return bool(_HEAD.search(head[:4096]))


def read(path: Path, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """One sample of each series of the file's NFS mounts, all at the reference time."""
    seen: set[tuple[str, str, str]] = set()
    for mount in _mounts(path, tally):
        found = list(_samples(mount, tally))
        said = mount.labels()
        key = (said["export"], said["protocol"], said["mountaddr"])
        if key in seen:  # a second mount of one export has the same counts; node_exporter shows them once
            tally.note("mount shown twice")
            found = [(labels, value) for labels, value in found if "mountpoint" in labels]
        seen.add(key)
        if context.reference_ns is None:
            tally.drop("no timestamp", len(found))
            tally.hint("mountstats hold no time; give --reference-time, the moment at which they were taken")
            continue
        when = np.array([context.reference_ns], dtype=np.int64)
        for labels, value in found:
            chunk = clean(labels, when, np.array([value]), tally, context.latest_ns)
            if chunk is not None:
                yield chunk


class _Mount:
    """The lines of one NFS mount: fields by what stands before the colon; transports in their order."""

    def __init__(self, export: str, mountpoint: str) -> None:
        self.export = export
        self.mountpoint = mountpoint
        self.fields: dict[str, list[str]] = {}
        self.transports: list[list[str]] = []
        self.operations: dict[str, list[str]] = {}

    def take(self, text: str, *, of_operation: bool) -> None:
        """Keep one line."""
        name, colon, rest = text.partition(":")
        if not colon:
            return
        if name == "xprt":
            self.transports.append(rest.split())
        elif of_operation:
            self.operations[name] = rest.split()
        else:
            self.fields[name] = rest.split()

    def labels(self) -> dict[str, str]:
        """What all series of the mount have."""
        options = dict(part.partition("=")[::2] for part in ",".join(self.fields.get("opts", ())).split(","))
        protocol = self.transports[0][0] if self.transports and self.transports[0] else options.get("proto", "")
        return {"export": self.export, "mountaddr": options.get("mountaddr", ""), "protocol": protocol}


def _mounts(path: Path, tally: Tally) -> Iterator[_Mount]:
    """The NFS mounts, in the file's order."""
    mount: _Mount | None = None
    per_operation = False
    for raw in lines(path, tally):
        text = raw.decode("utf-8", "replace").strip()
        device = _DEVICE.match(text)
        if device:
            if mount is not None:
                yield mount
            per_operation = False
            mount = _Mount(device["export"], device["mountpoint"]) if device["type"] in {"nfs", "nfs4"} else None
        elif mount is not None:
            per_operation = per_operation or text == "per-op statistics"
            mount.take(text, of_operation=per_operation)
    if mount is not None:
        yield mount


def _samples(mount: _Mount, tally: Tally) -> Iterator[tuple[dict[str, str], float]]:
    """Labels and value of each series of a mount."""
    shared = mount.labels()

    def named(name: str, more: Mapping[str, str] | None = None) -> dict[str, str]:
        return {"__name__": _PREFIX + name, **shared, **(more or {})}

    yield named("mountpoint_info", {"mountpoint": mount.mountpoint}), 1.0
    rows: list[tuple[dict[str, str], str, int]] = []
    rows += [(named("age_seconds_total"), text, 1) for text in mount.fields.get("age", [])[:1]]
    counted = mount.fields.get("bytes", [])
    # an old kernel's line is shorter: what it does not say has no sample
    rows += [(named(f"{name}_bytes_total"), text, 1) for name, text in zip(_BYTES, counted, strict=False)]
    rows += [(named(f"{name}_pages_total"), text, 1) for name, text in zip(_PAGES, counted[6:], strict=False)]
    events = zip(_EVENTS, mount.fields.get("events", []), strict=False)
    rows += [(named(f"event_{name}_total"), text, 1) for name, text in events if name]
    for number, (protocol, *fields) in enumerate(filter(None, mount.transports)):
        which = {"transport": str(number), "protocol": protocol}
        known = zip(_TRANSPORTS.get(protocol, ()), fields, strict=False)
        rows += [(named(f"transport_{name}", which), text, 1) for name, text in known if name]
    for operation, fields in mount.operations.items():
        counts = zip(_OPERATION, fields, strict=False)
        rows += [(named(f"operations_{name}", {"operation": operation}), t, by) for (name, by), t in counts]
    for labels, text, divisor in rows:
        if not text.isdigit():
            tally.drop("broken number")
            continue
        if int(text) >= _WRAPPED:
            tally.note("count below zero")
            tally.hint(f"{labels['__name__']} went below zero in the kernel; its level means nothing, its steps do")
        yield labels, int(text) % _MANTISSA / divisor
