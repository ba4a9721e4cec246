"""The two tables people keep by hand, as CSV: sessions of training jobs, and incidents."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd

from features.tables import SESSIONS, InputError, SchemaError, conform, to_ns
from pipelines.readers.context import LogContext
from pipelines.readers.recognise import open_stream

_SESSIONS = ("job", "attempt", "started")
_INCIDENTS = ("node", "start", "end")


def _rows(path: Path, wanted: tuple[str, ...]) -> pd.DataFrame:
    """All columns as text.

    Raises
    ------
    InputError
        No such file, no CSV, or a column is missing.
    """
    try:
        with open_stream(path) as stream:
            frame = pd.read_csv(stream, dtype=str, keep_default_na=False, encoding="utf-8-sig", skipinitialspace=True)
    except OSError as error:
        raise InputError(f"{path}: can't be read: {error.strerror or error}") from error
    except (ValueError, EOFError, csv.Error) as error:
        raise InputError(f"{path}: no CSV with a header line ({error})") from error
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        found = ",".join(map(str, frame.columns))
        raise InputError(f"{path}: column {missing[0]} is missing; wanted {','.join(wanted)}, found {found}")
    return frame


def _times(path: Path, frame: pd.DataFrame, name: str, *, blank: bool = False) -> pd.Series[pd.Timestamp]:
    """A column of zoned times.

    Raises
    ------
    InputError
        A value is no time, has no zone, or is blank where it must not be.
    """
    out = np.full(len(frame), "NaT", dtype="datetime64[ns]")
    for number, text in enumerate(frame[name] if name in frame else [""] * len(frame)):
        if not text.strip() and blank:
            continue
        try:
            out[number] = np.datetime64(to_ns(text.strip()), "ns")
        except (ValueError, OverflowError, SchemaError) as error:
            raise InputError(
                f"{path}: line {number + 2}: {name} is {text!r}; wanted ISO 8601 with a zone, as 2026-01-04T10:15:00Z"
            ) from error
    return pd.Series(out, index=frame.index).dt.tz_localize("UTC")


def read_incidents(path: Path, context: LogContext) -> pd.DataFrame:
    """Rows of canonical node, start, end, kind ("" when the file has no such column).

    A file with the columns time, node, xid instead holds onsets of XIDs; their kind is "xid 79 gpu 3", which
    `pipelines.failures` reads as events.

    Raises
    ------
    InputError
        The file breaks its form; the message names the line.
    """
    frame = _rows(path, ("node",))
    if {"time", "xid"} <= set(frame.columns):
        return _onsets(path, frame, _nodes(frame, context))
    frame = _rows(path, _INCIDENTS)
    out = pd.DataFrame(
        {
            "node": _nodes(frame, context),
            "start": _times(path, frame, "start"),
            "end": _times(path, frame, "end", blank=True),
            "kind": (frame["kind"].str.strip() if "kind" in frame else pd.Series("", index=frame.index)).astype("str"),
        }
    )
    out["end"] = out["end"].fillna(out["start"])
    for wrong, why in ((out["node"] == "", "node is empty"), (out["end"] < out["start"], "end is before start")):
        if wrong.any():
            raise InputError(f"{path}: line {int(wrong.to_numpy().argmax()) + 2}: {why}")
    return out


def _nodes(frame: pd.DataFrame, context: LogContext) -> pd.Series[str]:
    return frame["node"].map(lambda host: context.canonical(host.strip())).astype("str")


def _onsets(path: Path, frame: pd.DataFrame, nodes: pd.Series[str]) -> pd.DataFrame:
    """Onsets of XIDs: time, node, xid and, where there is one, gpu, uuid, pci or gpu_index."""
    wrong = ~frame["xid"].str.fullmatch(r" *\d{1,5} *") | (nodes == "")
    if wrong.any():
        raise InputError(f"{path}: line {int(wrong.to_numpy().argmax()) + 2}: wanted a node and a whole number as xid")
    named = next((name for name in ("gpu", "uuid", "pci", "gpu_index") if name in frame), None)
    gpu = (" gpu " + frame[named].str.strip()).where(frame[named].str.strip() != "", "") if named else ""
    times = _times(path, frame, "time")
    return pd.DataFrame(
        {
            "node": nodes,
            "start": times,
            "end": times,
            "kind": ("xid " + frame["xid"].str.strip() + gpu).astype("str"),
        }
    )


def read_sessions(path: Path) -> pd.DataFrame:
    """SESSIONS; nodes and excluded are lists, in the file divided by spaces, ``;`` or ``|``.

    Raises
    ------
    InputError
        The file breaks its form; the message names the line.
    """
    frame = _rows(path, _SESSIONS)
    attempts = pd.to_numeric(frame["attempt"], errors="coerce")
    if attempts.isna().any():
        raise InputError(f"{path}: line {int(attempts.isna().to_numpy().argmax()) + 2}: attempt is no number")
    out = pd.DataFrame(
        {
            "job": frame["job"],
            "attempt": attempts.astype("int64"),
            "started": _times(path, frame, "started"),
            "ended": _times(path, frame, "ended", blank=True),
            "outcome": frame.get("outcome", ""),
        }
    )
    for name in ("nodes", "excluded"):
        texts = frame[name] if name in frame else [""] * len(frame)
        out[name] = pd.Series([text.replace(";", " ").replace("|", " ").split() for text in texts], dtype=object)
    return conform(out, SESSIONS)
