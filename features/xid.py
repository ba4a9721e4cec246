"""Kernel lines to XID events: every form the NVIDIA driver writes, floods folded, lost GPUs found without an XID."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features import catalogue
from features.folding import LOST_WITHOUT_XID, fold, nanoseconds, place
from features.gauge import from_gauge
from features.tables import EVENTS, LOGS, conform, to_time

# NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a b, Graphics Exception
# NVRM: Xid (0000:03:00): 14, Channel 00000001          a wrapped line may hold more blanks, a pipeline lower case
_XID = re.compile(
    r"NVRM: {1,80}Xid {1,80}\((?:PCI:)?([0-9a-f:.]{4,24})(?: {1,80}GPU-I:(\d{1,3}))?(?: {1,80}GPU-CI:(\d{1,3}))?\):"
    r" {0,80}(\d{1,5})(?!\d)(?:, *)?(.*)",
    re.DOTALL | re.IGNORECASE,
)
# What the readers make of an event of NVML that tells a GPU by its UUID alone
_TOLD_BY_UUID = re.compile(
    r"NVRM: Xid \((GPU-[0-9a-f-]{4,40})\): (\d{1,5})(?!\d)(?:, *)?(.*)", re.DOTALL | re.IGNORECASE
)
# nvidia-nvswitch3: SXid (PCI:0000:c4:00.0): 20034, Fatal, Link 32
_SXID = re.compile(
    r"SXid {1,80}\((?:PCI:)?([0-9a-f:.]{4,24})\): {0,80}(\d{1,7})(?!\d)(?:, *)?(.*)", re.DOTALL | re.IGNORECASE
)
_EACH = re.compile(r"(?<!^)(?=NVRM: {1,80}Xid {1,80}\(|SXid {1,80}\()", re.IGNORECASE)
_MOST_JOINED = 100  # lines of one message
# pid=9962, name=python, ...   pid='<unknown>', name=<unknown>, ...   pid=1659,
_PROCESS = re.compile(r"pid=(?:'[^']{0,64}'|[^,]{0,64})(?:, *|$)(?:name=[^,]{0,256}(?:, *|$))?")
# NETIR_LINK_EVT  Fatal   XC0 i0 Link 08 (0x004505c6 ...)
# NETIR_LINK_EVT Fatal XC 1 i 2 Link 01 [0x0000000a]      before R575
_NVLINK = re.compile(
    r"([A-Z][A-Z0-9_]{1,40}) +(Non-?fatal|Fatal) +XC ?-?\d{1,4} +i ?-?\d{1,4} +Link +(-?\d{1,4})"
    r"(?: *[(\[](0x[0-9a-fA-F]{1,8}))?",
    re.IGNORECASE,
)
_FATAL = re.compile(r"\b(non-?)?fatal\b", re.IGNORECASE)
_LINK = re.compile(r"\bLink +(-?\d{1,4})\b")
# GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)      older: changed to 0x2 (...)
_RECOVERY = re.compile(r"recovery action changed (?:from 0x[0-9a-fA-F]+ \([^)]*\) )?to 0x[0-9a-fA-F]+ \(([^)]*)\)")
# NVRM: GPU 0000:18:00.0: GPU has fallen off the bus.          old: NVRM: GPU at 0000:18:00.0 has fallen off the bus.
_LOST = re.compile(
    r"NVRM: GPU (?:at )?(?:PCI:)?([0-9a-f:]{7,16}(?:\.[0-7])?)(?:: GPU)? has fallen off the bus", re.IGNORECASE
)
# NVRM: The NVIDIA GPU 0000:5a:00.0 / NVRM: (PCI ID: 10de:1234) installed in this system has / NVRM: fallen off ...
_NAMED = re.compile(r"NVRM: The NVIDIA GPU ([0-9a-fA-F:]{7,16}(?:\.[0-7])?)")
_GONE = re.compile(r"fallen off the bus and is not responding")
# NVRM: GPU at PCI:0000:c1:00: GPU-6f0d...      which UUID is where
_PLACE = re.compile(r"NVRM: GPU at PCI:([0-9a-fA-F:.]{4,24}): (GPU-[0-9a-fA-F-]{8,40})")
_PCI = re.compile(r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})(?:\.[0-7])?")
_TARGET = (
    r"(?:^|[^a-z])s?xids?(?:[^a-z]|$)|fallen off the bus|recovery action changed|nvrm: the nvidia gpu"
    r"|\(pci id: [0-9a-f:]+\) installed|nvrm: gpu at pci:"
)

# What an export calls the stream when it does not name the program that wrote the line
SILENT_SOURCES = frozenset({"", "syslog", "messages", "journal", "journald", "file", "docker_logs", "varlogs", "stdin"})
MOST_DETAIL = 400  # characters of a line that an event keeps; the driver's own are shorter
_PIECE = 50_000  # lines decoded at once
_FOLD_EVERY = 64  # tables of events that are held before they are folded
LOST_LINES_GAP = pd.Timedelta(seconds=1)  # the three lines of a loss come within a second

__all__ = [
    "Line",
    "decode",
    "decode_pieces",
    "fold",
    "from_gauge",
    "is_target_line",
    "pci",
    "place",
    "read_line",
    "recovery_action",
]


class Line(NamedTuple):
    """What one line says."""

    pci: str
    xid: int | None
    severity: str
    detail: str
    mig: str
    link: int | None
    kind: str
    gpu: str = ""


def pci(text: str) -> str:
    """The canonical address ``dddd:bb:dd`` of any way to write it; "" when it is none."""
    found = _PCI.fullmatch(text.strip().removeprefix("PCI:"))
    if not found:
        return ""
    domain = (found[1] or "0").lstrip("0").rjust(4, "0")
    return f"{domain}:{found[2]:0>2}:{found[3]:0>2}".lower()


def is_target_line(messages: pd.Series) -> pd.Series:
    """True for lines that name an XID, a lost GPU or a recovery action: they are what is predicted, never a feature."""
    return messages.str.contains(_TARGET, case=False, regex=True, na=False).astype(bool)


def read_line(message: str) -> Line | str | None:
    """What a line says of a GPU's or switch's error.

    Returns
    -------
    Line, str or None
        A word for what is wrong with it ("malformed", "zero") when it speaks of an XID that can't be read; None when
        it speaks of none.
    """
    if found := _XID.search(message):
        address, instance, compute, number, rest = found.groups()
        canonical = pci(address)
        return _xid_line(canonical, int(number), _mig(instance, compute), rest) if canonical else "malformed"
    if found := _TOLD_BY_UUID.search(message):
        line = _xid_line("", int(found[2]), "", found[3])
        return line._replace(gpu=found[1]) if isinstance(line, Line) else line
    if found := _SXID.search(message):
        address, number, rest = found.groups()
        rest = " ".join(rest[:MOST_DETAIL].split())
        detail = f"SXid {number}: {rest}" if rest else f"SXid {number}"
        return Line(pci(address), None, _severity(rest), detail, "", _link(rest), catalogue.kind(None))
    if found := _LOST.search(message):
        return _lost(found[1])
    if _GONE.search(message) and (found := _NAMED.search(message)):
        return _lost(found[1])
    return "malformed" if re.search(r"\bS?Xid\b", message) else None


def read_message(message: str) -> list[Line | str | None]:
    """What `read_line` says of each line of a message: loggers join lines that follow each other without a time."""
    if message.count("Xid (") + message.count("xid (") <= 1:
        return [read_line(message)]
    return [read_line(part) for part in _EACH.split(message, _MOST_JOINED) if "xid" in part.lower()]


def decode(logs: pd.DataFrame, gpus: pd.DataFrame, counts: Counter[str] | None = None) -> pd.DataFrame:
    """Events of a table of logs, repeats folded, in time order: as `decode_pieces` of one piece."""
    return decode_pieces([logs], gpus, counts)


def decode_pieces(
    pieces: Iterable[pd.DataFrame], gpus: pd.DataFrame, counts: Counter[str] | None = None
) -> pd.DataFrame:
    """Events of tables of logs that follow each other in time, repeats folded, in time order.

    A flood of a million lines is folded piece by piece, so that only its few events are held.

    Parameters
    ----------
    pieces
        Frames of `LOGS`; only lines that the kernel wrote, or whose export does not say who did, are believed.
    gpus
        Frame of `GPUS`: which UUID was last seen at which address.
    counts
        Filled with lines that speak of an XID and gave no event, by reason.

    Returns
    -------
    DataFrame
        Frame of `EVENTS`.
    """
    counts = Counter() if counts is None else counts
    held: list[pd.DataFrame] = []
    told: dict[tuple[str, str], str] = {}
    before = LOGS.empty()  # what the next piece's first lines may complete
    for logs in pieces:
        lines = logs[is_target_line(logs["message"])] if len(logs) else logs
        if lines.empty:
            continue
        held += [_decoded(lines.iloc[first : first + _PIECE], counts) for first in range(0, len(lines), _PIECE)]
        believed = lines[lines["kernel"] | lines["source"].isin(SILENT_SOURCES)]
        told |= _places(believed)
        losses, before = _three_lines(believed, before)
        held.append(losses)
        if len(held) > _FOLD_EVERY:
            held = [fold(_joined(held))]
    return fold(place(_joined(held), gpus, told))


def _joined(tables: list[pd.DataFrame]) -> pd.DataFrame:
    full = [table for table in tables if len(table)]
    return pd.concat(full, ignore_index=True) if full else EVENTS.empty()


def _decoded(lines: pd.DataFrame, counts: Counter[str]) -> pd.DataFrame:
    """Events of lines that may each hold one, not yet placed."""
    read = {text: read_message(text) for text in lines["message"].unique()}
    told_by = [read[text] for text in lines["message"]]
    found = [line for told in told_by for line in told]
    if len(found) > len(lines):
        lines = lines.iloc[np.repeat(np.arange(len(lines)), [len(told) for told in told_by])]
    believed = (lines["kernel"] | lines["source"].isin(SILENT_SOURCES)).to_numpy()
    is_line = np.array([isinstance(line, Line) for line in found], dtype=bool)
    number = lines["count"].to_numpy()
    counts["quoted by a program"] += int(number[is_line & ~believed].sum())
    for index in np.flatnonzero(believed & ~is_line).tolist():
        if isinstance(reason := found[index], str):
            counts[reason] += int(number[index])
    kept = lines[is_line & believed]
    if kept.empty:
        return EVENTS.empty()
    told = [line for line, good in zip(found, (is_line & believed).tolist(), strict=True) if good]
    columns = dict(zip(Line._fields, zip(*told, strict=True), strict=True))
    frame = pd.DataFrame({name: list(values) for name, values in columns.items()})
    for name in ("node", "time", "count"):
        frame[name] = kept[name].to_numpy() if name != "time" else kept[name].array
    return fold(conform(frame.assign(last=frame["time"], origin="log"), EVENTS))


def recovery_action(detail: str) -> str:
    """The action an XID 154 asks for, "" when its line does not say."""
    found = _RECOVERY.search(detail)
    return found[1] if found else ""


def _xid_line(address: str, code: int, mig: str, rest: str) -> Line | str:
    if code == 0:
        return "zero"
    process = _PROCESS.match(rest)
    detail = " ".join((rest[process.end() :] if process else rest)[:MOST_DETAIL].split())
    if code == 154:  # it describes the incident it belongs to
        return Line(address, code, "", detail if _RECOVERY.search(detail) else "", mig, None, catalogue.kind(code))
    if code in catalogue.NVLINK:
        return _nvlink_line(address, code, mig, detail)
    return Line(address, code, "", detail, mig, None, catalogue.kind(code))


def _nvlink_line(address: str, code: int, mig: str, detail: str) -> Line:
    found = _NVLINK.search(detail)
    if not found:
        return Line(
            address, code, _severity(detail), detail, mig, _link(detail), catalogue.kind(code, _severity(detail))
        )
    unit, severity, link, register = found.groups()
    severity = "Fatal" if severity.lower() == "fatal" else "Nonfatal"
    sub_code = f" sub-code {(int(register, 16) >> 20) & 0x3F}" if register and unit.startswith("NETIR_LINK") else ""
    rest = f" {detail[found.start(4) - 1 :]}" if register else ""
    number = int(link) if int(link) >= 0 else None
    return Line(address, code, severity, f"{unit}{sub_code}{rest}", mig, number, catalogue.kind(code, severity, unit))


def _lost(address: str) -> Line:
    return Line(pci(address), 79, "", LOST_WITHOUT_XID, "", None, catalogue.kind(79))


def _mig(instance: str | None, compute: str | None) -> str:
    parts = [f"gi={int(instance)}" if instance else "", f"ci={int(compute)}" if compute else ""]
    return " ".join(part for part in parts if part)


def _severity(text: str) -> str:
    found = _FATAL.search(text)
    return "" if not found else "Nonfatal" if found[1] else "Fatal"


def _link(text: str) -> int | None:
    found = _LINK.search(text)
    return int(found[1]) if found and int(found[1]) >= 0 else None


def _three_lines(lines: pd.DataFrame, before: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Losses told in three lines of their own: the first names the GPU, the last says it is gone.

    Takes the lines that the call before gave back beside its events, and gives back those that the next may complete.
    """
    message = lines["message"]
    names = message.str.contains("NVRM: The NVIDIA GPU", regex=False)
    part = lines[names | message.str.contains(_GONE.pattern)]
    if part.empty:
        return EVENTS.empty(), before
    both = pd.concat([before.assign(new=False), part.assign(new=True)], ignore_index=True)
    both["pci"] = [pci(found[1]) if (found := _NAMED.search(text)) else "" for text in both["message"]]
    rows = [row for node, of_node in both.groupby("node") for row in _losses(str(node), of_node)]
    recent = part[part["time"] >= part["time"].max() - LOST_LINES_GAP]
    return conform(pd.DataFrame(rows), EVENTS) if rows else EVENTS.empty(), recent


def _losses(node: str, lines: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """One event for each line that a GPU is gone, and each GPU that a line named within `LOST_LINES_GAP` of it."""
    gap = LOST_LINES_GAP.value
    lines = lines.sort_values("time", kind="stable")
    gone, named = lines[lines["pci"] == ""], lines[lines["pci"] != ""]
    ends, end_is_new = nanoseconds(gone["time"]), gone["new"].to_numpy(dtype=bool)
    for address, of_gpu in named.groupby("pci"):
        starts, start_is_new = nanoseconds(of_gpu["time"]), of_gpu["new"].to_numpy(dtype=bool)
        low, high = np.searchsorted(ends, [starts[0] - gap, starts[-1] + gap + 1])
        for end, end_new in zip(ends[low:high].tolist(), end_is_new[low:high].tolist(), strict=True):
            after = int(np.searchsorted(starts, end))
            near = min((abs(int(starts[at]) - end), at) for at in (after - 1, after) if 0 <= at < len(starts))
            if near[0] <= gap and (end_new or start_is_new[near[1]]):
                start = int(starts[near[1]])
                times = {"time": to_time(min(start, end)), "last": to_time(max(start, end))}
                yield {"node": node, **times, "count": 1, "origin": "log", **_lost(str(address))._asdict()}


def _places(lines: pd.DataFrame) -> dict[tuple[str, str], str]:
    """UUIDs by node and address, as the driver tells them beside an XID."""
    told = lines[lines["message"].str.contains("NVRM: GPU at PCI:", regex=False)]
    out = {}
    for node, message in zip(told["node"], told["message"], strict=True):
        if found := _PLACE.search(message):
            out[node, pci(found[1])] = found[2]
    return out
