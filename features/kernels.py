"""Compiled calculators of many windows at once: packing, sums, and the statistics that need no order.

Every kernel gets the packed series (`pack`), so that a window is one run of present samples. Sums follow
NumPy's own order (`total`), because many of tsfresh's values hang on the last bit of a mean: whether a
constant lies above its mean, whether its variance is zero. A window is summed from its own first sample,
never from the batch's, so its value does not depend on the other windows. No fastmath: it may reorder sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray  # type: ignore[attr-defined]  # it is documented as numba.carray
from numba.cpython.unsafe.tuple import tuple_setitem
from numpy.typing import NDArray

from features.compiling import compiled, part
from features.lanes import LANES, address, eight_extremes, eight_line, eight_total, pointer

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
    "slope",
    "intercept",
    "rvalue",
)
SHAPES = ("skewness", "kurtosis")
_with: Any = tuple_setitem  # numba's types count one parameter too many
# numba wraps a signed index that may be negative, and does not vectorise over the test.
UNSIGNED = np.uintp
ONE = UNSIGNED(1)
_NO_SUMS = (0.0,) * 48  # of halves of halves: 48 times are more samples than any memory holds
_TOTAL, _LINE = 0, 1
_BLOCK = 128  # NumPy sums up to this many values with eight running sums, more of them by halves


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
            count += values[s, t] == values[s, t]  # false for NaN
        if count == cells:
            packed[s] = values[s]
            lows[s] = starts
            highs[s] = ends
            continue
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


@part
def _block_total(x: Floats, low: int, count: int) -> float:
    at, end = UNSIGNED(low), UNSIGNED(low + count)
    result: float = -0.0
    if count >= LANES:
        result = eight_total(x, low, count // LANES)
        at += UNSIGNED(count - count % LANES)
    while at < end:
        result += x[at]
        at += ONE
    return result


@part
def _block_line(x: Floats, low: int, count: int, mean: float, first: float) -> tuple[float, float]:
    """Sums of squares about the mean, in NumPy's order, and of position times distance, positions from ``first`` on."""
    at, end = UNSIGNED(low), UNSIGNED(low + count)
    squares = shared = -0.0
    if count >= LANES:
        squares, shared = eight_line(x, low, count // LANES, mean, first)
        at += UNSIGNED(count - count % LANES)
        first += count - count % LANES
    while at < end:
        away = x[at] - mean
        squares += away * away
        shared += first * away
        first += 1.0
        at += ONE
    return squares, shared


@part
def _halved(place: int, count: int, mean: float, what: int) -> tuple[float, float]:
    """Halves down to blocks, a half's left sums kept until its right ones are there: `_block_line`, or `_block_total`.

    Neither recursion, which crashes out of numba's cache, nor an array handed over: where one may be, the references
    of all are counted, and the short windows, which never come here, would take twice their time.
    """
    x = carray(pointer(place), (count,), np.float64)
    kept, kept_more = _NO_SUMS, _NO_SUMS
    done, sums, more = 0, 0.0, 0.0
    while done < count:
        begin, size, depth, turns = 0, count, 0, 0
        while size > _BLOCK:
            half = size // 2
            half -= half % 8
            right = done >= begin + half
            begin, size = (begin + half, size - half) if right else (begin, half)
            depth, turns = depth + 1, 2 * turns + right
        if what == _LINE:
            sums, more = _block_line(x, begin, size, mean, begin - (count - 1) / 2.0)
        else:
            sums = _block_total(x, begin, size)
        done = begin + size
        while turns % 2:
            depth, turns = depth - 1, turns // 2
            sums, more = kept[depth] + sums, kept_more[depth] + more
        if depth:
            kept, kept_more = _with(kept, depth - 1, sums), _with(kept_more, depth - 1, more)
    return sums, more


@part
def total(x: Floats, low: int, count: int) -> float:
    """The sum of ``x[low:low + count]``, bit-equal to ``np.sum`` of that slice."""
    if count <= _BLOCK:
        return 0.0 + _block_total(x, low, count)
    return 0.0 + _halved(address(x, low), count, 0.0, _TOTAL)[0]


@part
def spread(x: Floats, low: int, count: int, mean: float) -> tuple[float, float]:
    """Sums over the slice of the squares about the mean, and of centred index times distance from the mean.

    The first is bit-equal to ``np.sum((x - mean) ** 2)``.
    """
    if count <= _BLOCK:
        return _block_line(x, low, count, mean, -(count - 1) / 2.0)
    return _halved(address(x, low), count, mean, _LINE)


@part
def variance(x: Floats, low: int, count: int, mean: float) -> float:
    """``np.var`` of the slice, to the bit."""
    return spread(x, low, count, mean)[0] / count


@part
def extremes(x: Floats, low: int, high: int) -> tuple[float, float]:
    """Lowest and highest value of a slice that is not empty."""
    at, end = UNSIGNED(low), UNSIGNED(high)
    least = most = x[at]
    if high - low >= LANES:
        least, most = eight_extremes(x, low, (high - low) // LANES)
        at += UNSIGNED((high - low) - (high - low) % LANES)
    while at < end:
        least = min(least, x[at])
        most = max(most, x[at])
        at += ONE
    return least, most


@part
def trend(x: Floats, low: int, count: int, mean: float) -> tuple[float, float, float]:
    """Mean squares of index, of index times value, and of value, each about its mean, as linregress takes them.

    The last is ``np.var`` to the bit.
    """
    squares, shared = spread(x, low, count, mean)
    return (count * count - 1.0) / 12.0, shared / count, squares / count


@part
def correlation(across: float, shared: float, along: float) -> float:
    """The rvalue of linregress from the three mean squares of `trend`."""
    if across == 0.0 or along == 0.0:
        return np.nan if shared == 0.0 else 0.0
    return max(-1.0, min(1.0, shared / math.sqrt(across * along)))


@part
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


@part
def _put(out: Floats, s: int, w: int, slot: int, value: float) -> None:
    if slot >= 0:
        out[s, w, slot] = value


@part
def _short_total(x: Floats, low: int, count: int) -> float:
    return 0.0 + _block_total(x, low, count)


@part
def _short_spread(x: Floats, low: int, count: int, mean: float) -> tuple[float, float]:
    return _block_line(x, low, count, mean, -(count - 1) / 2.0)


def _levels_by(
    total_of: Callable[[Floats, int, int], float],
    spread_of: Callable[[Floats, int, int, float], tuple[float, float]],
) -> Callable[[Floats, Ints, Ints, Ints, Floats], None]:
    """`levels` with these sums compiled in."""

    @part
    def levels(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
        edges = slots[3:6].max() >= 0
        energy = slots[6:8].max() >= 0
        wide = slots[8:12].max() >= 0
        line = slots[12:15].max() >= 0
        for s in range(lows.shape[0]):
            x = packed[s]
            for w in range(lows.shape[1]):
                low = lows[s, w]
                count = highs[s, w] - low
                if count == 0:
                    continue
                whole = total_of(x, low, count)
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
                    squares, _ = spread_of(x, low, count, 0.0)
                    _put(out, s, w, slots[6], squares)
                    _put(out, s, w, slots[7], math.sqrt(squares / count))
                if not (wide or line):
                    continue
                squares, shared = spread_of(x, low, count, mean)
                square, shared = squares / count, shared / count
                if wide:
                    deviation = math.sqrt(square)
                    _put(out, s, w, slots[8], square)
                    _put(out, s, w, slots[9], deviation)
                    _put(out, s, w, slots[10], 1.0 if square > deviation else 0.0)
                    _put(out, s, w, slots[11], deviation / mean if mean != 0.0 else np.nan)
                if line and count > 1:
                    across = (count * count - 1.0) / 12.0
                    slope = shared / across
                    _put(out, s, w, slots[12], slope)
                    _put(out, s, w, slots[13], mean - slope * ((count - 1) / 2.0))
                    _put(out, s, w, slots[14], correlation(across, shared, square))

    return levels


_short_windows = _levels_by(_short_total, _short_spread)
_long_windows = _levels_by(total, spread)


@compiled
def _short_levels(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    _short_windows(packed, lows, highs, slots, out)


@compiled
def _long_levels(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    _long_windows(packed, lows, highs, slots, out)


def levels(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """Write the statistics of `LEVELS`; ``slots[k]`` is the k-th one's column in ``out`` [S, W, C], or -1.

    They share one pass over a window that lies in the first cache; the dear ones run when asked for. Where all windows
    are short, and most are, the code is one without a way to the sums of long ones: it takes half the time.
    """
    short = (highs - lows).max(initial=0) <= _BLOCK
    (_short_levels if short else _long_levels)(packed, lows, highs, slots, out)


@compiled
def shapes(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """`SHAPES`."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            count = highs[s, w] - lows[s, w]
            if count == 0:
                continue
            skew, kurt = _shape(packed[s], lows[s, w], count, scratch)
            _put(out, s, w, slots[0], skew)
            _put(out, s, w, slots[1], kurt)
