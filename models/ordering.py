"""Compiled: a column's values put in order once, and medians read from what is in order.

Quickselect over a column, each state and each node's states looks at every value a dozen times, and guesses wrong at
every other one. Here a column is sorted by the bits of its numbers (radix sort), dealt to groups in ascending order, so
that each group is sorted too, and a median or the median distance from a centre is a few look-ups.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled

Singles = NDArray[np.float32]
Codes = NDArray[np.int64]
Words = NDArray[np.uint64]

_BITS = 11  # of a pass: three passes for 32 bits, and the counts of one stay near the processor
_BINS = 1 << _BITS
_SIGN = np.uint32(0x80000000)
_ROW = np.uint64(0xFFFFFFFF)


@compiled
def ascending(column: Singles, words: Words, spare: Words) -> int:
    """Put the rows of the known values into ``words`` in ascending order of value; gives how many there are.

    Parameters
    ----------
    column
        [n], NaN is left out.
    words, spare
        [n] each, overwritten; the row is a word's lower half.
    """
    bits = column.view(np.uint32)
    counts = np.zeros((3, _BINS), dtype=np.int64)
    count = 0
    for row in range(len(column)):
        if np.isnan(column[row]):
            continue
        key = bits[row]
        # As unsigned numbers: what is negative reversed and below what is not
        key = ~key if key & _SIGN else key | _SIGN
        words[count] = (np.uint64(key) << np.uint64(32)) | np.uint64(row)
        counts[0, key & np.uint32(_BINS - 1)] += 1
        counts[1, (key >> np.uint32(_BITS)) & np.uint32(_BINS - 1)] += 1
        counts[2, key >> np.uint32(2 * _BITS)] += 1
        count += 1
    held, other = words, spare
    for turn in range(3):
        shift = np.uint64(32 + turn * _BITS)
        if count and counts[turn, (held[0] >> shift) & np.uint64(_BINS - 1)] == count:
            continue  # all alike in these bits
        place = 0
        for one in range(_BINS):
            number = counts[turn, one]
            counts[turn, one] = place
            place += number
        for at in range(count):
            word = held[at]
            one = (word >> shift) & np.uint64(_BINS - 1)
            other[counts[turn, one]] = word
            counts[turn, one] += 1
        held, other = other, held
    for at in range(count):
        words[at] = held[at] & _ROW
    return count


@compiled
def commonest(column: Singles) -> tuple[float, int, int]:
    """The value that more than half of the known rows hold if any does (Boyer and Moore 1981), rows that hold it, and
    known rows.

    Held by more than half, it is the median too.
    """
    held, lead, known, times = np.float32(np.nan), 0, 0, 0
    for row in range(len(column)):
        if np.isnan(column[row]):
            continue
        known += 1
        if lead == 0:
            held = column[row]
        lead += 1 if column[row] == held else -1
    for row in range(len(column)):
        times += column[row] == held
    return np.float64(held), times, known


@compiled
def deal(column: Singles, rows: Words, count: int, group: Codes, bounds: Codes, into: Singles) -> None:
    """Deal values to groups in the order of ``rows``: those of group g become into[bounds[g]:bounds[g + 1]].

    Parameters
    ----------
    rows
        From `ascending`, ``count`` of them.
    group
        [n], of each row.
    bounds
        [G + 1], overwritten.
    into
        [n], overwritten.
    """
    bounds[:] = 0
    for at in range(count):
        bounds[group[rows[at]] + 1] += 1
    for one in range(len(bounds) - 1):
        bounds[one + 1] += bounds[one]
    for at in range(count):
        one = group[rows[at]]
        into[bounds[one]] = column[rows[at]]
        bounds[one] += 1
    for one in range(len(bounds) - 1, 0, -1):
        bounds[one] = bounds[one - 1]
    bounds[0] = 0


@compiled
def median(some: Singles) -> float:
    """Of ascending values; NaN of none."""
    count = len(some)
    if count == 0:
        return np.nan
    high = np.float64(some[count // 2])
    return high if count % 2 else 0.5 * (high + np.float64(some[count // 2 - 1]))


@compiled
def spread(some: Singles, centre: float) -> float:
    """1.4826 median of the distances of ascending values from ``centre``; NaN of none."""
    count = len(some)
    if count == 0:
        return np.nan
    high = _farthest(some, centre, count // 2 + 1)
    return 1.4826 * (high if count % 2 else 0.5 * (high + _farthest(some, centre, count // 2)))


@compiled
def _farthest(some: Singles, centre: float, wanted: int) -> float:
    """Distance of the farthest of the ``wanted`` ascending values that are nearest to the centre."""
    low, high = 0, len(some) - wanted  # where the nearest begin, which stand together
    while low < high:
        middle = (low + high) // 2
        if centre - np.float64(some[middle]) > np.float64(some[middle + wanted]) - centre:
            low = middle + 1
        else:
            high = middle
    return max(abs(np.float64(some[low]) - centre), abs(np.float64(some[low + wanted - 1]) - centre))
