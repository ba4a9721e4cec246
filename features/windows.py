"""Which windows exist. The one place that says "end is excluded".

A window is ``[start, end)``: it holds the cells that start at or after ``start`` and before ``end``. Its end is a
multiple of the stride since 1970, so a batch job and a history speak of the same windows; the end is also the time
at which an alarm about it could be given.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.settings import FeatureSettings, WindowSettings, format_duration, to_nanoseconds
from features.tables import WINDOWS, InputError, conform

# A GPU at rest may well show the same values for five minutes, and at a scrape a minute five samples are too few
_LEAST_LOOK_NS = 1_200_000_000_000


def ends(start_ns: int, end_ns: int, settings: WindowSettings) -> NDArray[np.int64]:
    """Ends of the windows that lie wholly within ``[start_ns, end_ns)``, ascending, nanoseconds since 1970."""
    stride, length = to_nanoseconds(settings.stride), to_nanoseconds(settings.length)
    first = -((-(start_ns + length)) // stride) * stride  # rounded up
    return np.arange(first, end_ns + 1, stride, dtype=np.int64)


def look(settings: FeatureSettings) -> int:
    """How far before its end a row looks for what is gone or stands still, in nanoseconds: the window or longer."""
    return max(to_nanoseconds(settings.window.length), _LEAST_LOOK_NS)


def reach(settings: FeatureSettings) -> int:
    """How far before its end a stateless row looks, in nanoseconds: see `look`, and staleness before it."""
    return look(settings) + to_nanoseconds(settings.panel.staleness)


def check(settings: WindowSettings, step_ns: int) -> None:
    """Refuse windows that a grid of this step can't hold.

    Raises
    ------
    InputError
        A window is shorter than a cell, or windows would begin within one.
    """
    if to_nanoseconds(settings.length) < step_ns or to_nanoseconds(settings.stride) % step_ns:
        raise InputError(
            f"the store's cells are {step_ns / 1e9:g}s: windows of {format_duration(settings.length)} every "
            f"{format_duration(settings.stride)} don't fit; give --window and --stride as multiples of a cell, or "
            "ingest into a new store with a shorter --step"
        )


def latest_end(now_ns: int, settings: WindowSettings) -> int:
    """End of the newest window that is over at ``now_ns``."""
    stride = to_nanoseconds(settings.stride)
    return now_ns // stride * stride


def make(nodes: Iterable[str], start_ns: int, end_ns: int, settings: WindowSettings) -> pd.DataFrame:
    """`WINDOWS` of every node within ``[start_ns, end_ns)``, by node and then by end."""
    return at(nodes, ends(start_ns, end_ns, settings), settings)


def at(nodes: Iterable[str], ends_ns: Iterable[int] | NDArray[np.int64], settings: WindowSettings) -> pd.DataFrame:
    """`WINDOWS` of every node for the given ends, by node and then by end."""
    names = sorted(nodes)
    moments = np.sort(np.asarray(list(ends_ns), dtype=np.int64))
    end = np.tile(moments, len(names))
    frame = pd.DataFrame(
        {
            "window": np.arange(len(end), dtype=np.int64),
            "node": np.repeat(np.asarray(names, dtype=object), len(moments)),
            "start": as_times(end - to_nanoseconds(settings.length)),
            "end": as_times(end),
        }
    )
    return conform(frame, WINDOWS)


def as_times(moments: NDArray[np.int64]) -> pd.Series:
    """Nanoseconds since 1970 as a column of UTC times."""
    return pd.Series(pd.DatetimeIndex(moments, dtype="datetime64[ns]").tz_localize("UTC"))


def as_ns(times: pd.Series | pd.DatetimeIndex) -> NDArray[np.int64]:
    """UTC times as nanoseconds since 1970."""
    index = pd.DatetimeIndex(times)
    return index.tz_convert("UTC").as_unit("ns").asi8.astype(np.int64)
