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
from pipelines.readers.lines import BATCH_LINES, Rows, batches, blocks, texts
from pipelines.readers.recognise import open_stream
from pipelines.readers.stamps import UNREADABLE
from pipelines.readers.tally import Tally

Integers = NDArray[np.int64]
HEAD_BYTES = 64 << 10
_EARLIEST = to_ns("2000-01-01T00:00:00Z")  # before it, a clock was not set
_STEP = 60 * 10**9  # by which a clock may step without being doubted
_ORDERED = frozenset({"journald", "syslog", "dmesg", "kmsg", "cri"})  # as one host wrote them
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")  # colours of terminals
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_DELETE = 127  # it and all bytes above it are no plain ASCII
# journald, printk's rate limits, rsyslog's imuxsock and imjournal
_LEFT_OUT = re.compile(
    r"Suppressed (\d{1,12}) messages from|(\d{1,12}) (?:callbacks|messages|printk messages) (?:suppressed|dropped)"
    r"|(\d{1,12}) messages lost due to rate-limiting|lost (\d{1,12}) messages from pid"
)
_REPEATED = re.compile(r"message repeated (\d{1,9}) times: \[ ?(.*?)\]?", re.DOTALL)
_AGAIN = re.compile(r"last message repeated (\d{1,9}) times?\.?")  # of syslogd, busybox, syslog-ng
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
        written = pd.Timestamp(path.stat().st_mtime, unit="s", tz="UTC")
        context = replace(context, reference_time=written, reference_guessed=True)
    with open_stream(path) as stream:
        name = recognise_log(stream.read(HEAD_BYTES))
    if name is None:
        raise InputError(f"{path}: no log format foreshock knows")
    with open_stream(path) as stream:
        yield from frames(_rows(name, stream, path, context, tally), context, tally, ordered=name in _ORDERED)


def frames(
    pieces: Iterable[Rows], context: LogContext, tally: Tally, *, ordered: bool = False
) -> Iterator[pd.DataFrame]:
    """Frames of `LOGS` of rows that a reader gives; equal lines that follow each other are one row with a count.

    Where lines stand in the order in which they were written, ``ordered``, a clock that goes back is noticed.
    """
    held: pd.DataFrame | None = None
    before: dict[str, int] | None = {} if ordered else None
    for rows in pieces:
        frame = _frame(rows, context, tally, before)
        if frame.empty:
            continue
        if held is not None:
            held, frame = _join(held, frame)
            if frame.empty and len(held) < BATCH_LINES:
                continue
            yield held
            held = None
            if frame.empty:
                continue
        ready, held = _split(frame)
        if not ready.empty:
            yield ready
        if len(held) >= BATCH_LINES:  # a file of one time must not be held whole
            yield held
            held = None
    if held is not None:
        yield held


def _rows(name: str, stream: BinaryIO, path: Path, context: LogContext, tally: Tally) -> Iterator[Rows]:
    if name == "loki-api":
        return documents.read_loki(stream, context, tally)
    if name == "elastic-search":
        return documents.read_hits(stream, context, tally)
    if name in ("journald", "syslog"):
        whole = {"journald": journald.read, "syslog": syslog.read}
        return whole[name](blocks(stream, context.max_line_bytes, tally), context, tally)
    lines = batches(stream, context.max_line_bytes, tally)
    if name == "cri":
        return cri.read(lines, context, tally, _container(path))
    readers = {
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
    told = any(name in document for name in json_lines.CODES)
    return "json-lines" if timed and (worded or told) else None


def _frame(rows: Rows, context: LogContext, tally: Tally, before: dict[str, int] | None) -> pd.DataFrame:
    good = rows.times >= _EARLIEST
    if not good.all():
        tally.reject("no time stamp", int((rows.times == UNREADABLE).sum()))
        tally.reject("time before 2000", int((~good & (rows.times != UNREADABLE)).sum()))
        rows = rows.pick(np.flatnonzero(good))
    rows = _with_host(rows, context, tally)
    messages, counts = _unfold(_clean(rows.messages), tally)
    rows = _said_again(rows._replace(messages=messages), counts, tally)
    full = np.asarray(pc.greater(pc.binary_length(messages), 0))
    if not full.all():
        tally.reject("empty message", int((~full).sum()))
        rows, counts = rows.pick(np.flatnonzero(full)), counts[full]
    tally.ok += len(rows.times)
    _note_clocks(rows, context, tally, before)
    _note_losses(rows.messages, tally)
    nodes, sources = rows.nodes.dictionary_encode(), rows.sources.dictionary_encode()
    names = [context.canonical(host) for host in nodes.dictionary.to_pylist()]
    return _fold(rows, counts, _told_by(nodes, texts(names)), _told_by(sources, _clean(sources.dictionary)))


def _with_host(rows: Rows, context: LogContext, tally: Tally) -> Rows:
    """The rows whose host is told; one that calls itself localhost needs the user's word."""
    hosts = rows.nodes.dictionary_encode()
    known = np.array([bool(context.canonical(host)) for host in hosts.dictionary.to_pylist()], dtype=bool)
    if known.all():
        return rows
    told = known[np.asarray(hosts.indices)]
    tally.reject("no host", int((~told).sum()))
    tally.hint("some lines call their host localhost, or not at all; say whose they are with --node")
    return rows.pick(np.flatnonzero(told))


def _note_clocks(rows: Rows, context: LogContext, tally: Tally, before: dict[str, int] | None) -> None:
    """Count times that a sound clock would not tell: after the export, or earlier than the host's line before."""
    if context.reference_time is not None:
        ahead = int((rows.times > to_ns(context.reference_time) + _STEP).sum())
        tally.note("time after the export", ahead)
        if ahead:
            tally.hint("some lines are later than the export: a clock runs ahead, or --timezone is not the log's")
    if before is None or not len(rows.times):
        return
    nodes = rows.nodes.dictionary_encode()
    codes = np.asarray(nodes.indices)
    order = np.argsort(codes, kind="stable")
    times, codes = rows.times[order], codes[order]
    first = np.flatnonzero(np.append(True, codes[1:] != codes[:-1]))
    hosts = [nodes.dictionary[int(code)].as_py() for code in codes[first]]
    former = np.append(times[0], times[:-1])
    former[first] = [before.get(host, time) for host, time in zip(hosts, times[first].tolist(), strict=True)]
    tally.note("time going back by over a minute", back := int((times < former - _STEP).sum()))
    if back:
        tally.hint("a clock went back by over a minute; the times of the lines around it may be off")
    before.update(zip(hosts, times[np.append(first[1:], len(times)) - 1].tolist(), strict=True))


def _told_by(column: Any, words: Any) -> Any:
    """The column's texts by other words for each of its different ones, as a dictionary without doubles."""
    distinct = words.dictionary_encode()
    return pa.DictionaryArray.from_arrays(distinct.indices.take(column.indices), distinct.dictionary)


def _note_losses(messages: Any, tally: Tally) -> None:
    """Count what loggers say they left out, as "Suppressed 123 messages from ..." or "12 callbacks suppressed"."""
    told = [
        pc.match_substring(messages, word) for word in ("uppressed", "rate-limiting", "essages from pid", "dropped")
    ]
    for place in np.flatnonzero(np.any([np.asarray(mask) for mask in told], axis=0)).tolist():
        if found := _LEFT_OUT.search(messages[place].as_py()):
            tally.note("messages suppressed by the logger", int(next(number for number in found.groups() if number)))


def _clean(column: Any) -> Any:
    """No control characters, no blanks around."""
    bare = pc.utf8_trim_whitespace(column)
    held = np.frombuffer(column.buffers()[2] or b"", dtype=np.uint8)
    if not ((held < ord(" ")) | (held >= _DELETE)).any():  # plain ASCII, as most logs are
        return bare
    wrong = pc.match_substring_regex(column, r"[\x00-\x1f\x7f-\x{9f}\x{2028}\x{2029}]")
    cured = [_clean_one(text) for text in column.filter(wrong).to_pylist()]
    return pc.replace_with_mask(bare, wrong, texts(cured)) if cured else bare


def _clean_one(text: str) -> str:
    return _CONTROL.sub(" ", _ESCAPE.sub("", text)).strip()


def _unfold(messages: Any, tally: Tally) -> tuple[Any, Integers]:
    """The messages without "message repeated N times", and the count of each."""
    counts = np.ones(len(messages), dtype=np.int64)
    repeats = pc.starts_with(messages, "message repeated ")
    told = []
    for index in np.flatnonzero(np.asarray(repeats)).tolist():
        text = messages[index].as_py()
        if found := _REPEATED.fullmatch(text):
            text = found[2].strip()
            counts[index] = int(found[1])
            tally.note("repeats told by syslog", int(found[1]))
        told.append(text)
    return (pc.replace_with_mask(messages, repeats, texts(told)) if told else messages), counts


def _said_again(rows: Rows, counts: Integers, tally: Tally) -> Rows:
    """The rows with "last message repeated N times" as the line before of its host; `counts` is filled in place."""
    places = np.flatnonzero(np.asarray(pc.starts_with(rows.messages, "last message repeated ")))
    if not len(places):
        return rows
    source = np.arange(len(counts))
    for place in places.tolist():
        host, found = rows.nodes[place], _AGAIN.fullmatch(rows.messages[place].as_py())
        before = next((at for at in range(place - 1, max(place - 100, 0) - 1, -1) if rows.nodes[at] == host), None)
        if found and before is not None:
            source[place] = source[before]
            counts[place] = int(found[1])
            tally.note("repeats told by syslog", int(found[1]))
    return rows.pick(source)._replace(times=rows.times)


def _fold(rows: Rows, counts: Integers, nodes: Any, sources: Any) -> pd.DataFrame:
    """One row for each key, with the sum of the counts; nodes and sources are Arrow's dictionaries."""
    times = rows.times
    same = _shared(times)
    kept = np.ones(len(times), dtype=bool)
    words = rows.messages.take(same).dictionary_encode()
    if len(words.dictionary) < len(same):
        key = np.unique(times[same], return_inverse=True)[1]
        for column in (words.indices, nodes.indices.take(same), sources.indices.take(same)):
            codes = np.asarray(column).astype(np.int64)
            key = np.unique(key * (int(codes.max()) + 1) + codes, return_inverse=True)[1]
        _, first = np.unique(key, return_index=True)
        if len(first) < len(same):
            kept[same] = False
            kept[same[first]] = True
            counts[same[first]] = np.bincount(key, weights=counts[same]).astype(np.int64)
    frame = pd.DataFrame(
        {
            "node": _series(nodes),
            "time": pd.DatetimeIndex(times.view("datetime64[ns]")).tz_localize("UTC"),
            "source": _series(sources),
            "severity": _series(rows.severities),
            "message": _series(rows.messages),
            "kernel": rows.kernel,
            "count": counts,
        }
    )
    return frame if kept.all() else frame[kept].reset_index(drop=True)


def _shared(times: Integers) -> Integers:
    """Places of the times that stand there more than once."""
    steps = np.diff(times)
    if (steps > 0).all():  # most files are in order, and most lines have a time of their own
        return np.empty(0, dtype=np.int64)
    if (steps >= 0).all():
        again = np.concatenate(([False], steps == 0))
        return np.flatnonzero(again | np.append(again[1:], [False]))
    _, moment, sharing = np.unique(times, return_inverse=True, return_counts=True)
    return np.flatnonzero(sharing[moment] > 1)


def _series(column: Any) -> pd.Series[str]:
    return pd.Series(column.cast(pa.large_string()), dtype="str")


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
