"""Every estimator of ours keeps scikit-learn's rules, and travels without pickle."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from features.tables import InputError
from models.baselines import BestMetric, Clock, Columns, Guess, HandRules, LastXid, WorstNode, new_template, staleness
from models.blend import Blend
from models.pu import WeakPositive
from models.scorers import Scorer, align, halves, place, quiet_rows, squash, unsquash
from models.statistical import OddOneOut, RobustZ
from models.supervised import Boosted
from models.surprise import Surprise
from models.unsupervised import Forest, Residual
from tests.models.planted import matrix_of, random_failures, windows_of

SCORERS: list[Scorer] = [
    Boosted(trees=20, threads=1),
    WeakPositive(rounds=1, threads=1),
    Forest(trees=10),
    Residual(),
    RobustZ(),
    OddOneOut(),
    Surprise(),
    Blend(),
    Guess(),
    WorstNode(),
    Clock(threads=1),
    BestMetric(),
    staleness(),
    LastXid(),
    HandRules(),
]


@parametrize_with_checks(SCORERS)  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_checks_pass(estimator: Scorer, check: Any) -> None:
    with warnings.catch_warnings():
        # Tiny random data: some checks say so themselves, and array API checks ask for an environment variable
        warnings.simplefilter("ignore")
        check(estimator)


def small() -> tuple[pd.DataFrame, np.ndarray]:
    windows = windows_of(3, 2)
    X = matrix_of(windows, random_failures(2, 3, 2, seed=0), metrics=4)
    y = np.zeros(len(X), dtype=np.float32)
    y[100:110] = y[700:706] = 1
    y[110:120] = np.nan
    return X, y


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_a_scorer_comes_back_from_its_state_bit_for_bit(scorer: Scorer) -> None:
    X, y = small()
    fitted = type(scorer)(**scorer.get_params()).fit(X, y)
    state = fitted.to_state()
    back = type(scorer).from_state(state)
    assert_plain(state)
    assert np.array_equal(back.score(X), fitted.score(X))
    assert back.explain(X.iloc[:3]) == fitted.explain(X.iloc[:3])


def assert_plain(value: Any) -> None:
    """Arrays of numbers, text, numbers, None, and lists and dicts of these."""
    if isinstance(value, dict):
        for key, item in value.items():
            assert isinstance(key, str)
            assert_plain(item)
    elif isinstance(value, list | tuple):
        for item in value:
            assert_plain(item)
    elif isinstance(value, np.ndarray):
        assert not value.dtype.hasobject
    else:
        assert value is None or type(value) in {str, int, float, bool}


@pytest.mark.parametrize("scorer", SCORERS, ids=lambda scorer: type(scorer).__name__)
def test_scores_lie_in_0_to_1_whatever_is_missing(scorer: Scorer) -> None:
    X, y = small()
    fitted = type(scorer)(**scorer.get_params()).fit(X, y)
    holes = X.astype("float64").mask(np.random.default_rng(0).random(X.shape) < 0.3)
    holes.iloc[5, 2], holes.iloc[6, 2], holes.iloc[7, :] = np.inf, 1e38, np.nan
    score = fitted.score(holes)
    assert score.shape == (len(X),)
    assert ((score >= 0) & (score <= 1)).all()


@pytest.mark.parametrize("scorer", [Boosted(), WeakPositive(), Clock()], ids=lambda scorer: type(scorer).__name__)
def test_without_a_warning_to_learn_from_a_model_of_labels_refuses(scorer: Scorer) -> None:
    X, y = small()
    with pytest.raises(InputError, match="two failures or more"):
        scorer.fit(X, np.where(y == 1, 0, y))


def test_rows_are_read_by_node_and_time_whatever_their_order() -> None:
    X, _ = small()
    shuffled = X.sample(frac=1, random_state=0)
    where = place(shuffled)
    assert (shuffled.iloc[where.order].index == X.index).all()


def test_halves_split_by_days_of_a_node() -> None:
    X, _ = small()
    where = place(X)
    second = pd.Series(halves(where)).groupby([where.node, where.end // 86_400_000_000_000])
    assert (second.min() == second.max()).all()
    assert 0.3 < halves(where).mean() < 0.7


def test_a_missing_column_is_filled_and_named_up_to_a_share() -> None:
    frame = pd.DataFrame({"a": [1.0], "c": [3.0]})
    filled, missing = align(frame, ["c", "a", "b", "d"], most_missing=0.5)
    assert list(filled.columns) == ["c", "a", "b", "d"]
    assert missing == ["b", "d"]
    with pytest.raises(InputError, match="3 of the model's 4 columns"):
        align(frame, ["c", "x", "y", "z"], most_missing=0.5)


def test_a_squashed_surprise_comes_back() -> None:
    odd = np.array([0.0, 0.5, 3.0, 20.0])
    assert unsquash(squash(odd)) == pytest.approx(odd)


def test_without_quiet_labels_every_row_is_learned_from() -> None:
    assert quiet_rows(None, 3).tolist() == [True] * 3
    assert quiet_rows([1, 0, np.nan], 3).tolist() == [False, True, False]


def test_columns_told_by_name_add_up() -> None:
    X = pd.DataFrame({"logs.unknown__value": [0.0, 2.0], "other__mean": [9.0, 9.0]})
    assert new_template().fit(X).score(X) == pytest.approx([0.0, 0.75])
    assert isinstance(new_template(), Columns)
