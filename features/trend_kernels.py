"""Compiled straight lines through windows and through chunks of them; see `features.kernels` for their common form."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled, part
from features.kernels import Floats, Ints, correlation, extremes, total, trend, variance

# Where a line fits this well, what is left of 1 - r^2 is rounding, and the standard error hangs on the
# order in which BLAS summed: such a window is handed to tsfresh itself.
_LEFT = 1e-5
ATTRIBUTES = ("slope", "intercept", "rvalue", "stderr", "intercept_stderr", "pvalue")
AGGREGATES = ("max", "min", "mean", "var")


@part
def _attribute(which: int, count: int, mean: float, line: tuple[float, float, float]) -> float:
    across, shared, along = line
    slope = shared / across
    if which == 0:
        return slope
    if which == 1:
        return mean - slope * ((count - 1) / 2.0)
    r = correlation(across, shared, along)
    if which == 2 or (which == 5 and count > 2):
        return r  # the probability follows from it, see `calculators`
    if which == 5:
        return 1.0 if along == 0.0 else 0.0
    if count == 2:
        return 0.0
    error = math.sqrt((1.0 - r * r) * along / across / (count - 2))
    centre = (count - 1) / 2.0
    return error if which == 3 else error * math.sqrt(across + centre * centre)


@part
def _delicate(which: int, count: int, line: tuple[float, float, float]) -> bool:
    r = correlation(*line)
    return which >= 3 and count > 2 and 1.0 - r * r < _LEFT


@compiled
def linear_trend(
    packed: Floats,
    lows: Ints,
    highs: Ints,
    parameters: Floats,
    slots: Ints,
    out: Floats,
    unsure: NDArray[np.bool_],
) -> None:
    """Parameters (attr), an index in `ATTRIBUTES`; ``unsure`` [S, W] is set where tsfresh must be asked."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count < 2:
                continue
            mean = total(x, low, count) / count
            line = trend(x, low, count, mean)
            for p in range(slots.size):
                which = int(parameters[p, 0])
                out[s, w, slots[p]] = _attribute(which, count, mean, line)
                unsure[s, w] |= _delicate(which, count, line)


@part
def _chunk(x: Floats, low: int, count: int, how: int) -> float:
    if how <= 1:
        least, most = extremes(x, low, low + count)
        return most if how == 0 else least
    mean = total(x, low, count) / count
    return mean if how == 2 else variance(x, low, count, mean)


@compiled
def agg_linear_trend(
    packed: Floats,
    lows: Ints,
    highs: Ints,
    parameters: Floats,
    slots: Ints,
    out: Floats,
    unsure: NDArray[np.bool_],
) -> None:
    """Parameters (attr, chunk_len, f_agg), indexes in `ATTRIBUTES` and `AGGREGATES`, sorted by the last two."""
    chunks = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            size, how, found, mean, line = 0, -1, 0, 0.0, (0.0, 0.0, 0.0)
            for p in range(slots.size):
                if int(parameters[p, 1]) >= count:
                    continue
                if int(parameters[p, 1]) != size or int(parameters[p, 2]) != how:
                    size, how = int(parameters[p, 1]), int(parameters[p, 2])
                    found = (count + size - 1) // size
                    for c in range(found):
                        chunks[c] = _chunk(x, low + c * size, min(size, count - c * size), how)
                    mean = total(chunks, 0, found) / found
                    line = trend(chunks, 0, found, mean)
                which = int(parameters[p, 0])
                out[s, w, slots[p]] = _attribute(which, found, mean, line)
                unsure[s, w] |= _delicate(which, found, line)
