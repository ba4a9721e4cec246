"""The generative model learns what is usual with torch, and scores without it."""

from __future__ import annotations

import importlib.util
import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from sklearn.utils.estimator_checks import parametrize_with_checks

from features.tables import UsageError
from models.deep import TadGan
from models.lineup import LOOK_BACK, Lineup
from models.settings import ModelSettings
from tests.models.planted import failures_at, matrix_of, windows_of
from tests.models.test_scorers import assert_plain

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not here; pip install 'foreshock[deep]'"
)
FAILURES = failures_at(("node01", "2026-01-02T10:00"))


@needs_torch
@parametrize_with_checks([TadGan(rounds=1, width=8, code=2)])  # type: ignore[untyped-decorator]  # scikit-learn has no types
def test_scikit_learns_checks_pass(estimator: TadGan, check: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tiny random data: some checks say so themselves
        check(estimator)


@pytest.fixture(scope="module")
def planted() -> pd.DataFrame:
    """Three nodes' windows of 6 metrics; one of node01 moves for 40 minutes before its failure."""
    X = matrix_of(windows_of(3, 2.0), FAILURES, metrics=6)
    return X[[name for name in X.columns if ".peer__" in name]]


def ahead(X: pd.DataFrame) -> NDArray[np.int64]:
    """Rows of the failing node from 30 to 5 minutes before."""
    end = X.index.get_level_values(1)
    near = (end >= pd.Timestamp("2026-01-02T09:30Z")) & (end <= pd.Timestamp("2026-01-02T09:55Z"))
    return np.flatnonzero(near & (X.index.get_level_values(0) == "node01"))


@pytest.fixture(scope="module")
def fitted(planted: pd.DataFrame) -> TadGan:
    return TadGan(rounds=8).fit(planted)


@needs_torch
def test_a_stretch_unlike_the_usual_is_worse(planted: pd.DataFrame, fitted: TadGan) -> None:
    score = fitted.score(planted)
    assert score[ahead(planted)].min() > np.quantile(score, 0.9)


@needs_torch
def test_the_moved_column_is_named(planted: pd.DataFrame, fitted: TadGan) -> None:
    near = planted.iloc[ahead(planted)]
    assert fitted.explain(near, 2)[-1][0][0] == "metric_0.peer__mean"


@needs_torch
def test_it_comes_back_from_arrays_and_scores_without_torch(
    planted: pd.DataFrame, fitted: TadGan, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = fitted.to_state()
    assert_plain(state)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert np.array_equal(TadGan.from_state(state).score(planted), fitted.score(planted))


@needs_torch
def test_the_same_seed_learns_the_same(planted: pd.DataFrame) -> None:
    first, second = (TadGan(rounds=1, seed=3).fit(planted).score(planted) for _ in range(2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, TadGan(rounds=1, seed=4).fit(planted).score(planted))


@needs_torch
def test_a_node_s_score_depends_on_no_other_node(planted: pd.DataFrame, fitted: TadGan) -> None:
    alone = planted.loc[["node02"]]
    together = pd.Series(fitted.score(planted), index=planted.index)
    np.testing.assert_allclose(fitted.score(alone), together.loc[["node02"]], rtol=0, atol=1e-7)


@needs_torch
def test_the_line_up_s_score_needs_no_more_windows_than_it_says() -> None:
    X = matrix_of(windows_of(3, 2.0), FAILURES, metrics=4)
    settings = ModelSettings(names=("tadgan",), options={"tadgan": {"rounds": 1}})
    lineup = Lineup(("tadgan",), settings).fit(X, np.zeros(len(X), dtype=np.float32))
    score = lineup.score(X)["tadgan"]
    assert ((score >= 0) & (score <= 1)).all()
    ends = X.index.get_level_values(1)
    late = ends.isin(ends.unique().sort_values()[-LOOK_BACK:])
    last = ends[late] == ends.max()
    np.testing.assert_allclose(lineup.score(X[late])["tadgan"][last], score[late][last], rtol=0, atol=1e-7)


def test_without_torch_it_says_what_to_install(planted: pd.DataFrame, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(UsageError, match=r"pip install 'foreshock\[deep\]'"):
        TadGan().fit(planted)
