"""Records of training jobs, whatever wrote them: which format, and the rows they all become.

A record that numbers no attempts gets the second a try started in as its number: the same try has the same number in
every export, however much of the past one holds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd

from features.tables import SESSIONS, InputError, conform
from pipelines.readers import hostlist, sessions_json, sessions_kubernetes, sessions_slurm, tickets
from pipelines.readers.context import LogContext
from pipelines.readers.recognise import open_stream
from pipelines.readers.stamps import has_zone, hint_zone, iso
from pipelines.readers.tally import Tally
from pipelines.readers.torn import TORN

LIMIT_BYTES = 512 << 20  # a year of a large cluster's tries is a tenth of this
_SECOND = 1_000_000_000
_LATEST = 9.2e18  # nanoseconds since 1970 that an int64 holds: the year 2261
_UNSET = frozenset({"", "unknown", "none", "n/a", "null", "0", "(null)"})


def read_sessions(path: Path, context: LogContext, tally: Tally) -> tuple[str, pd.DataFrame]:
    """The format's name and its tries: frame of `SESSIONS`.

    Raises
    ------
    InputError
        The file can't be read, is of no format known, or holds no try that can be used.
    """
    text = _text(path)
    head = text.lstrip()[:1]
    first = text.split("\n", 1)[0]
    if head in ("{", "["):
        documents = _documents(path, text)
        if sessions_kubernetes.is_listing(documents):
            return "kubernetes-json", table(path, sessions_kubernetes.tries(documents, tally), context, tally)
        return "sessions-json", table(path, sessions_json.tries(documents, tally), context, tally)
    if sessions_slurm.is_header(first):
        return "sacct", table(path, sessions_slurm.tries(text, tally), context, tally)
    frame = tickets.read_sessions(path)
    for name in ("nodes", "excluded"):
        frame[name] = pd.Series([_nodes(nodes, context) for nodes in frame[name]], dtype=object)
    tally.keep(len(frame))
    return "sessions-csv", _once(frame, tally)


def _text(path: Path) -> str:
    try:
        with open_stream(path) as stream:
            body = stream.read(LIMIT_BYTES + 1)
    except (OSError, *TORN) as error:
        raise InputError(f"{path}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    if len(body) > LIMIT_BYTES:
        raise InputError(f"{path}: over {LIMIT_BYTES >> 20} MiB of sessions; export them in pieces")
    return body.decode("utf-8-sig", "replace")


def _documents(path: Path, text: str) -> list[Any]:
    """One JSON document, or one a line."""
    try:
        return [orjson.loads(text)]
    except orjson.JSONDecodeError:
        pass
    out = []
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            try:
                out.append(orjson.loads(line))
            except orjson.JSONDecodeError as error:
                raise InputError(
                    f"{path}: line {number}: neither one JSON document nor one a line ({error})"
                ) from error
    return out


def table(path: Path, tries: Sequence[Mapping[str, Any]], context: LogContext, tally: Tally) -> pd.DataFrame:
    """Tries with job, started, ended, outcome, nodes, excluded and perhaps attempt as `SESSIONS`; counts the rest.

    Raises
    ------
    InputError
        None can be used.
    """
    rows = [row for row in (_row(one, context, tally) for one in tries) if row is not None]
    if not rows:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in tally.rejected.items()) or "it is empty"
        hints = "".join(f"; {hint}" for hint in tally.hints)
        raise InputError(f"{path}: no try of a job in it can be used: {reasons}{hints}")
    frame = pd.DataFrame(rows)
    for name in ("started", "ended"):
        frame[name] = pd.Series(frame[name].to_numpy(dtype=np.int64).view("datetime64[ns]")).dt.tz_localize("UTC")
    return conform(_once(frame, tally), SESSIONS)


def _once(frame: pd.DataFrame, tally: Tally) -> pd.DataFrame:
    """Each try once, as it was told last; the others are counted."""
    twice = frame.duplicated(["job", "attempt"], keep="last")
    tally.ok -= int(twice.sum())
    tally.reject("the same try told again", int(twice.sum()))
    return frame[~twice].reset_index(drop=True)


def _row(one: Mapping[str, Any], context: LogContext, tally: Tally) -> dict[str, Any] | None:
    job = str(one.get("job") or "").strip()
    started, ended = (moment(one.get(name), context, tally) for name in ("started", "ended"))
    if not job or started is None:
        tally.drop("no job's name" if not job else "not started, or no time of it that can be read")
        if job and re.search(r"\d[/.]\d", str(one.get("started"))):
            tally.hint("a time is in a local form; write ISO 8601 (for sacct: SLURM_TIME_FORMAT=standard)")
        return None
    try:
        nodes, excluded = (_nodes(one.get(name), context) for name in ("nodes", "excluded"))
    except ValueError as error:
        tally.drop("host list that can't be read")
        tally.hint(str(error))
        return None
    tally.keep()
    attempt = one.get("attempt")
    numbered = isinstance(attempt, int | str) and re.fullmatch(r" *[0-9]{1,18} *", str(attempt)) is not None
    return {
        "job": job,
        "attempt": int(str(attempt)) if numbered else started // _SECOND,
        "started": started,
        "ended": np.iinfo(np.int64).min if ended is None else ended,
        "outcome": str(one.get("outcome") or ""),
        "nodes": nodes,
        "excluded": excluded,
    }


def _nodes(told: object, context: LogContext) -> list[str]:
    """Canonical names of a host list or a list of names, each once."""
    listed = [str(name) for name in told] if isinstance(told, list) else []
    names = hostlist.expand(told) if isinstance(told, str) else listed
    return list(dict.fromkeys(name for text in names if (name := context.canonical(text.strip()))))


def moment(told: object, context: LogContext, tally: Tally) -> int | None:
    """Nanoseconds since 1970 of an ISO text, or of a number in s, ms, us or ns by its size; None for none."""
    if isinstance(told, bool) or told is None:
        return None
    text = str(told).strip()
    if text.casefold() in _UNSET:
        return None
    try:
        number = float(text)
    except ValueError:
        found = iso(text, context.zone())
        if found is not None and not has_zone(text):
            hint_zone(context, tally)
        return found
    for size, unit in ((1e11, _SECOND), (1e14, 10**6), (1e17, 1000), (_LATEST, 1)):
        if 0 < number < size:
            return round(number * unit) if number * unit < _LATEST else None
    return None
