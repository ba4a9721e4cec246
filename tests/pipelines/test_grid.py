import numpy as np
import pytest

from features.tables import Series
from pipelines.grid import Cells, by_day, last_of_cells

M = Series("m")


def cells(*parts: tuple[list[int], list[float]]) -> Cells:
    held = Cells(0, 40, 10)
    for times, values in parts:
        kept, numbers, conflicts = last_of_cells(np.array(times), np.array(values, dtype=float), 10)
        held.conflicts += conflicts
        held.add(M, kept, numbers)
    return held


def test_a_cell_holds_the_last_sample_in_it() -> None:
    assert cells(([0, 5, 9, 30], [1, 2, 3, 4])).panel("n").values.tolist()[0][:1] == [3.0]


def test_a_cell_without_a_sample_is_nan() -> None:
    np.testing.assert_array_equal(cells(([0, 30], [1, 4])).panel("n").values, [[1, np.nan, np.nan, 4]])


def test_the_order_of_samples_and_of_parts_does_not_matter() -> None:
    there = cells(([0, 5, 12], [1, 2, 3]), ([7, 31], [9, 4])).panel("n").values
    back = cells(([31, 7], [4, 9]), ([12, 5, 0], [3, 2, 1])).panel("n").values
    np.testing.assert_array_equal(there, back)
    np.testing.assert_array_equal(there, [[9, 3, np.nan, 4]])


@pytest.mark.parametrize("apart", [False, True], ids=["in one part", "in two parts"])
def test_of_two_values_at_one_time_the_larger_stays_and_is_counted(apart: bool) -> None:
    parts = [([0, 15, 30], [500.0, 510.0, 520.0]), ([0, 15, 30], [498.0, 507.0, 518.0])]
    whole = [([*parts[0][0], *parts[1][0]], [*parts[0][1], *parts[1][1]])]
    held = cells(*(parts if apart else whole))
    np.testing.assert_array_equal(held.panel("n").values, [[500, 510, np.nan, 520]])
    assert held.conflicts == 3


def test_equal_samples_from_two_replicas_are_no_conflict() -> None:
    assert cells(([0, 0, 15], [1, 1, 2])).conflicts == 0


def test_samples_outside_the_span_are_left_out() -> None:
    np.testing.assert_array_equal(cells(([-1, 10, 40], [7, 8, 9])).panel("n").values, [[np.nan, 8, np.nan, np.nan]])


def test_a_series_with_no_sample_in_the_span_is_no_row() -> None:
    assert cells(([100], [1.0])).panel("n").series == ()


def test_days_are_told_apart_at_midnight_utc() -> None:
    midnight = 86_400_000_000_000
    assert by_day(np.array([midnight - 1, midnight, 3 * midnight])) == [(0, 0, 1), (1, 1, 2), (3, 2, 3)]
