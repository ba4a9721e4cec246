"""Compiled: the survival function of values told from quiet ones, see `models.tails`."""

from __future__ import annotations

from math import log, log10

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled

Doubles = NDArray[np.float64]

KNOTS = 12
MOST = 40.0  # surprises end here, so that 1 - 2**-surprise still differs from 1
PRIOR_SHAPE = 0.5  # the exponent's inverse when nothing is known: p falls as the square of the value
PRIOR_ROWS = 5.0
LEVELS = np.array([0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001])
BEYOND = 20  # values above the last knot that an exponent is estimated from
LEAST_SHAPE = 0.1  # values that end abruptly in quiet time may still end a little further off another day


@compiled
def tail(found: Doubles, overlap: float, knots: Doubles, levels: Doubles) -> float:
    """Fill knots and levels [KNOTS] of the survival function of ascending values; gives the shape beyond.

    See `models.tails`.
    """
    count = len(found)
    knots[:], levels[:] = 0.0, 0.0
    if count == 0:
        return PRIOR_SHAPE
    kept = np.empty(KNOTS)
    kept[0] = found[0]
    held = 1
    least = min(float(BEYOND), count / 2)
    for level in LEVELS:
        if count * level < least:
            continue
        place = min(max(int(np.ceil(count * (1 - level))), 0), count - 1)
        if found[place] > kept[held - 1]:
            kept[held] = found[place]
            held += 1
    effective = count / overlap
    last = kept[held - 1]
    above = count - np.searchsorted(found, last, side="right")
    grown = 0.0
    for at in range(count - above, count):
        grown += log((1 + found[at]) / (1 + last))
    shape = (grown / overlap + PRIOR_SHAPE * PRIOR_ROWS) / (above / overlap + PRIOR_ROWS)
    pad = KNOTS - held - 1
    # The share at or above each knot: ties count wholly, so the most common value is never odd
    for at in range(pad):
        knots[at], levels[at] = kept[0] - 1.0, 0.0
    for at in range(held):
        share = (count - np.searchsorted(found, kept[at], side="left")) / count
        knots[pad + at], levels[pad + at] = kept[at], -log10(max(share, 1 / (effective + 1)))
    # Where many rows share the last knot, values above it are far rarer than the knot's own share says
    rarer = (above / overlap + 1) / (effective + 1)
    knots[KNOTS - 1] = last + 1e-6 * (1 + abs(last))
    levels[KNOTS - 1] = max(-log10(rarer), levels[KNOTS - 2])
    return float(max(shape, LEAST_SHAPE))


@compiled
def surprise(value: float, knots: Doubles, levels: Doubles, shape: float) -> float:
    """-log10 of the share of quiet rows at least as odd; NaN is no surprise at all (0)."""
    if np.isnan(value):
        return 0.0
    last = KNOTS - 1
    if value >= knots[last]:
        return float(min(levels[last] + log10((1 + min(value, 1e38)) / (1 + knots[last])) / shape, MOST))
    if value <= knots[0]:
        return float(levels[0])
    at = 0  # most values are among the smaller
    while knots[at + 1] <= value:
        at += 1
    share = (value - knots[at]) / (knots[at + 1] - knots[at])
    return float(levels[at] + share * (levels[at + 1] - levels[at]))
