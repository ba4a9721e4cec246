"""Written times to nanoseconds since 1970: ISO 8601 in its dialects, and times without year or zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pipelines.readers.context import LogContext
from pipelines.readers.tally import Tally

UNREADABLE = np.iinfo(np.int64).min
_SECOND = 1_000_000_000
_BACK = 300 * _SECOND  # lines stand out of order by less; a clock that goes back further was put back
# Java writes the zone's name behind its offset: 2026-01-01T00:00:00+01:00[Europe/Berlin]
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,18}))? ?([Zz]|UTC|[+-]\d\d(?::?\d\d)?)?"
    r"(?:\[[\w/+-]{1,40}\])?\s*"
)
# Abbreviated months as date(1) and rsyslog write them; the first three letters are enough where they are unique
_MONTHS = {
    "jan": 1, "janv": 1, "ene": 1, "gen": 1, "sty": 1, "jän": 1, "янв": 1,
    "feb": 2, "févr": 2, "fev": 2, "fév": 2, "lut": 2, "фев": 2,
    "mar": 3, "mars": 3, "mär": 3, "märz": 3, "mrz": 3, "mrt": 3, "мар": 3,
    "apr": 4, "avril": 4, "avr": 4, "abr": 4, "kwi": 4, "апр": 4,
    "may": 5, "mai": 5, "mag": 5, "mei": 5, "maj": 5, "май": 5,
    "jun": 6, "juin": 6, "juni": 6, "giu": 6, "cze": 6, "июн": 6,
    "jul": 7, "juil": 7, "juli": 7, "lug": 7, "lip": 7, "июл": 7,
    "aug": 8, "août": 8, "ago": 8, "sie": 8, "авг": 8,
    "sep": 9, "sept": 9, "set": 9, "wrz": 9, "сен": 9,
    "oct": 10, "okt": 10, "out": 10, "ott": 10, "paź": 10, "окт": 10,
    "nov": 11, "lis": 11, "ноя": 11,
    "dec": 12, "dez": 12, "déc": 12, "dic": 12, "gru": 12, "дек": 12, "des": 12,
}  # fmt: skip
_ENGLISH = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH = r"[^\W\d_]{3,5}\.?"


def month_number(name: str) -> int:
    """1 to 12 for a month's short name in one of the usual languages; 0 for another word."""
    return _MONTHS.get(name.lower().rstrip("."), 0)


def iso(text: str, zone: tzinfo, previous: int | None = None) -> int | None:
    """Nanoseconds since 1970, or None; without a zone in the text it is taken in `zone`.

    The `previous` line's time tells the second run of an hour that is repeated when summer time ends from the first.
    """
    runs = _runs(text, zone)
    return runs and _run(*runs, previous)


def _run(first: int, second: int, previous: int | None) -> int:
    """In the hour that is repeated when summer time ends, a step back of the clock means its second run."""
    return second if second != first and previous is not None and first < previous - _BACK else first


def _runs(text: str, zone: tzinfo) -> tuple[int, int] | None:
    """An ISO time's two moments, which differ in a repeated hour alone."""
    found = _ISO.fullmatch(text)
    if not found:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    leap = second == 60  # a leap second is the next minute's first
    try:
        local = datetime(year, month, day, hour, minute, 59 if leap else second, tzinfo=_offset(found[8], zone))
        runs = [round(local.replace(fold=fold).timestamp()) + leap for fold in (0, 1)]
    except (ValueError, OverflowError):
        return None
    fraction = int((found[7] or "0")[:9].ljust(9, "0"))
    first, second = (seconds * _SECOND + fraction for seconds in (runs[0], max(runs)))
    return (first, second) if abs(first) < 2**63 and abs(second) < 2**63 else None


def has_zone(text: str) -> bool:
    """Whether an ISO time names its zone."""
    found = _ISO.fullmatch(text)
    return bool(found and found[8])


def iso_many(texts: list[str], context: LogContext, tally: Tally, previous: int | None = None) -> NDArray[np.int64]:
    """Nanoseconds since 1970 of each text, `UNREADABLE` where there is none; fast when all are plain RFC 3339.

    Texts in the order in which they were written follow on the `previous` line's time, see `iso`.
    """
    try:
        stamps = pa.array(texts, pa.string()).cast(pa.timestamp("ns", "UTC"))
        return np.asarray(stamps.cast(pa.int64()).to_numpy(), dtype=np.int64)
    except (pa.ArrowInvalid, TypeError, UnicodeEncodeError):
        pass
    zone = context.zone()
    out = np.full(len(texts), UNREADABLE, dtype=np.int64)
    known: dict[str, tuple[int, int] | None] = {}
    ordered, bare = previous is not None, False
    for index, text in enumerate(texts):
        if text not in known:
            if len(known) > 100_000:
                known.clear()
            known[text] = _runs(text, zone)
            bare = bare or not has_zone(text)
        if runs := known[text]:
            out[index] = value = _run(*runs, previous)
            previous = value if ordered else None
    if bare:
        hint_zone(context, tally)
    return out


def hint_zone(context: LogContext, tally: Tally) -> None:
    """Say once that UTC was taken for times without a zone, when the user named none."""
    if not context.timezone:
        tally.hint("times without a zone were read as UTC; name the zone of the logs with --timezone")


def hint_years(years: set[int], context: LogContext, tally: Tally) -> None:
    """Say once which years were taken for times without one, when the user did not say when the export was made."""
    if years and context.reference_guessed:
        taken = " and ".join(str(year) for year in sorted(years))
        tally.hint(
            f"times without a year were read as of {taken}, by when the file was last written; "
            "say when the export was made with --reference-time"
        )


class Yearless:
    """Times as ``Dec 31 23:59:58``: the latest such moment that is not after the reference.

    Parameters
    ----------
    zone
        The file's zone.
    reference
        Nanoseconds since 1970; a day's grace covers clocks that run ahead.

    Attributes
    ----------
    years
        Those that were taken so far.
    previous
        The last line's time [ns since 1970].
    """

    def __init__(self, zone: tzinfo, reference: int) -> None:
        self.zone = zone
        self._limit = reference + 86_400 * _SECOND
        self._last = datetime.fromtimestamp(self._limit / _SECOND, tz=zone).year
        self._minutes: dict[tuple[str, str, str], tuple[int, int] | None] = {}
        self.previous = 0
        self.years: set[int] = set()

    def parse(self, month: str, day: str, clock: str, fraction: str | None = None) -> int | None:
        """Nanoseconds since 1970 of a month's name, a day and ``hh:mm:ss``; None when they are no time."""
        key = (month, day, clock[:5])
        if key not in self._minutes:
            if len(self._minutes) > 100_000:
                self._minutes.clear()
            self._minutes[key] = self._minute(month, day, clock[:5])
        found = self._minutes[key]
        if found is None:
            return None
        first, second = found
        inside = min(int(clock[6:8]), 60) * _SECOND + int((fraction or "0")[:9].ljust(9, "0"))
        self.previous = _run(first + inside, second + inside, self.previous)
        return self.previous

    def minutes(self, packed: NDArray[np.int32]) -> NDArray[np.int64] | None:
        """Nanoseconds since 1970 at which minutes began, given as `pipelines.readers.syslog_kernel` packs them.

        None when some minute is none, or comes twice where summer time ends: only the order of lines tells those.
        """
        each, inverse = np.unique(packed, return_inverse=True)
        began = np.empty(len(each), dtype=np.int64)
        for place, minute in enumerate(each.tolist()):
            hours, clock = divmod(minute, 60)
            days, hour = divmod(hours, 24)
            key = (_ENGLISH[days // 32], str(days % 32), f"{hour:02}:{clock:02}")
            if key not in self._minutes:
                self._minutes[key] = self._minute(*key)
            found = self._minutes[key]
            if found is None or found[0] != found[1]:
                return None
            began[place] = found[0]
        return began[inverse]

    def passed(self, stamp: int) -> None:
        """Take note of the time [ns since 1970] of the last line so far."""
        self.previous = stamp

    def _minute(self, month: str, day: str, clock: str) -> tuple[int, int] | None:
        number = month_number(month)
        for year in range(self._last, self._last - 9, -1):  # nine years reach over 1900 to a 29 February
            try:
                local = datetime(year, number, int(day), int(clock[:2]), int(clock[3:5]), tzinfo=self.zone)
            except ValueError:
                continue
            folds = [round(local.replace(fold=fold).timestamp()) * _SECOND for fold in (0, 1)]
            if folds[0] <= self._limit:
                self.years.add(year)
                return folds[0], max(folds[0], folds[1])
        return None


def _offset(text: str | None, zone: tzinfo) -> tzinfo:
    if not text:
        return zone
    if text in ("Z", "z", "UTC"):
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    span = timedelta(hours=int(digits[:2]), minutes=int(digits[2:4]))
    return timezone(-span if text[0] == "-" else span)
