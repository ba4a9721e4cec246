"""How often quiet time shows a metric as odd as this, counted rather than modelled.

A surprise of 3 should be one quiet window in a thousand for every metric. It never is: one metric is odd for an hour
whenever a job ends, another never moves. And false alarms are counted by episode, not by window. So quiet time is cut
into hours of each node (twelve windows), and a metric is ranked by the share of node-hours whose largest surprise is
as large. Above the sixtieth largest the share falls exponentially (Pickands 1975, shape of an exponential), at first
twice as fast as the surprise itself says, then as the metric's own largest hours show. One odd metric then costs the
same false alarms whichever it is, and the largest over hundreds of metrics is no longer the noisiest metric's.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.persistence import hourly
from models.scorers import Place

Floats = NDArray[np.float64]

_TAIL = 60  # node-hours that the tail is drawn from
_SHARE = 20  # of all node-hours at most one in so many
_PRIOR = 30.0  # node-hours' worth of trust in the tail that is expected
_DECADES = 2.0  # of rarity to one of surprise, as expected: a mean over many windows is rarer than any of them says
_KNOTS = 24
_DECADE = 1 / np.log(10)
_MOST = 40.0


class Ranks:
    """Exceedance of several statistics by node-hour.

    Attributes
    ----------
    knots
        [C, Q] the largest values of quiet node-hours, ascending; the last is where the tail begins.
    levels
        [C, Q] -log10 of the share of node-hours at or above the knot.
    scale
        [C] of the statistic beyond the last knot that is one more decade.
    """

    def __init__(self, knots: Floats, levels: Floats, scale: Floats) -> None:
        self.knots, self.levels, self.scale = knots, levels, scale

    @classmethod
    def fit(cls, values: NDArray[Any], where: Place) -> Self:
        """Learn from quiet rows [n, C] and where they come from; NaN is no surprise (0)."""
        largest = -np.sort(-hourly(np.nan_to_num(np.asarray(values, dtype=np.float64)), where), axis=0)
        count = len(largest)
        tail = min(_TAIL, max(1, count // _SHARE))
        # A metric that never moves has no large hours: what is no odder than so many calm metrics would be is not rare
        begin = np.maximum(largest[tail - 1], np.log10(count / tail) / _DECADES)
        excess = np.maximum(largest[:tail] - begin, 0.0)
        expected = _PRIOR * _DECADE / _DECADES
        scale = (excess.sum(axis=0) + expected) / ((excess > 0).sum(axis=0) + _PRIOR) / _DECADE
        ranks = np.unique(np.round(np.geomspace(tail, count, _KNOTS)).astype(int))[::-1]
        knots = largest[ranks - 1].T
        levels = np.broadcast_to(-np.log10(ranks / count), knots.shape).copy()
        knots[:, -1] = begin
        for at in range(1, levels.shape[1]):  # ties count wholly: what most hours show is never rare
            levels[:, at] = np.where(knots[:, at] == knots[:, at - 1], levels[:, at - 1], levels[:, at])
        return cls(knots, levels, scale)

    def surprise(self, values: NDArray[Any]) -> Floats:
        """-log10 of the share of quiet node-hours at least as odd, [n, C]."""
        found = np.nan_to_num(np.asarray(values, dtype=np.float64))
        out = np.empty(found.shape)
        for column in range(found.shape[1]):
            beyond = np.maximum(found[:, column] - self.knots[column, -1], 0.0) / self.scale[column]
            out[:, column] = np.interp(found[:, column], self.knots[column], self.levels[column]) + beyond
        return np.minimum(out, _MOST)

    def to_state(self) -> dict[str, Any]:
        """Plain arrays."""
        return {"knots": self.knots, "levels": self.levels, "scale": self.scale}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(state["knots"], state["levels"], state["scale"])
