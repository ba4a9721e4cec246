"""A GPU against the other GPUs of its node, at the same moment and the same work.

What a job does to one GPU of a node it does to all: the distance of one from their middle hardly depends on the work,
where the value itself does. A GPU that runs hotter, slower or at fewer watts than its siblings, and did not before, is
the straggler that Minder (NSDI 2025) looks for among nodes. How far each usually is from the others (its place in the
air stream) is the model's to learn, so each GPU has a column of its own. Gauges only: of a counter that has just begun
to move (power capping, at the edge of the limit) one GPU has twice as much as another by chance.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled
from features.names import split
from features.phase import BUSY_FROM
from features.presence import Roster

CALCULATOR = "from_siblings"
_LEAST = 3  # of two GPUs nobody can say which one is odd
_QUARTER = 4  # of a window's samples at least a quarter
_NEAR = 10.0  # percent of use
_NEAR_WATTS = 0.2  # of the middle one's power: one that throttles by a tenth is still compared
_STEP = "gpu_"


@lru_cache(maxsize=4096)
def places(known: Roster, gpus: tuple[str, ...]) -> dict[str, int]:
    """The number of each GPU's place in its node: what has replaced it at its PCI address has the same.

    Where addresses are not known GPUs are numbered in the order in which they were first seen.
    """
    listed = dict(zip(known.gpus, zip(known.first, known.pci, strict=True), strict=True))
    if listed and all(known.pci):
        slots = {pci: at for at, pci in enumerate(sorted(set(known.pci)))}
        found = {gpu: slots[pci] for gpu, (_, pci) in listed.items()}
    else:
        slots = {}
        found = {gpu: at for at, gpu in enumerate(sorted(listed, key=lambda one: (listed[one][0], one)))}
    count = len(slots) or len(found)
    new = sorted(set(gpus) - found.keys())
    return found | {gpu: count + at for at, gpu in enumerate(new)}


def step(place: int) -> str:
    """The step of a GPU's own column: ``gpu_0``, ``gpu_1``."""
    return f"{_STEP}{place}"


def is_own(column: str) -> bool:
    """Whether a column is one GPU's distance from its siblings."""
    return column.endswith(f"__{CALCULATOR}")


def place_of(column: str) -> int:
    """The place of the GPU whose column this is."""
    return int(split(column).steps[0].removeprefix(_STEP))


class Peers(NamedTuple):
    """The places [P] of some GPUs, ascending; each GPU's place [G]; which places do the same in each cell [P, T]."""

    known: NDArray[np.int64]
    place: NDArray[np.int64]
    same: NDArray[np.bool_]


def peers(place: Iterable[int], use: NDArray[np.float64], watts: NDArray[np.float64], settled: int) -> Peers:
    """Which GPUs of a node can be compared, and when.

    Where some GPUs work only those are compared whose use and power are near the middle one's, and only once they have
    worked for a while: a session on one GPU of eight, or with a load of its own on each, says nothing of a GPU's
    health, and one that has just begun is cold.

    Parameters
    ----------
    place
        Number of each GPU's place.
    use, watts
        [G, T] of `features.phase.use_of`, and the power that each draws; NaN where it is not told.
    settled
        Cells over which a GPU must have been at work, or at rest: its temperature follows within minutes.
    """
    rows = np.array(list(place), dtype=np.int64)
    known = np.unique(rows)
    return Peers(known, rows, _alike(_by_place(use, rows, known), _by_place(watts, rows, known), settled))


def distances(
    values: NDArray[np.float64], those: Peers, starts: NDArray[np.int64], stops: NDArray[np.int64]
) -> NDArray[np.float64]:
    """How far each place of a node is from the middle one, over the cells in which both do the same.

    The mean of a GPU's differences from the middle one, as a share of the larger of the two; where the middle one is 0
    there is no work to compare, and the distance is 0 too.

    Parameters
    ----------
    values
        [G, T] of one metric, a row for each GPU; NaN without a sample.
    starts, stops
        [W] cells of each window.

    Returns
    -------
    ndarray
        [P, W] in [-1, 1] for values of one sign, the places in ascending order; NaN where a place is compared in less
        than a quarter of its window's samples. In a cell at least three places are compared, or none.
    """
    out = np.full((len(those.known), len(starts)), np.nan)
    _compare(_by_place(values, those.place, those.known), those.same, starts, stops, out)
    return out


def _by_place(values: NDArray[np.float64], place: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.float64]:
    """Rows of GPUs [G, T] as rows of their places [P, T]; of two GPUs that were in one place the one with a sample."""
    out = np.empty((len(known), values.shape[1]))
    for at, one in enumerate(known):
        out[at] = np.fmax.reduce(values[place == one], axis=0)
    return out


@compiled
def _middle(values: NDArray[np.float64], wanted: NDArray[np.bool_]) -> float:
    """Median of the wanted values that are known; NaN where there are fewer than three."""
    some = np.empty(len(values))
    count = 0
    for at in range(len(values)):
        if wanted[at] and not np.isnan(values[at]):
            some[count] = values[at]
            count += 1
    if count < _LEAST:
        return float(np.nan)
    ordered = some[:count]
    ordered.sort()
    return float(0.5 * (ordered[(count - 1) // 2] + ordered[count // 2]))


@compiled
def _alike(busy: NDArray[np.float64], drawn: NDArray[np.float64], settled: int) -> NDArray[np.bool_]:
    """Which places do the same in each cell, [P, T], by the use told in that cell and the ``settled`` before it.

    One whose use is not told there counts as at rest; one whose power is not told is not judged by it.
    """
    places, cells = busy.shape
    out = np.zeros((places, cells), dtype=np.bool_)
    told, worked, rested = np.full((3, places), -settled)
    use, works = np.zeros(places), np.zeros(places, dtype=np.bool_)
    for cell in range(cells):
        for at in range(places):
            if not np.isnan(busy[at, cell]):
                use[at], told[at] = busy[at, cell], cell
                if use[at] >= BUSY_FROM:
                    worked[at] = cell
                else:
                    rested[at] = cell
            elif cell - told[at] >= settled:
                use[at] = 0.0
            works[at] = use[at] >= BUSY_FROM
        some = works.any()
        usual, power = _middle(use, works), _middle(drawn[:, cell], works)
        for at in range(places):
            near = not some or (works[at] and abs(use[at] - usual) <= _NEAR)
            if near and some and abs(drawn[at, cell] - power) > _NEAR_WATTS * power:
                near = False
            out[at, cell] = near and cell - min(worked[at], rested[at]) >= settled
    return out


@compiled
def _compare(
    held: NDArray[np.float64],
    same: NDArray[np.bool_],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    out: NDArray[np.float64],
) -> None:
    """Fill the distances [P, W] of values [P, T]; each window's sums are its own, whatever lies around it."""
    places, cells = held.shape
    middle = np.empty(cells)
    for cell in range(cells):
        middle[cell] = _middle(held[:, cell], same[:, cell])
    for window in range(len(starts)):
        for at in range(places):
            samples, compared, away, own, theirs = 0, 0, 0.0, 0.0, 0.0
            for cell in range(starts[window], stops[window]):
                samples += not np.isnan(held[at, cell])
                if same[at, cell] and not np.isnan(held[at, cell]) and not np.isnan(middle[cell]):
                    compared += 1
                    away += held[at, cell] - middle[cell]
                    own += abs(held[at, cell])
                    theirs += abs(middle[cell])
            if compared > 0 and compared * _QUARTER >= samples:
                out[at, window] = away / max(own, theirs) if theirs > 0 else 0.0
