"""A score counts fully when several windows in a row agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.scorers import Place


def persist(surprise: NDArray[Any], where: Place, windows: int) -> NDArray[Any]:
    """Mean of the least of the last 1, 2, ... ``windows`` values of the node, for each row (and column).

    A lone window keeps 1/windows of its surprise, one that confirms those before it all of it. The first windows of
    a node, and those after a hole, use what is there. Rows may stand in any order; they come back in theirs.
    """
    values = np.asarray(surprise)[where.order]
    node, end = where.node[where.order], where.end[where.order]
    stride = _stride(node, end)
    total, least = values.copy(), values.copy()
    for back in range(1, windows):
        if back >= len(values):
            total += least
            continue
        same = np.zeros(len(values), dtype=bool)
        same[back:] = (node[back:] == node[:-back]) & (end[back:] - end[:-back] <= 2 * back * stride)
        rows = np.flatnonzero(same)
        least[rows] = np.minimum(least[rows], values[rows - back])
        total += least
    out = np.empty_like(total)
    out[where.order] = total / windows
    return out


def _stride(node: NDArray[Any], end: NDArray[np.int64]) -> int:
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
