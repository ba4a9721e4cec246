"""A chunk fills its cells as sorted samples would, whatever their order."""

import numpy as np
import pytest

from pipelines.filling import fill
from pipelines.grid import last_of_cells


@pytest.mark.parametrize("seed", range(20))
def test_cells_hold_the_last_sample_and_of_equal_times_the_larger(seed: int) -> None:
    draw = np.random.default_rng(seed)
    times, values = draw.integers(0, 100, 30), draw.integers(0, 5, 30).astype(float)
    held, stamps = np.full(8, np.nan), np.full(8, -1)
    early, late = fill(times, values, 1, 10, held, stamps)  # the first cell and the last are outside
    kept, numbers, _ = last_of_cells(times, values, 10)
    assert (early, late) == (kept[0], kept[-1])
    wanted = np.full(10, np.nan)
    wanted[kept // 10] = numbers
    np.testing.assert_array_equal(held, wanted[1:9])
