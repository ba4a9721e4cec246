"""A score counts fully when several windows in a row agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from models.score_kernels import owned, trailing
from models.scorers import Place

# Trailing spans of windows whose means count alike: ten minutes are soon told, eighty are not a blip, and what heals
# by itself mostly does so in between
SPANS = (2, 4, 8, 16)
# Signs that heal by themselves rarely last two hours: of the mean over these windows half of what is beyond a surprise
# of 2 counts again. As one more span it would take a fifth from signs of a quarter of an hour
_LONG, _LEVEL, _AGAIN = 24, 2.0, 0.5
# Of a window's surprise so much counts fully (one quiet window in ten thousand): however strong a burst of a minute
# is, it says less than what goes on for an hour
_MOST = 4.0
_BEYOND = 0.1  # of what is beyond
_HOUR = 12  # windows


def persist(surprise: NDArray[Any], where: Place, windows: int) -> NDArray[Any]:
    """Mean of the least of the last 1, 2, ... ``windows`` values of the node, for each row (and column).

    A lone window keeps 1/windows of its surprise, one that confirms those before it all of it. The first windows of
    a node, and those after a hole, use what is there. Rows may stand in any order; they come back in theirs.
    """
    values = np.asarray(surprise)[where.order]
    node, end = where.node[where.order], where.end[where.order]
    apart = stride(node, end)
    total, least = values.copy(), values.copy()
    for back in range(1, windows):
        if back >= len(values):
            total += least
            continue
        same = np.zeros(len(values), dtype=bool)
        same[back:] = (node[back:] == node[:-back]) & (end[back:] - end[:-back] <= 2 * back * apart)
        rows = np.flatnonzero(same)
        least[rows] = np.minimum(least[rows], values[rows - back])
        total += least
    out = np.empty_like(total)
    out[where.order] = total / windows
    return out


def lasting(surprise: NDArray[Any], where: Place, mute: NDArray[np.bool_] | None = None) -> NDArray[Any]:
    """What of a node's surprises lasts: the mean of the means of its last windows over `SPANS`, column by column.

    What goes on for two hours counts more.

    A window that is not there counts as no surprise, one that is very odd as little more than one of `_MOST`. Rows may
    stand in any order; they come back in theirs.

    Parameters
    ----------
    surprise
        [n, M], -log10 p.
    mute
        [n], rows that count as no surprise whatever theirs is.
    """
    values = np.asarray(surprise)
    node, end = pd.factorize(where.node)[0].astype(np.int64)[where.order], where.end[where.order]
    weight = np.array([sum(1 / span for span in SPANS if back < span) / len(SPANS) for back in range(_LONG)])
    counts = np.ones(len(values), dtype=bool) if mute is None else ~mute
    out: NDArray[Any] = np.zeros(values.shape, dtype=values.dtype)
    most = values.dtype.type(_MOST)
    long = values.dtype.type(_LEVEL), values.dtype.type(_AGAIN)
    held = owned(np.where(values > most, most + values.dtype.type(_BEYOND) * (values - most), values), values.dtype)
    trailing(held, where.order, node, end, stride(node, end), counts, weight.astype(values.dtype), *long, out)
    return out


def hourly(values: NDArray[Any], where: Place) -> NDArray[Any]:
    """The largest values [H, C] of each node's hours (twelve windows): false alarms are counted by episode."""
    node, end = where.node[where.order], where.end[where.order]
    hour = end // (_HOUR * stride(node, end))
    begins = np.r_[True, (node[1:] != node[:-1]) | (hour[1:] != hour[:-1])]
    return np.asarray(np.maximum.reduceat(values[where.order], np.flatnonzero(begins), axis=0))


def stride(node: NDArray[Any], end: NDArray[np.int64]) -> int:
    """Nanoseconds from one window of a node to the next, as the closest two are."""
    step = np.diff(end)[(node[1:] == node[:-1])] if len(node) > 1 else np.zeros(0, dtype=np.int64)
    step = step[step > 0]
    return int(step.min()) if len(step) else 1


def run_length(high: NDArray[np.bool_], where: Place, most: int = 6) -> NDArray[np.int64]:
    """How many windows of the node in a row, this one the last, are marked; at most ``most``."""
    marked = high[where.order]
    node = where.node[where.order]
    begins = np.r_[True, node[1:] != node[:-1]] if len(node) else np.zeros(0, dtype=bool)
    place = np.arange(len(marked))
    broken = np.where(~marked, place, np.where(begins, place - 1, -1))
    last = np.maximum.accumulate(broken) if len(broken) else broken
    out = np.empty(len(marked), dtype=np.int64)
    out[where.order] = np.minimum(place - last, most)
    return out
