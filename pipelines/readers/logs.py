"""A log file of any known format to the table of logs, in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import orjson
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from features.tables import LOGS, InputError, to_ns
from pipelines.readers import cri, dmesg, documents, journald, json_lines, syslog
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows, batches
from pipelines.readers.recognise import open_stream
from pipelines.readers.stamps import UNREADABLE
from pipelines.readers.tally import Tally

Integers = NDArray[np.int64]
HEAD_BYTES = 64 << 10
_EARLIEST = to_ns("2000-01-01T00:00:00Z")  # before it, a clock was not set
_DAY = 86_400 * 10**9
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")  # colours of terminals
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
# journald, printk's rate limits, rsyslog's imuxsock and imjournal
_LEFT_OUT = re.compile(
    r"Suppressed (\d{1,12}) messages from|(\d{1,12}) (?:callbacks|messages|printk messages) (?:suppressed|dropped)"
    r"|(\d{1,12}) messages lost due to rate-limiting|lost (\d{1,12}) messages from pid"
)
_REPEATED = re.compile(r"message repeated (\d{1,9}) times: \[ ?(.*?)\]?", re.DOTALL)
_LINE_FORMATS = {
    "dmesg": (dmesg.RAW, dmesg.HUMAN, dmesg.ISO),
    "kmsg": (dmesg.KMSG,),
    "cri": (cri.LINE,),
    "syslog": (syslog.ISO_LINE, syslog.OLD_LINE, re.compile(r"<\d{1,3}>(?:1 |[A-Z\d])")),
}


def recognise_log(head: bytes) -> str | None:
    """The log format whose first bytes these are (unpacked), or None."""
    text = head.translate(None, b"\0\x1e").decode("utf-8", "replace").removeprefix("\ufeff")
    if re.search(r'"resultType"\s*:\s*"streams"', text[:2000]):
        return "loki-api"
    if re.match(r'\s*\{.{0,2000}?"hits"\s*:\s*\{', text, re.DOTALL):
        return "elastic-search"
    votes: dict[str, int] = {}
    for line in text.split("\n")[:50]:
        name = _format_of(line.rstrip("\r")[:HEAD_BYTES])
        if name:
            votes[name] = votes.get(name, 0) + 1
    return max(votes, key=lambda name: votes[name]) if votes else None


def read_logs(path: Path, context: LogContext, tally: Tally) -> Iterator[pd.DataFrame]:
    """Frames of `LOGS` of about 50,000 lines each.

    Equal lines of a node at one time by one source are folded into one row with a count, as far as they follow
    each other in the file; the frames' own keys are unique.

    Raises
    ------
    InputError
        The format is unknown, or needs to be told something (the message names the option).
    """
    if context.reference_time is None:
        context = replace(context, reference_time=pd.Timestamp(path.stat().st_mtime, unit="s", tz="UTC"))
    with open_stream(path) as stream:
        name = recognise_log(stream.read(HEAD_BYTES))
    if name is None:
        raise InputError(f"{path}: no log format foreshock knows")
    with open_stream(path) as stream:
        yield from frames(_rows(name, stream, path, context, tally), context, tally)


def frames(pieces: Iterable[Rows], context: LogContext, tally: Tally) -> Iterator[pd.DataFrame]:
    """Frames of `LOGS` of rows that a reader gives; equal lines that follow each other are one row with a count."""
    held: pd.DataFrame | None = None
    for rows in pieces:
        frame = _frame(rows, context, tally)
        if frame.empty:
            continue
        if held is not None:
            held, frame = _join(held, frame)
            if frame.empty:
                continue
            yield held
        ready, held = _split(frame)
        if not ready.empty:
            yield ready
    if held is not None:
        yield held


def _rows(name: str, stream: BinaryIO, path: Path, context: LogContext, tally: Tally) -> Iterator[Rows]:
    if name == "loki-api":
        return documents.read_loki(stream, context, tally)
    if name == "elastic-search":
        return documents.read_hits(stream, context, tally)
    lines = batches(stream, context.max_line_bytes, tally)
    if name == "cri":
        return cri.read(lines, context, tally, _container(path))
    readers = {
        "journald": journald.read,
        "syslog": syslog.read,
        "dmesg": dmesg.read,
        "kmsg": dmesg.read,
        "elastic-dump": documents.read_dump,
        "json-lines": json_lines.read,
    }
    return readers[name](lines, context, tally)


def _container(path: Path) -> str:
    """The container in kubelet's file names, ``pod_namespace_container-id.log``."""
    parts = path.name.split("_")
    return re.sub(r"-[0-9a-f]{64}.*|\.log.*", "", parts[2]) if len(parts) == 3 else ""


def _format_of(line: str) -> str | None:
    if line.startswith(("{", "data:")):
        try:
            document = orjson.loads(line.removeprefix("data:").strip())
        except orjson.JSONDecodeError:
            return "journald" if '"__REALTIME_TIMESTAMP"' in line else None
        return _object_format(document) if isinstance(document, dict) else None
    for name, patterns in _LINE_FORMATS.items():
        if any(pattern.match(line) for pattern in patterns):
            return name
    return None


def _object_format(document: dict[str, Any]) -> str | None:
    if "__REALTIME_TIMESTAMP" in document:
        return "journald"
    if "_source" in document and "_index" in document:
        return "elastic-dump"
    timed = any(name in document for name in json_lines.TIMES)
    worded = any(isinstance(document.get(name), (str, list)) for name in json_lines.MESSAGES)
    return "json-lines" if timed and worded else None


def _frame(rows: Rows, context: LogContext, tally: Tally) -> pd.DataFrame:
    times = np.asarray(rows.times, dtype=np.int64)
    good = times >= _EARLIEST
    if not good.all():
        tally.reject("no time stamp", int((times == UNREADABLE).sum()))
        tally.reject("time before 2000", int((~good & (times != UNREADABLE)).sum()))
        rows = rows.pick(np.flatnonzero(good).tolist())
        times = times[good]
    messages = _clean(rows.messages)
    texts = pa.array(messages, pa.large_string())
    counts = np.ones(len(messages), dtype=np.int64)
    if pc.any(pc.starts_with(texts, "message repeated ")).as_py():
        counts = _unfold(messages, tally)
        texts = None
    if "" in messages:
        texts = None
        full = [index for index, message in enumerate(messages) if message]
        tally.reject("empty message", len(messages) - len(full))
        rows = rows.pick(full)._replace(messages=[messages[index] for index in full])
        times, counts = times[full], counts[full]
    else:
        rows = rows._replace(messages=messages)
    tally.ok += len(rows.messages)
    if context.reference_time is not None:
        ahead = int((times > to_ns(context.reference_time) + _DAY).sum())
        tally.note("time after the export", ahead)
    names = {host: context.canonical(host) for host in set(rows.nodes)}
    tags = dict(zip(kinds := list(set(rows.sources)), _clean(kinds), strict=True))
    _note_losses(messages, texts, tally)
    rows = rows._replace(nodes=[names[host] for host in rows.nodes], sources=[tags[source] for source in rows.sources])
    return _fold(rows, times, counts, _text(rows.messages) if texts is None else pd.Series(texts, dtype="str"))


def _note_losses(messages: list[str], texts: Any, tally: Tally) -> None:
    """Count what loggers say they left out, as "Suppressed 123 messages from ..." or "12 callbacks suppressed"."""
    texts = pa.array(messages, pa.large_string()) if texts is None else texts
    told = [pc.match_substring(texts, word) for word in ("uppressed", "rate-limiting", "essages from pid", "dropped")]
    for place in np.flatnonzero(np.any([np.asarray(mask) for mask in told], axis=0)).tolist():
        if found := _LEFT_OUT.search(messages[place]):
            tally.note("messages suppressed by the logger", int(next(number for number in found.groups() if number)))


def _clean(texts: list[str]) -> list[str]:
    """No control characters, no halves of characters, no blanks around."""
    # strip() gives the very text back when there is nothing to strip
    return [bare if (bare := text.strip()).isprintable() else _clean_one(text) for text in texts]


def _clean_one(text: str) -> str:
    return _SURROGATE.sub("\ufffd", _CONTROL.sub(" ", _ESCAPE.sub("", text))).strip()


def _unfold(messages: list[str], tally: Tally) -> Integers:
    """Counts of the messages, which lose their "message repeated N times" in place."""
    counts = np.ones(len(messages), dtype=np.int64)
    for index in [index for index, message in enumerate(messages) if message.startswith("message repeated ")]:
        if found := _REPEATED.fullmatch(messages[index]):
            messages[index] = found[2].strip()
            counts[index] = int(found[1])
            tally.note("repeats told by syslog", int(found[1]))
    return counts


def _fold(rows: Rows, times: Integers, counts: Integers, messages: pd.Series[str]) -> pd.DataFrame:
    """One row for each key, with the sum of the counts; ``messages`` are those of the rows."""
    frame = pd.DataFrame(
        {
            "node": _text(rows.nodes),
            "time": pd.DatetimeIndex(times.view("datetime64[ns]")).tz_localize("UTC"),
            "source": _text(rows.sources),
            "severity": _text(rows.severities),
            "message": messages,
            "kernel": np.asarray(rows.kernel, dtype=bool),
            "count": counts,
        }
    )
    if (np.diff(times) > 0).all():
        return frame
    _, moment, sharing = np.unique(times, return_inverse=True, return_counts=True)
    shared = np.flatnonzero(sharing[moment] > 1).tolist()  # most lines have a time of their own
    first: dict[tuple[str, int, str, str], int] = {}
    nodes, sources, texts = rows.nodes, rows.sources, rows.messages
    places = [first.setdefault((nodes[at], int(times[at]), sources[at], texts[at]), at) for at in shared]
    if len(first) == len(shared):
        return frame
    kept = np.ones(len(frame), dtype=bool)
    kept[shared] = False
    kept[list(first.values())] = True
    np.add.at(counts, places, np.where(kept[shared], 0, counts[shared]))
    frame["count"] = counts
    return frame[kept].reset_index(drop=True)


def _text(values: list[str]) -> pd.Series[str]:
    return pd.Series(pa.array(values, pa.large_string()), dtype="str")


def _join(held: pd.DataFrame, frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The held rows with all lines of their time, and the frame without those."""
    same = (frame["time"] == held["time"].iloc[0]).to_numpy()
    if not same.any():
        return held, frame
    keys = list(LOGS.key)
    both = pd.concat([held, frame[same]], ignore_index=True)
    both["count"] = both.groupby(keys, sort=False)["count"].transform("sum")
    return both.drop_duplicates(keys).reset_index(drop=True), frame[~same].reset_index(drop=True)


def _split(frame: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows before the last row's time, and those of that time, which the next piece may repeat."""
    last = (frame["time"] == frame["time"].iloc[-1]).to_numpy()
    begin = len(last) - int(last.sum())
    if last[begin:].all():  # a slice copies nothing
        return frame.iloc[:begin], frame.iloc[begin:].reset_index(drop=True)
    return frame[~last].reset_index(drop=True), frame[last].reset_index(drop=True)
