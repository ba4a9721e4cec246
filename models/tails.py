"""How rare a value is among many quiet ones, also beyond the largest that was seen.

For each column the survival function of a statistic (0 = usual, larger = odder) is kept at a few knots. Above the
last knot it falls as a power of ``1 + value`` whose exponent is Hill's estimate (Hill 1975) from the values above it:
with n quiet rows an empirical tail ends at 1/n, and an exponential one would call every outlier a miracle.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.parallel import in_parts
from models.tail_kernels import BEYOND, LEAST_SHAPE, LEVELS, MOST, PRIOR_ROWS, PRIOR_SHAPE

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]

_COLUMNS_AT_ONCE, _ROWS_AT_ONCE = 16, 16_000  # what is read of rows side by side stays near


class Tails:
    """Survival functions of several statistics.

    Attributes
    ----------
    knots
        [C, Q] values, ascending.
    levels
        [C, Q] -log10 of the share of quiet rows at or above the knot.
    shape
        [C] inverse of the exponent beyond the last knot.
    logged
        The statistic is itself -log10 of a probability: then p beyond the last knot falls as a power of that one.
    """

    def __init__(self, knots: Floats, levels: Floats, shape: Floats, *, logged: bool = False) -> None:
        self.knots, self.levels, self.shape, self.logged = knots, levels, shape, logged

    @classmethod
    def fit(
        cls, values: NDArray[Any], rows: NDArray[Any] | None = None, *, overlap: float = 1.0, logged: bool = False
    ) -> Self:
        """Learn from quiet rows [n, C]; NaN is left out.

        Parameters
        ----------
        rows
            Which of the rows are meant, if not all.
        overlap
            How many rows tell as much as one: windows overlap.
        """
        values = np.asarray(values)
        parts: list[tuple[Floats, Floats, float]] = [_fit_one(np.zeros(0), overlap, logged)] * values.shape[1]

        def some(low: int, high: int) -> None:
            block = values[:, low:high] if rows is None else values[rows, low:high]
            for number in range(low, high):
                parts[number] = _fit_one(block[:, number - low], overlap, logged)

        in_parts(len(parts), some, _COLUMNS_AT_ONCE)
        knots, levels, shape = (np.array(part) for part in zip(*parts, strict=True)) if parts else _nothing()
        return cls(knots, levels, shape, logged=logged)

    def surprise(self, values: NDArray[Any]) -> Singles:
        """-log10 of the share of quiet rows at least as odd, [n, C]; NaN is no surprise at all (0)."""
        values = np.asarray(values)
        out = np.empty(values.shape, dtype=np.float32)

        def some(low: int, high: int) -> None:
            for column in range(values.shape[1]):
                out[low:high, column] = self.one(values[low:high, column], column)

        in_parts(len(values), some, _ROWS_AT_ONCE)
        return out

    def one(self, values: NDArray[Any], column: int = 0) -> Floats:
        """The surprises [n] of one column."""
        found = np.asarray(values, dtype=np.float64)
        found = np.where(np.isnan(found), 0.0, np.minimum(found, 1e38))
        knots, levels = self.knots[column], self.levels[column]
        body = np.interp(found, knots, levels)
        beyond = np.maximum(found, knots[-1])
        ratio = beyond - knots[-1] if self.logged else np.log10((1 + beyond) / (1 + knots[-1]))
        return np.asarray(np.minimum(body + ratio / self.shape[column], MOST), dtype=np.float64)

    def to_state(self) -> dict[str, Any]:
        """Plain arrays."""
        return {"knots": self.knots, "levels": self.levels, "shape": self.shape, "logged": self.logged}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(state["knots"], state["levels"], state["shape"], logged=bool(state["logged"]))


def _nothing() -> tuple[Floats, Floats, Floats]:
    return np.zeros((0, len(LEVELS) + 2)), np.zeros((0, len(LEVELS) + 2)), np.zeros(0)


def _fit_one(values: NDArray[Any], overlap: float, logged: bool) -> tuple[Floats, Floats, float]:
    """Knots, their levels and the shape beyond, for one column."""
    found = np.sort(values[~np.isnan(values)]).astype(np.float64)
    count = len(found)
    size = len(LEVELS) + 2
    if count == 0:
        return np.zeros(size), np.zeros(size), PRIOR_SHAPE
    usable = LEVELS[count * LEVELS >= min(BEYOND, count / 2)]
    places = np.clip(np.ceil(count * (1 - usable)).astype(int), 0, count - 1)
    knots = np.r_[found[0], found[places]]
    # The share at or above each knot: ties count wholly, so the most common value is never odd
    knots = np.unique(knots)
    share = np.asarray((count - np.searchsorted(found, knots, side="left")) / count)
    above = found[found > knots[-1]]
    effective = count / overlap
    excess = (above - knots[-1]) * np.log(10) if logged else np.log((1 + above) / (1 + knots[-1]))
    prior = 1.0 if logged else PRIOR_SHAPE  # a probability is what it says
    shape = (excess.sum() / overlap + prior * PRIOR_ROWS) / (len(above) / overlap + PRIOR_ROWS)
    shape = max(shape, 1.0) if logged else shape
    share = np.maximum(share, 1 / (effective + 1))
    # Where many rows share the last knot, values above it are far rarer than the knot's own share says
    rarer = (len(above) / overlap + 1) / (effective + 1)
    knots, share = np.r_[knots, knots[-1] + 1e-6 * (1 + abs(knots[-1]))], np.r_[share, min(rarer, share[-1])]
    pad = size - len(knots)
    knots = np.r_[np.full(pad, knots[0] - 1.0), knots] if pad else knots
    levels = np.r_[np.zeros(pad), -np.log10(share)]
    return knots, levels, float(max(shape, LEAST_SHAPE))
