"""Compiled calculators that depend on the order of a window's samples; see `features.kernels` for their common form.

A kernel takes the packed series, the windows' bounds [S, W], its parameters (one row each, in the order of the
parameters' names), the columns to write (``slots``, one a parameter row or a statistic; -1 is not wanted), and
``out`` [S, W, C], which it leaves as it is (NaN) where a window is empty.
"""

from __future__ import annotations

import math

import numpy as np

from features.compiling import compiled, part
from features.kernels import Floats, Ints, extremes, total, variance

RUNS = ("count_above_mean", "count_below_mean", "longest_strike_above_mean", "longest_strike_below_mean")
PLACES = (
    "first_location_of_maximum",
    "last_location_of_maximum",
    "first_location_of_minimum",
    "last_location_of_minimum",
    "has_duplicate_max",
    "has_duplicate_min",
)
CHANGES = ("absolute_sum_of_changes", "mean_abs_change", "mean_change", "mean_second_derivative_central")


@compiled
def runs(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """`RUNS`: how many samples lie above or below the mean, and the longest run of them."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            mean = total(x, low, high - low) / (high - low)
            above = below = above_run = below_run = above_best = below_best = 0
            for i in range(low, high):
                over, under = x[i] > mean, x[i] < mean
                above += over
                below += under
                above_run = above_run + 1 if over else 0
                below_run = below_run + 1 if under else 0
                above_best = max(above_best, above_run)
                below_best = max(below_best, below_run)
            for k, value in enumerate((above, below, above_best, below_best)):
                if slots[k] >= 0:
                    out[s, w, slots[k]] = value


@compiled
def places(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """`PLACES`: where the extremes lie, as a share of the window, and whether they occur twice."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            least, most = extremes(x, low, high)
            count = float(high - low)
            first_most = first_least = -1
            last_most = last_least = most_seen = least_seen = 0
            for i in range(low, high):
                if x[i] == most:
                    most_seen += 1
                    last_most = i
                    if first_most < 0:
                        first_most = i
                if x[i] == least:
                    least_seen += 1
                    last_least = i
                    if first_least < 0:
                        first_least = i
            found = (
                (first_most - low) / count,
                1.0 - (high - 1 - last_most) / count,
                (first_least - low) / count,
                1.0 - (high - 1 - last_least) / count,
                1.0 if most_seen >= 2 else 0.0,
                1.0 if least_seen >= 2 else 0.0,
            )
            for k in range(6):
                if slots[k] >= 0:
                    out[s, w, slots[k]] = found[k]


@compiled
def changes(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """`CHANGES`: from one sample to the next."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            count = high - low
            for i in range(count - 1):
                scratch[i] = abs(x[low + i + 1] - x[low + i])
            walked = total(scratch, 0, count - 1)
            found = (
                walked,
                walked / (count - 1) if count > 1 else np.nan,
                (x[high - 1] - x[low]) / (count - 1) if count > 1 else np.nan,
                (x[high - 1] - x[high - 2] - x[low + 1] + x[low]) / (2 * (count - 2)) if count > 2 else np.nan,
            )
            for k in range(4):
                if slots[k] >= 0:
                    out[s, w, slots[k]] = found[k]


@compiled
def cid_ce(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Complexity, parameters (normalize)."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            mean = total(x, low, count) / count
            deviation = math.sqrt(variance(x, low, count, mean))
            for p in range(slots.size):
                squares = 0.0
                if parameters[p, 0] == 0.0:
                    for i in range(low + 1, low + count):
                        squares += (x[i] - x[i - 1]) ** 2
                elif deviation != 0.0:
                    for i in range(low + 1, low + count):
                        squares += ((x[i] - mean) / deviation - (x[i - 1] - mean) / deviation) ** 2
                out[s, w, slots[p]] = math.sqrt(squares)


@compiled
def c3(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Non-linearity, parameters (lag)."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            for p in range(slots.size):
                lag = int(parameters[p, 0])
                left = count - 2 * lag
                if left <= 0:
                    out[s, w, slots[p]] = 0.0
                    continue
                for i in range(left):
                    scratch[i] = (x[low + i + 2 * lag] * x[low + i + lag]) * x[low + i]
                out[s, w, slots[p]] = total(scratch, 0, left) / left


@compiled
def time_reversal(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """time_reversal_asymmetry_statistic, parameters (lag)."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            for p in range(slots.size):
                lag = int(parameters[p, 0])
                left = count - 2 * lag
                if left <= 0:
                    out[s, w, slots[p]] = 0.0
                    continue
                for i in range(left):
                    here, one, two = x[low + i], x[low + i + lag], x[low + i + 2 * lag]
                    scratch[i] = (two * two) * one - (one * here) * here
                out[s, w, slots[p]] = total(scratch, 0, left) / left


@compiled
def autocorrelation(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Autocorrelation, parameters (lag); NaN where the variance is within 1e-8 of zero, as ``np.isclose`` says."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            mean = total(x, low, count) / count
            square = variance(x, low, count, mean)
            if square <= 1e-8:
                continue
            for p in range(slots.size):
                lag = int(parameters[p, 0])
                left = count - lag
                if left <= 0:
                    continue
                for i in range(left):
                    scratch[i] = (x[low + i] - mean) * (x[low + i + lag] - mean)
                out[s, w, slots[p]] = total(scratch, 0, left) / (left * square)


@compiled
def number_peaks(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Samples higher than their n neighbours on either side, parameters (n)."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            for p in range(slots.size):
                out[s, w, slots[p]] = 0.0
            # how far each sample is the highest on both sides serves all n at once
            for i in range(low + 1, high - 1):
                reach, most = 0, min(i - low, high - 1 - i)
                while reach < most and x[i] > x[i - reach - 1] and x[i] > x[i + reach + 1]:
                    reach += 1
                if reach:
                    for p in range(slots.size):
                        out[s, w, slots[p]] += reach >= parameters[p, 0]


@compiled
def number_crossing_m(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Crossings of a level, parameters (m)."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            for p in range(slots.size):
                level, found = parameters[p, 0], 0
                for i in range(low + 1, high):
                    found += (x[i] > level) != (x[i - 1] > level)
                out[s, w, slots[p]] = found


@compiled
def index_mass_quantile(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """The share of the window that holds a share of its mass, parameters (q)."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            for i in range(count):
                scratch[i] = abs(x[low + i])
            whole = total(scratch, 0, count)
            if whole == 0.0:
                continue
            for i in range(1, count):
                scratch[i] += scratch[i - 1]
            for p in range(slots.size):
                out[s, w, slots[p]] = 1.0 / count  # argmax of nothing but False is 0
                for i in range(count):
                    if scratch[i] / whole >= parameters[p, 0]:
                        out[s, w, slots[p]] = (i + 1) / count
                        break


@compiled
def energy_ratio(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """energy_ratio_by_chunks, parameters (num_segments, segment_focus); the first segments take the remainder."""
    scratch = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            for i in range(count):
                scratch[i] = x[low + i] * x[low + i]
            whole = total(scratch, 0, count)
            if whole == 0.0:
                continue
            for p in range(slots.size):
                segments, focus = int(parameters[p, 0]), int(parameters[p, 1])
                size, more = count // segments, count % segments
                begin = focus * size + min(focus, more)
                out[s, w, slots[p]] = total(scratch, begin, size + (focus < more)) / whole


@part
def _aggregate(values: Floats, how: int) -> float:
    if how == 0:
        return total(values, 0, values.size) / values.size
    if how == 1:
        return float(np.median(values))
    mean = total(values, 0, values.size) / values.size
    spread = variance(values, 0, values.size, mean)
    return spread if how == 2 else math.sqrt(spread)


@compiled
def agg_autocorrelation(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Aggregate of the autocorrelations up to a lag, parameters (f_agg, maxlag).

    tsfresh takes a Fourier transform above 1,250 samples; the same sums, in another order.
    """
    correlations = np.zeros(packed.shape[1])
    furthest = int(parameters[:, 1].max())
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            mean = total(x, low, count) / count
            square = variance(x, low, count, mean)
            flat = square < 1e-10 or count == 1
            for lag in range(1, min(furthest, count - 1) + 1):
                shared = 0.0
                if not flat:
                    for i in range(low, low + count - lag):
                        shared += (x[i] - mean) * (x[i + lag] - mean)
                    shared /= (count - lag) * square
                correlations[lag - 1] = shared
            for p in range(slots.size):
                # where the window is flat tsfresh aggregates one zero a sample
                lags = min(int(parameters[p, 1]), count if flat else count - 1)
                out[s, w, slots[p]] = 0.0 if flat else _aggregate(correlations[:lags], int(parameters[p, 0]))
