"""Exact intervals against values of the literature."""

import pytest

from features.tables import UsageError
from models.intervals import clopper_pearson, mcnemar, poisson_rate


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(10, 10, 0.692, 1.0), (2, 10, 0.0252, 0.5561), (0, 10, 0.0, 0.308), (4, 20, 0.0573, 0.4366)],
)
def test_clopper_pearson_gives_the_published_interval(successes: int, trials: int, low: float, high: float) -> None:
    assert clopper_pearson(successes, trials) == pytest.approx((low, high), abs=6e-4)


def test_nothing_tried_says_nothing() -> None:
    assert clopper_pearson(0, 0) == (0.0, 1.0)


def test_more_successes_than_trials_are_refused() -> None:
    with pytest.raises(UsageError, match="11 of 10"):
        clopper_pearson(11, 10)


@pytest.mark.parametrize(("events", "low", "high"), [(0, 0.0, 3.689), (1, 0.0253, 5.572), (10, 4.795, 18.39)])
def test_poisson_rate_gives_garwoods_table(events: int, low: float, high: float) -> None:
    assert poisson_rate(events, 1.0) == pytest.approx((low, high), rel=1e-3)


def test_a_rate_is_per_unit_of_exposure() -> None:
    assert poisson_rate(10, 5.0)[1] == pytest.approx(18.39 / 5, rel=1e-3)


def test_no_exposure_is_refused() -> None:
    with pytest.raises(UsageError, match="exposure"):
        poisson_rate(1, 0.0)


def test_mcnemar_counts_only_where_two_models_differ() -> None:
    assert mcnemar(0, 6) == pytest.approx(2 / 64)
    assert mcnemar(3, 3) == 1.0
    assert mcnemar(0, 0) == 1.0
