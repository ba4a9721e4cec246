"""What is read from a column in order is what sorting and medians give."""

from __future__ import annotations

import numpy as np

from models.ordering import ascending, commonest, deal, median, spread

CHANCE = np.random.default_rng(0)
COLUMN = np.round(CHANCE.standard_normal(2001) * 10.0 ** CHANCE.integers(-20, 20, 2001), 3).astype(np.float32)
COLUMN[::7] = np.nan
KNOWN = COLUMN[~np.isnan(COLUMN)]


def rows_of(column: np.ndarray) -> np.ndarray:
    """The rows of a column's known values, ascending."""
    words, spare = np.empty(len(column), dtype=np.uint64), np.empty(len(column), dtype=np.uint64)
    return words[: ascending(column, words, spare)]


def test_values_of_any_size_and_sign_come_in_order() -> None:
    np.testing.assert_array_equal(COLUMN[rows_of(COLUMN)], np.sort(KNOWN))


def test_each_group_is_dealt_its_values_in_order() -> None:
    group = np.arange(len(COLUMN)) % 3
    rows = rows_of(COLUMN)
    bounds, into = np.empty(4, dtype=np.int64), np.empty_like(COLUMN)
    deal(COLUMN, rows, len(rows), group, bounds, into)
    for one in range(3):
        wanted = COLUMN[(group == one) & ~np.isnan(COLUMN)]
        np.testing.assert_array_equal(into[bounds[one] : bounds[one + 1]], np.sort(wanted))


def test_a_median_and_the_spread_around_it_are_numpys() -> None:
    for count in (1, 2, 7, 8, 500):
        some = np.sort(CHANCE.standard_normal(count).astype(np.float32))
        centre = float(np.median(some.astype(np.float64)))
        assert median(some) == centre
        for around in (centre, -1.5, 40.0):
            assert spread(some, around) == 1.4826 * np.median(np.abs(some.astype(np.float64) - around))


def test_of_no_value_there_is_no_median() -> None:
    none = np.empty(0, dtype=np.float32)
    assert np.isnan(median(none))
    assert np.isnan(spread(none, 0.0))


def test_the_value_that_most_rows_hold_is_found_among_others() -> None:
    column = np.array([3, 0, 0, 5, 0, np.nan, 0, 7], dtype=np.float32)
    assert commonest(column) == (0.0, 4, 7)
