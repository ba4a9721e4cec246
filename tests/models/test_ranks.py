"""A metric ranked among its own quiet hours."""

import numpy as np
import pytest

from models.ranks import Ranks
from models.scorers import place

QUIET = np.zeros((7200, 3))  # one node's 600 hours
QUIET[::12, 0] = np.random.default_rng(0).exponential(1 / np.log(10), 600)  # one decade a unit
QUIET[::12, 1] = 3 * QUIET[::12, 0]  # a noisy metric
RANKS = Ranks.fit(QUIET, place(QUIET))


def told(*values: float) -> list[float]:
    return [float(value) for value in RANKS.surprise(np.array([values]))[0]]


def test_a_rank_is_the_share_of_quiet_hours_at_least_as_odd() -> None:
    tenth = float(np.sort(QUIET[::12, 0])[-60])
    assert told(tenth, 0, 0)[0] == pytest.approx(1, abs=0.25)


def test_one_value_is_rarer_in_a_calm_metric_than_in_a_noisy_one() -> None:
    calm, noisy, _ = told(4, 4, 0)
    assert calm > noisy + 1


def test_beyond_all_that_was_seen_rarity_lies_between_what_was_seen_and_what_is_expected() -> None:
    assert 1.1 < told(7, 0, 0)[0] - told(6, 0, 0)[0] < 1.6  # one decade a unit was seen, two are expected


def test_a_metric_that_never_moved_is_rarer_by_two_decades_a_unit() -> None:
    assert told(0, 0, 5)[2] == pytest.approx(10, abs=0.5)
    assert told(0, 0, 0)[2] == 0


def test_ranks_come_back_from_their_state() -> None:
    back = Ranks.from_state(RANKS.to_state())
    assert np.array_equal(back.surprise(QUIET[:50]), RANKS.surprise(QUIET[:50]))
