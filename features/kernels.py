"""Compiled calculators of many windows at once: packing, sums, and the statistics that need no order.

Every kernel gets the packed series (`pack`), so that a window is one run of present samples. Sums follow
NumPy's own order (`total`), because many of tsfresh's values hang on the last bit of a mean: whether a
constant lies above its mean, whether its variance is zero. A window is summed from its own first sample,
never from the batch's, so its value does not depend on the other windows. No fastmath: it may reorder sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# What `levels` can write, in the order of its slots.
LEVELS = (
    "sum_values",
    "mean",
    "length",
    "maximum",
    "minimum",
    "absolute_maximum",
    "abs_energy",
    "root_mean_square",
    "variance",
    "standard_deviation",
    "variance_larger_than_standard_deviation",
    "variation_coefficient",
    "skewness",
    "kurtosis",
    "slope",
    "intercept",
    "rvalue",
)
# numba wraps a signed index that may be negative, and does not vectorise over the test.
UNSIGNED = np.uintp
ONE, TWO, THREE, FOUR, FIVE, SIX, SEVEN, EIGHT = (UNSIGNED(number) for number in range(1, 9))
_BLOCK = 128  # NumPy sums up to this many values with eight running sums, more of them by halves


def compiled(function: Kernel) -> Kernel:
    """Compile on first call and keep the code beside the module, in NUMBA_CACHE_DIR or in the user's cache.

    Where none of them can be written the program still runs, and compiles again each time. The cache of a
    module does not see that another module changed: after an edit here, empty it.
    """
    try:
        return cast("Kernel", njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # numba: "no locator available"
        return cast("Kernel", njit(error_model="numpy")(function))


@compiled
def pack(values: Floats, starts: Ints, ends: Ints, packed: Floats, lows: Ints, highs: Ints) -> None:
    """Pack the present samples of each series: window w of s is ``packed[s, lows[s, w]:highs[s, w]]``.

    ``values`` and ``packed`` are [S, T]; ``starts`` and ``ends`` [W] count cells, ``lows`` and ``highs`` [S, W] count
    samples.
    """
    cells = values.shape[1]
    before = np.empty(cells + 1, np.int64)
    for s in range(values.shape[0]):
        count = 0
        for t in range(cells):
            before[t] = count
            value = values[s, t]
            packed[s, count if count < cells else 0] = value
            count += value == value  # noqa: PLR0124  # false for NaN
        before[cells] = count
        for w in range(starts.size):
            lows[s, w] = before[starts[w]]
            highs[s, w] = before[ends[w]]


@compiled
def _block_total(x: Floats, low: int, count: int) -> float:
    at, end = UNSIGNED(low), UNSIGNED(low + count)
    if count < 8:
        small: float = -0.0
        while at < end:
            small += x[at]
            at += ONE
        return small
    r0, r1, r2, r3 = x[at], x[at + ONE], x[at + TWO], x[at + THREE]
    r4, r5, r6, r7 = x[at + FOUR], x[at + FIVE], x[at + SIX], x[at + SEVEN]
    at += EIGHT
    whole = UNSIGNED(low + count - count % 8)
    while at < whole:
        r0 += x[at]
        r1 += x[at + ONE]
        r2 += x[at + TWO]
        r3 += x[at + THREE]
        r4 += x[at + FOUR]
        r5 += x[at + FIVE]
        r6 += x[at + SIX]
        r7 += x[at + SEVEN]
        at += EIGHT
    result: float = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    while at < end:
        result += x[at]
        at += ONE
    return result


@compiled
def _halved_total(x: Floats, low: int, count: int) -> float:
    """Halves down to blocks, added in pairs on the way back; recursion crashes out of numba's cache."""
    lows, counts, stages, partial = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64)
    lows[0], counts[0], stages[0] = low, count, 0
    depth, result = 0, 0.0
    while depth >= 0:
        size = counts[depth]
        if size <= _BLOCK:
            result = _block_total(x, lows[depth], size)
            depth -= 1
            continue
        half = size // 2
        half -= half % 8
        if stages[depth] == 2:
            result = partial[depth] + result
            depth -= 1
            continue
        if stages[depth] == 0:
            lows[depth + 1], counts[depth + 1] = lows[depth], half
        else:
            partial[depth] = result
            lows[depth + 1], counts[depth + 1] = lows[depth] + half, size - half
        stages[depth] += 1
        depth += 1
        stages[depth] = 0
    return result


@compiled
def total(x: Floats, low: int, count: int) -> float:
    """The sum of ``x[low:low + count]``, bit-equal to ``np.sum`` of that slice."""
    if count <= _BLOCK:
        return 0.0 + _block_total(x, low, count)
    return 0.0 + _halved_total(x, low, count)


@compiled
def variance(x: Floats, low: int, count: int, mean: float, scratch: Floats) -> float:
    """``np.var`` of the slice, to the bit; ``scratch`` holds at least ``count`` values."""
    first = UNSIGNED(low)
    for i in range(UNSIGNED(count)):
        difference = x[first + i] - mean
        scratch[i] = difference * difference
    return total(scratch, 0, count) / count


@compiled
def extremes(x: Floats, low: int, high: int) -> tuple[float, float]:
    """Lowest and highest value of a slice that is not empty."""
    at, end = UNSIGNED(low), UNSIGNED(high)
    low0 = low1 = low2 = low3 = high0 = high1 = high2 = high3 = x[at]
    whole = UNSIGNED(high - (high - low) % 4)
    while at < whole:
        a, b, c, d = x[at], x[at + ONE], x[at + TWO], x[at + THREE]
        low0 = min(low0, a)
        low1 = min(low1, b)
        low2 = min(low2, c)
        low3 = min(low3, d)
        high0 = max(high0, a)
        high1 = max(high1, b)
        high2 = max(high2, c)
        high3 = max(high3, d)
        at += FOUR
    while at < end:
        low0 = min(low0, x[at])
        high0 = max(high0, x[at])
        at += ONE
    return min(low0, low1, low2, low3), max(high0, high1, high2, high3)


@compiled
def _block_line(x: Floats, low: int, count: int, mean: float) -> tuple[float, float]:
    """Sums of squares about the mean, in NumPy's order, and of centred index times value, of at least eight values."""
    at, end, whole = UNSIGNED(low), UNSIGNED(low + count), UNSIGNED(low + count - count % 8)
    step = -(count - 1) / 2.0
    a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
    r0 = r1 = r2 = r3 = r4 = r5 = r6 = r7 = 0.0
    while at < whole:
        d0, d1, d2, d3 = x[at] - mean, x[at + ONE] - mean, x[at + TWO] - mean, x[at + THREE] - mean
        d4, d5, d6, d7 = x[at + FOUR] - mean, x[at + FIVE] - mean, x[at + SIX] - mean, x[at + SEVEN] - mean
        r0 += d0 * d0
        r1 += d1 * d1
        r2 += d2 * d2
        r3 += d3 * d3
        r4 += d4 * d4
        r5 += d5 * d5
        r6 += d6 * d6
        r7 += d7 * d7
        a0 += step * d0
        a1 += (step + 1.0) * d1
        a2 += (step + 2.0) * d2
        a3 += (step + 3.0) * d3
        a4 += (step + 4.0) * d4
        a5 += (step + 5.0) * d5
        a6 += (step + 6.0) * d6
        a7 += (step + 7.0) * d7
        step += 8.0
        at += EIGHT
    squares = ((r0 + r1) + (r2 + r3)) + ((r4 + r5) + (r6 + r7))
    shared = ((a0 + a1) + (a2 + a3)) + ((a4 + a5) + (a6 + a7))
    while at < end:
        d0 = x[at] - mean
        squares += d0 * d0
        shared += step * d0
        step += 1.0
        at += ONE
    return squares, shared


@compiled
def trend(x: Floats, low: int, count: int, mean: float, scratch: Floats) -> tuple[float, float, float]:
    """Mean squares of index, of index times value, and of value, each about its mean, as linregress takes them.

    The last is ``np.var`` to the bit.
    """
    across = (count * count - 1.0) / 12.0
    if 8 <= count <= _BLOCK:
        squares, shared = _block_line(x, low, count, mean)
        return across, shared / count, squares / count
    shared, centre = 0.0, (count - 1) / 2.0
    for i in range(count):
        shared += (i - centre) * (x[low + i] - mean)
    return across, shared / count, variance(x, low, count, mean, scratch)


@compiled
def correlation(across: float, shared: float, along: float) -> float:
    """The rvalue of linregress from the three mean squares of `trend`."""
    if across == 0.0 or along == 0.0:
        return np.nan if shared == 0.0 else 0.0
    return max(-1.0, min(1.0, shared / math.sqrt(across * along)))


@compiled
def _shape(x: Floats, low: int, count: int, scratch: Floats) -> tuple[float, float]:
    """Skewness G1 and kurtosis G2 of the distances from the first sample.

    pandas' own moments are as exact as these; without the shift a counter of 1e15 would lose every digit.
    """
    for i in range(count):
        scratch[i] = x[low + i] - x[low]
    mean = total(scratch, 0, count) / count
    m2 = m3 = m4 = 0.0
    for i in range(count):
        step = scratch[i] - mean
        square = step * step
        m2 += square
        m3 += square * step
        m4 += square * square
    n = float(count)
    skew = kurt = np.nan
    if count >= 3:
        skew = m3 / (m2 * math.sqrt(m2)) * (n * math.sqrt(n - 1.0) / (n - 2.0))
    if count >= 4:
        inner = n * (n + 1.0) * (m4 / (m2 * m2)) - 3.0 * (n - 1.0)
        kurt = (n - 1.0) / ((n - 2.0) * (n - 3.0)) * inner
    return skew, kurt


@compiled
def _put(out: Floats, s: int, w: int, slot: int, value: float) -> None:
    if slot >= 0:
        out[s, w, slot] = value


@compiled
def levels(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """Write the statistics of `LEVELS`; ``slots[k]`` is the k-th one's column in ``out`` [S, W, C], or -1.

    The common ones share one pass over a window that lies in the first cache; the dear ones run when asked for.
    """
    scratch = np.empty(packed.shape[1])
    spread = slots[8:12].max() >= 0
    edges = slots[3:6].max() >= 0
    energy = slots[6:8].max() >= 0
    shape = slots[12:14].max() >= 0
    line = slots[14:17].max() >= 0
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low = lows[s, w]
            count = highs[s, w] - low
            if count == 0:
                continue
            whole = total(x, low, count)
            mean = whole / count
            _put(out, s, w, slots[0], whole)
            _put(out, s, w, slots[1], mean)
            _put(out, s, w, slots[2], float(count))
            if edges:
                least, most = extremes(x, low, low + count)
                _put(out, s, w, slots[3], most)
                _put(out, s, w, slots[4], least)
                _put(out, s, w, slots[5], max(abs(least), abs(most)))
            if energy:
                for i in range(count):
                    scratch[i] = x[low + i] * x[low + i]
                squares = total(scratch, 0, count)
                _put(out, s, w, slots[6], squares)
                _put(out, s, w, slots[7], math.sqrt(squares / count))
            across = shared = square = 0.0
            if spread or line:
                across, shared, square = trend(x, low, count, mean, scratch)
            if spread:
                deviation = math.sqrt(square)
                _put(out, s, w, slots[8], square)
                _put(out, s, w, slots[9], deviation)
                _put(out, s, w, slots[10], 1.0 if square > deviation else 0.0)
                _put(out, s, w, slots[11], deviation / mean if mean != 0.0 else np.nan)
            if shape:
                skew, kurt = _shape(x, low, count, scratch)
                _put(out, s, w, slots[12], skew)
                _put(out, s, w, slots[13], kurt)
            if line and count > 1:
                slope = shared / across
                _put(out, s, w, slots[14], slope)
                _put(out, s, w, slots[15], mean - slope * ((count - 1) / 2.0))
                _put(out, s, w, slots[16], correlation(across, shared, square))
