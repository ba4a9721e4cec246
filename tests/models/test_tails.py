"""How rare is a value among quiet ones."""

import numpy as np
import pytest

from models.tail_kernels import KNOTS, MOST, surprise, tail
from models.tails import Tails

RANDOM = np.random.default_rng(0)


def test_within_what_was_seen_a_surprise_is_the_share_at_or_above() -> None:
    tails = Tails.fit(np.abs(RANDOM.standard_normal((20_000, 1))))
    assert tails.one(np.array([1.96, 2.576]))[0] == pytest.approx(-np.log10(0.05), abs=0.05)
    assert tails.one(np.array([2.576]))[0] == pytest.approx(2.0, abs=0.1)


def test_beyond_what_was_seen_it_grows_without_ties() -> None:
    tails = Tails.fit(np.abs(RANDOM.standard_normal((1000, 1))))
    odd = tails.one(np.array([5.0, 10.0, 100.0]))
    assert (np.diff(odd) > 0.3).all()
    assert odd[0] > 3  # rarer than one in the thousand that were seen


def test_a_heavy_tail_is_less_surprised_than_a_light_one() -> None:
    light = Tails.fit(np.abs(RANDOM.standard_normal((5000, 1))))
    heavy = Tails.fit(np.abs(RANDOM.standard_cauchy((5000, 1))))
    assert heavy.one(np.array([30.0]))[0] < 2.5
    assert light.one(np.array([30.0]))[0] > 6


def test_the_commonest_value_is_no_surprise() -> None:
    counts = np.r_[np.zeros(900), np.ones(100)][:, None]
    assert Tails.fit(counts).one(np.array([0.0, 1.0])).tolist() == [0.0, pytest.approx(1.0)]


def test_a_value_that_was_never_seen_is_as_rare_as_the_rows_can_say() -> None:
    never = Tails.fit(np.zeros((1000, 1)), overlap=4.0)
    assert never.one(np.array([0.001]))[0] == pytest.approx(np.log10(251), abs=0.02)


@pytest.mark.parametrize("few", [2, 10, 30])
def test_what_few_rows_showed_is_as_rare_as_those_few(few: int) -> None:
    moved = np.r_[np.zeros(40_000 - few), np.full(few, 8.0)]
    rare = -np.log10((few / 4 + 1) / 10_001)
    for logged in (True, False):
        assert Tails.fit(moved[:, None], overlap=4.0, logged=logged).one(np.array([0.0, 0.1])) == pytest.approx(
            [0.0, rare], abs=0.2
        )
    knots, levels = np.empty(KNOTS), np.empty(KNOTS)
    shape = tail(moved, 4.0, knots, levels)
    assert surprise(0.1, knots, levels, shape) == pytest.approx(rare, abs=0.2)


def test_missing_is_no_surprise_and_infinite_the_largest() -> None:
    tails = Tails.fit(RANDOM.random((500, 1)))
    odd = tails.one(np.array([np.nan, np.inf]))
    assert odd[0] == 0
    assert odd[1] == MOST


def test_a_column_of_nothing_surprises_nobody_unless_it_speaks() -> None:
    assert Tails.fit(np.full((50, 1), np.nan)).one(np.array([np.nan, 0.0])).tolist() == [0.0, 0.0]


def test_columns_have_their_own_tails() -> None:
    tails = Tails.fit(np.column_stack([RANDOM.random(2000), 10 * RANDOM.random(2000)]))
    odd = tails.surprise(np.array([[0.99, 0.99]]))
    assert odd[0, 0] > 1.5 > odd[0, 1]
