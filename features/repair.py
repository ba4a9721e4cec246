"""When a node was whole again after a failure, told by its GPUs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from features.absence import Sight

STEADY_NS = 120_000_000_000  # an outage, and the return after it, last at least this long: a lost scrape is neither


class Repair(NamedTuple):
    """What came of a failed node.

    Attributes
    ----------
    repaired
        Nanoseconds since 1970 of the first cell in which it had all its GPUs again; None when none was away, or
        when the data end before that.
    away
        Whether GPUs, or the whole node, were away after the failure.
    """

    repaired: int | None
    away: bool


def repair(sight: Sight, time_ns: int, within_ns: int) -> Repair:
    """The first outage that begins within ``within_ns`` after the failure, and its end.

    A GPU counts as the node's own when it was seen before the failure. As many GPUs as before are enough: one that
    was swapped has another name.
    """
    before = sight.times < time_ns
    own = int(sight.seen[:, before].any(axis=1).sum()) if len(sight.gpus) else 0
    if not own:
        return Repair(None, away=False)
    missing = _held(sight.seen, before).sum(axis=0) < own
    begun = False
    step = int(np.diff(sight.times).min()) if len(sight.times) > 1 else STEADY_NS
    steady = max(1, -(-STEADY_NS // step))
    for start in np.flatnonzero(sight.times >= time_ns).tolist():
        run = missing[start : start + steady]
        if not begun:
            if sight.times[start] > time_ns + within_ns:
                break
            begun = bool(run.all()) and len(run) == steady
        elif not run.any() and len(run) == steady:
            return Repair(int(sight.times[start]), away=True)
    return Repair(None, away=begun)


def _held(seen: NDArray[np.bool_], before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The GPUs [G, T] seen in a cell, or in one before it that is no further away than scrapes usually are.

    A grid finer than the scrape interval has cells without a sample.
    """
    cells = np.flatnonzero(seen.any(axis=0) & before)
    cadence = int(np.median(np.diff(cells))) if len(cells) > 1 else 1
    held = seen.copy()
    for back in range(1, cadence):
        held[:, back:] |= seen[:, :-back]
    return held
