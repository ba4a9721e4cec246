"""Times as tables write them: epochs of any unit, ISO 8601 with or without a zone."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

UNREADABLE = np.iinfo(np.int64).min
UNDATED = UNREADABLE + 1  # without a zone, in an hour that the clock repeats or skips as summer time ends or begins
_ZONED = r"(?:[Zz]|[+-]\d{2}:?\d{2}|[+-]\d{2}|UTC|GMT)\s*$"
_NAIVE = r"\s*\d{4}-?\d\d(?:-?\d\d)?(?:[T ]\d\d(?::?\d\d(?::?\d\d(?:[.,]\d{1,18})?)?)?)?\s*"
# Upper bounds of an epoch in seconds, milliseconds and microseconds: each reaches past the year 5000, and each
# unit's year 2000 lies above the bound of the unit before it.
_UNITS = ((1e11, 1_000_000_000), (1e14, 1_000_000), (1e17, 1_000))


def epochs(numbers: NDArray[Any]) -> NDArray[np.int64]:
    """Nanoseconds since 1970 of epochs whose unit shows in their size; `UNREADABLE` for what is none."""
    out = np.full(len(numbers), UNREADABLE, dtype=np.int64)
    whole = np.issubdtype(numbers.dtype, np.integer)
    with np.errstate(invalid="ignore", over="ignore"):
        size = np.abs(numbers.astype(np.float64))
        left = np.isfinite(size)
        for bound, scale in _UNITS:
            these = left & (size < bound)
            if whole:
                out[these] = numbers[these].astype(np.int64) * scale
            else:  # a float of seconds is exact to a microsecond, not to a nanosecond
                out[these] = np.rint(numbers[these].astype(np.float64) * (scale / 1000)).astype(np.int64) * 1000
            left = left & (size >= bound)
        these = left & (size < 9e18)
        out[these] = numbers[these].astype(np.int64)
    return out


def texts(words: pd.Series[str], timezone: str) -> NDArray[np.int64]:
    """Nanoseconds since 1970 of times written out; ``timezone`` is that of those without one, see `localise`."""
    numbers = pd.to_numeric(words, errors="coerce")
    if numbers.notna().all() and len(words):
        return epochs(numbers.to_numpy())
    out = np.full(len(words), UNREADABLE, dtype=np.int64)
    zoned = words.str.contains(_ZONED, regex=True).to_numpy(dtype=bool)
    if zoned.any():
        out[zoned] = ns(pd.to_datetime(words[zoned], format="ISO8601", utc=True, errors="coerce"))
    # pandas takes a stray sign within a time for a zone
    plain = ~zoned & numbers.isna().to_numpy() & words.str.fullmatch(_NAIVE).to_numpy(dtype=bool)
    if plain.any():
        naive = pd.to_datetime(words[plain], format="ISO8601", errors="coerce")
        out[plain] = localise(naive, timezone)
    counted = ~zoned & numbers.notna().to_numpy()
    if counted.any():
        out[counted] = epochs(numbers[counted].to_numpy())
    return out


def localise(naive: pd.Series[pd.Timestamp], timezone: str) -> NDArray[np.int64]:
    """Nanoseconds since 1970 of times without a zone; `UNDATED` in an hour that the zone's clock skips or repeats."""
    zoned = naive.dt.tz_localize(ZoneInfo(timezone), ambiguous="NaT", nonexistent="NaT")
    out = ns(zoned.dt.tz_convert("UTC"))
    out[(zoned.isna() & naive.notna()).to_numpy()] = UNDATED
    return out


def ns(stamps: pd.Series[pd.Timestamp]) -> NDArray[np.int64]:
    """Nanoseconds since 1970 of UTC times."""
    return stamps.to_numpy(dtype="datetime64[ns]").astype(np.int64)  # NaT is the least integer, which is UNREADABLE
