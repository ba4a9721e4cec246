"""Compiled calculators on a window's values without their order: quantiles, repeats, corridors, counts, histograms.

See `features.kernels` for the kernels' common form.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled, part
from features.kernels import Floats, Ints, extremes, total, variance

REPEATS = (
    "median",
    "has_duplicate",
    "ratio_value_number_to_time_series_length",
    "percentage_of_reoccurring_values_to_all_values",
    "percentage_of_reoccurring_datapoints_to_all_datapoints",
    "sum_of_reoccurring_values",
    "sum_of_reoccurring_data_points",
)
_INSERTION = 64  # up to this many values a sort by insertion is the fastest


@part
def arrange(x: Floats, low: int, count: int, out: Floats) -> None:
    """Write the slice's values into ``out[:count]`` in ascending order."""
    if count > _INSERTION:
        out[:count] = np.sort(x[low : low + count])
        return
    for i in range(count):
        value = x[low + i]
        place = i
        while place > 0 and out[place - 1] > value:
            out[place] = out[place - 1]
            place -= 1
        out[place] = value


@part
def quantile_of(ordered: Floats, count: int, q: float) -> float:
    """``np.quantile`` of ascending values, to the bit."""
    place = (count - 1) * q
    before = min(math.floor(place), count - 1)
    lower: float = ordered[before]
    upper: float = ordered[min(before + 1, count - 1)]
    share = place - before
    if share >= 0.5:
        return upper - (upper - lower) * (1.0 - share)
    return lower + (upper - lower) * share


@part
def median_of(ordered: Floats, count: int) -> float:
    """``np.median`` of ascending values, to the bit."""
    middle: float = ordered[count // 2]
    return middle if count % 2 else (ordered[count // 2 - 1] + middle) / 2.0


@compiled
def quantile(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Parameters (q)."""
    ordered = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            count = highs[s, w] - lows[s, w]
            if count == 0:
                continue
            arrange(packed[s], lows[s, w], count, ordered)
            for p in range(slots.size):
                out[s, w, slots[p]] = quantile_of(ordered, count, parameters[p, 0])


@compiled
def repeats(packed: Floats, lows: Ints, highs: Ints, slots: Ints, out: Floats) -> None:
    """`REPEATS`: the median, and how much occurs more than once."""
    ordered = np.empty(packed.shape[1])
    once = np.empty(packed.shape[1])
    often = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            count = highs[s, w] - lows[s, w]
            if count == 0:
                continue
            arrange(packed[s], lows[s, w], count, ordered)
            different = values = points = first = 0
            while first < count:
                after = first + 1
                while after < count and ordered[after] == ordered[first]:
                    after += 1
                seen = after - first
                again = seen > 1
                once[different] = ordered[first] * again
                often[different] = seen * ordered[first] * again
                values += again
                points += seen * again
                different += 1
                first = after
            found = (
                median_of(ordered, count),
                1.0 if different < count else 0.0,
                different / count,
                values / different,
                points / count,
                total(once, 0, different),
                total(often, 0, different),
            )
            for k in range(7):
                if slots[k] >= 0:
                    out[s, w, slots[k]] = found[k]


@compiled
def symmetry_looking(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Whether mean and median are near each other, parameters (r)."""
    ordered = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            arrange(packed[s], low, count, ordered)
            apart = abs(total(packed[s], low, count) / count - median_of(ordered, count))
            for p in range(slots.size):
                out[s, w, slots[p]] = apart < parameters[p, 0] * (ordered[count - 1] - ordered[0])


@compiled
def mean_n_absolute_max(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Parameters (number_of_maxima)."""
    scratch = np.empty(packed.shape[1])
    ordered = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            for i in range(count):
                scratch[i] = abs(packed[s, low + i])
            arrange(scratch, 0, count, ordered)
            for p in range(slots.size):
                most = int(parameters[p, 0])
                if count > most:
                    out[s, w, slots[p]] = total(ordered, count - most, most) / most


@compiled
def change_quantiles(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Parameters (f_agg, isabs, qh, ql), f_agg 0 for mean and 1 for var; sorted by the last two.

    The corridor's bounds are pandas' quantiles, which go through percents: (q * 100) / 100 may differ from q.
    """
    ordered = np.empty(packed.shape[1])
    steps = np.empty(packed.shape[1])
    chosen = np.empty(packed.shape[1])
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            arrange(x, low, count, ordered)
            inside, q_high, q_low = 0, -1.0, -1.0
            for p in range(slots.size):
                how, isabs = parameters[p, 0], parameters[p, 1] != 0.0
                if parameters[p, 2] != q_high or parameters[p, 3] != q_low:
                    q_high, q_low = parameters[p, 2], parameters[p, 3]
                    top = quantile_of(ordered, count, q_high * 100.0 / 100.0)
                    bottom = quantile_of(ordered, count, q_low * 100.0 / 100.0)
                    inside = 0
                    if q_low < q_high:
                        for i in range(low + 1, low + count):
                            if bottom <= x[i - 1] <= top and bottom <= x[i] <= top:
                                steps[inside] = x[i] - x[i - 1]
                                inside += 1
                if inside == 0:
                    out[s, w, slots[p]] = 0.0
                    continue
                for i in range(inside):
                    chosen[i] = abs(steps[i]) if isabs else steps[i]
                mean = total(chosen, 0, inside) / inside
                out[s, w, slots[p]] = mean if how == 0.0 else variance(chosen, 0, inside, mean)


@compiled
def spreads(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Parameters (kind, r): kind 0 is large_standard_deviation, kind 1 is ratio_beyond_r_sigma."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            mean = total(x, low, count) / count
            deviation = math.sqrt(variance(x, low, count, mean))
            least, most = extremes(x, low, low + count)
            for p in range(slots.size):
                r = parameters[p, 1]
                if parameters[p, 0] == 0.0:
                    out[s, w, slots[p]] = deviation > r * (most - least)
                    continue
                beyond = 0
                for i in range(low, low + count):
                    beyond += abs(x[i] - mean) > r * deviation
                out[s, w, slots[p]] = beyond / count


@compiled
def intervals(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Samples within bounds that both belong to it, parameters (least, most, share): a share, or a count for 0."""
    for s in range(lows.shape[0]):
        x = packed[s]
        for w in range(lows.shape[1]):
            low, high = lows[s, w], highs[s, w]
            if low == high:
                continue
            for p in range(slots.size):
                least, most, found = parameters[p, 0], parameters[p, 1], 0
                for i in range(low, high):
                    found += (x[i] >= least) & (x[i] <= most)
                out[s, w, slots[p]] = found if parameters[p, 2] == 0.0 else found / (high - low)


@part
def _bin(x: Floats, low: int, count: int, bins: int, edges: Floats, seen: Floats) -> bool:
    """``np.histogram`` of the slice into ``seen[:bins]``; False where it says that the range is too small."""
    first, last = extremes(x, low, low + count)
    if first == last:
        first -= 0.5
        last += 0.5
    step = (last - first) / bins
    for b in range(bins):
        seen[b] = 0.0
        edges[b] = b * step + first
    edges[bins] = last
    for b in range(bins):
        if edges[b] >= edges[b + 1]:
            return False
    for i in range(low, low + count):
        b = int((x[i] - first) / (last - first) * bins)
        if b == bins:
            b -= 1
        if x[i] < edges[b]:
            b -= 1
        elif x[i] >= edges[b + 1] and b != bins - 1:
            b += 1
        seen[b] += 1.0
    return True


@compiled
def binned_entropy(packed: Floats, lows: Ints, highs: Ints, parameters: Floats, slots: Ints, out: Floats) -> None:
    """Parameters (max_bins)."""
    most = int(parameters[:, 0].max())
    edges = np.empty(most + 1)
    seen = np.empty(most)
    for s in range(lows.shape[0]):
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            for p in range(slots.size):
                bins = int(parameters[p, 0])
                if not _bin(packed[s], low, count, bins, edges, seen):
                    continue
                entropy = 0.0
                for b in range(bins):
                    share = seen[b] / count
                    if share > 0.0:
                        entropy -= share * math.log(share)
                out[s, w, slots[p]] = entropy


@compiled
def benford(
    packed: Floats,
    lows: Ints,
    highs: Ints,
    decades: Floats,
    law: Floats,
    slot: int,
    out: Floats,
    unsure: NDArray[np.bool_],
) -> None:
    """benford_correlation; ``decades`` are the doubles nearest to d * 10^k, ascending, nine a decade.

    A number's shortest decimal form begins with d exactly from the double nearest to d * 10^k on.
    """
    digits = np.empty(packed.shape[1], np.int64)
    shares = np.empty(9)
    centred = law - law.mean()
    for s in range(lows.shape[0]):
        for i in range(highs[s].max() if highs.shape[1] else 0):
            size = abs(packed[s, i])
            place = np.searchsorted(decades, size, side="right") - 1
            digits[i] = -1 if size == 0.0 else place % 9 if place >= 0 else 4  # 5e-324 lies before the table
        for w in range(lows.shape[1]):
            low, count = lows[s, w], highs[s, w] - lows[s, w]
            if count == 0:
                continue
            shares[:] = 0.0
            for i in range(low, low + count):
                if digits[i] >= 0:
                    shares[digits[i]] += 1.0
            if shares.max() == 0.0:
                continue
            shares /= count
            mean = shares.sum() / 9.0
            spread = ((shares - mean) ** 2).sum()
            # where all digits are equally frequent the correlation is rounding over rounding
            unsure[s, w] = spread < 1e-20
            r = (centred * (shares - mean)).sum() / math.sqrt(spread * (centred**2).sum())
            out[s, w, slot] = max(-1.0, min(1.0, r))
