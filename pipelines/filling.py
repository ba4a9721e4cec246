"""One chunk's samples into the cells of its series, compiled: a cluster's window is a hundred thousand of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled

Times = NDArray[np.int64]
Values = NDArray[np.float64]


@compiled
def fill(times: Times, values: Values, first: int, step: int, held: Values, stamps: Times) -> tuple[int, int]:
    """Fill in samples in any order: one replaces a cell's when it is later, or of the same time and larger.

    Parameters
    ----------
    times, values
        [n], at least one sample.
    first, step
        The first cell's number, and a cell's length in nanoseconds.
    held, stamps
        [T], the cells' values and when they were taken (-1: none yet); written to.

    Returns
    -------
    tuple
        Time of the last sample in the chunk's first cell, and of its last sample.
    """
    least, earliest, latest = times[0] // step, times[0], times[0]
    for at in range(len(times)):
        time, value = times[at], values[at]
        number = time // step
        if number < least:
            least, earliest = number, time
        elif number == least and time > earliest:
            earliest = time
        latest = max(latest, time)
        cell = number - first
        if cell < 0 or cell >= len(held):
            continue
        if time > stamps[cell] or (time == stamps[cell] and value > held[cell]):
            held[cell], stamps[cell] = value, time
    return earliest, latest
