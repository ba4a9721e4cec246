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

from features.settings import FeatureSettings, WindowSettings, to_nanoseconds
from features.tables import WINDOWS, conform


def ends(start_ns: int, end_ns: int, settings: WindowSettings) -> NDArray[np.int64]:
    """Ends of the windows that lie wholly within ``[start_ns, end_ns)``, ascending, nanoseconds since 1970."""
    stride, length = to_nanoseconds(settings.stride), to_nanoseconds(settings.length)
    first = -((-(start_ns + length)) // stride) * stride  # rounded up
    return np.arange(first, end_ns + 1, stride, dtype=np.int64)


def reach(settings: FeatureSettings) -> int:
    """How far before its end a stateless row looks, in nanoseconds: the window, and staleness before it."""
    return to_nanoseconds(settings.window.length) + to_nanoseconds(settings.panel.staleness)


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
