"""Scores of whole days as Parquet, for those who look back: one file a day, made of its JSON lines.

Written an hour after the day is over, when no late run adds to it any more. JSON lines older than a month, and in
Parquet by then, are taken away: years of five-minute files would be a hundred thousand each.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pandas as pd

from features.tables import ForeshockError
from pipelines.store import frame_bytes
from pipelines.writers.jsonlines import save

_DAY_NS = 86_400_000_000_000
_HOUR_NS = 3_600_000_000_000
_KEPT_DAYS = 30


def write(lines: Path, folder: Path, end_ns: int) -> None:
    """Put each whole day of ``LINES/<stamp>.jsonl`` before a window's end in ``FOLDER/<day>.parquet``.

    Raises
    ------
    ForeshockError
        The disk is full or refuses; what was there is kept.
    """
    over = (end_ns - _HOUR_NS) // _DAY_NS
    old = f"{pd.Timestamp((over - _KEPT_DAYS) * _DAY_NS, tz='UTC'):%Y%m%d}"
    days: dict[str, list[Path]] = {}
    for path in sorted(lines.glob("*.jsonl")):
        days.setdefault(path.name[:8], []).append(path)
    for day, paths in days.items():
        target = folder / f"{day[:4]}-{day[4:6]}-{day[6:8]}.parquet"
        if day < f"{pd.Timestamp(over * _DAY_NS, tz='UTC'):%Y%m%d}" and not target.exists():
            save(target, frame_bytes(_frame(paths)))
        if day < old and target.exists():
            _take_away(paths)


def _take_away(paths: list[Path]) -> None:
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise ForeshockError(f"{path} can't be taken away: {error.strerror}") from error


def _frame(paths: list[Path]) -> pd.DataFrame:
    rows = []
    for path in paths:
        end = pd.Timestamp(path.name.removesuffix(".jsonl"))
        try:
            rows += [{"window_end": end, **orjson.loads(line)} for line in path.read_bytes().splitlines()]
        except (OSError, orjson.JSONDecodeError) as error:
            raise ForeshockError(f"{path} can't be read: {error}") from error
    frame = pd.DataFrame(rows)
    for name in ("score", "probability", "threshold", "missing_ratio"):
        if name in frame:
            frame[name] = frame[name].astype("float64")
    if "reasons" in frame:
        frame["reasons"] = [orjson.dumps(reasons).decode() for reasons in frame["reasons"]]
    return frame
