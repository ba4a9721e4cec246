"""How often quiet time shows a metric as odd as this, counted rather than modelled.

A surprise of 3 should be one quiet window in a thousand for every metric. It never is: one metric is odd for a day
whenever a node chatters, another never moves. So each metric's surprises are ranked once more among those of quiet
windows, and only above the largest few is the tail drawn further. One odd metric then costs the same false alarms
whichever it is, and the largest over hundreds of metrics is no longer the noisiest metric's.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_LEAST_SCALE = 0.6  # a decade of surprise beyond the tail counts for at most this much of one more
_FEW = 3  # the tail is drawn from the third largest on: one outlier in quiet time is no limit
_MOST = 40.0


class Ranks:
    """Exceedance counts of several statistics at a few knots.

    Attributes
    ----------
    knots
        [C, Q] quiet values, ascending.
    levels
        [C, Q] -log10 of the share of quiet rows at or above the knot, one more counted than was seen.
    scale
        [C] of the statistic beyond its third largest quiet value that is one more decade.
    """

    def __init__(self, knots: Floats, levels: Floats, scale: Floats) -> None:
        self.knots, self.levels, self.scale = knots, levels, scale

    @classmethod
    def fit(cls, values: NDArray[Any]) -> Self:
        """Learn from quiet rows [n, C]; NaN is no surprise (0)."""
        count = len(values)
        ranks = np.unique(np.round(np.geomspace(1, max(count, 1), 48)).astype(int))[::-1]
        knots, levels = (np.zeros((values.shape[1], len(ranks))) for _ in range(2))
        scale = np.full(values.shape[1], _LEAST_SCALE)
        for column in range(values.shape[1]):
            found = np.sort(np.nan_to_num(np.asarray(values[:, column], dtype=np.float64)))
            knots[column] = found[count - ranks]
            above = count - np.searchsorted(found, knots[column], side="left")
            levels[column] = -np.log10((above + 1) / (count + 1))
            tail = found[-5:].mean() - found[-min(count, max(10, count // 2000))]
            scale[column] = max(tail, _LEAST_SCALE)
        return cls(knots, levels, scale)

    def surprise(self, values: NDArray[Any]) -> Floats:
        """-log10 of the share of quiet rows at least as odd, [n, C]."""
        found = np.nan_to_num(np.asarray(values, dtype=np.float64))
        out = np.empty(found.shape)
        for column in range(found.shape[1]):
            knots = self.knots[column]
            third = knots[max(0, len(knots) - _FEW)]
            beyond = np.maximum(found[:, column] - third, 0.0) / self.scale[column]
            out[:, column] = np.interp(found[:, column], knots, self.levels[column]) + beyond
        return np.minimum(out, _MOST)

    def to_state(self) -> dict[str, Any]:
        """Plain arrays."""
        return {"knots": self.knots, "levels": self.levels, "scale": self.scale}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(state["knots"], state["levels"], state["scale"])
