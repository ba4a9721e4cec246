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

import numpy as np
from numpy.typing import NDArray

from features.names import split
from features.presence import Roster

CALCULATOR = "from_siblings"
_LEAST = 3  # of two GPUs nobody can say which one is odd
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


def distances(sizes: NDArray[np.float64], place: Iterable[int]) -> NDArray[np.float64]:
    """How far each place of a node is from the middle one, as a share of the larger of the two.

    Where the middle one is 0 there is no work to compare: the distance is 0, and what one GPU alone has (an error) is
    told by the largest of them.

    Parameters
    ----------
    sizes
        [G, W] of one metric, a row for each GPU; NaN without a sample.
    place
        Number of each row's place.

    Returns
    -------
    ndarray
        [P, W] in [-1, 1] for values of one sign, the places in ascending order; NaN for a place without a value, and
        everywhere where fewer than three places have one.
    """
    rows = np.array(list(place), dtype=np.int64)
    held = np.array([np.fmax.reduce(sizes[rows == one], axis=0) for one in np.unique(rows)], dtype=np.float64)
    known = ~np.isnan(held)
    enough = known.sum(axis=0) >= _LEAST
    out = np.full(held.shape, np.nan)
    if enough.any():
        some = held[:, enough]
        middle = np.nanmedian(some, axis=0)
        larger = np.maximum(np.abs(some), np.abs(middle))
        out[:, enough] = np.divide(some - middle, larger, out=np.zeros_like(some), where=middle != 0)
        out[~known] = np.nan
    return out
