"""Baselines do what their names say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from models.baselines import BestMetric, Guess, HandRules, LastXid, WorstNode, staleness
from tests.models.planted import failures_at, matrix_of, windows_of

WINDOWS = windows_of(4, 1)
X = matrix_of(WINDOWS, failures_at(), metrics=3)


def with_columns(**columns: Any) -> pd.DataFrame:
    return X.assign(**columns).astype("float32")


def test_a_guess_is_uniform_and_the_same_in_every_order() -> None:
    guess = Guess().fit(X)
    score = pd.Series(guess.score(X), index=X.index)
    shuffled = X.sample(frac=1, random_state=0)
    assert np.array_equal(guess.score(shuffled), score.loc[shuffled.index])
    assert abs(score.mean() - 0.5) < 0.05
    assert score.nunique() == len(score)


def test_the_worst_node_is_the_one_with_most_warnings() -> None:
    label = (WINDOWS["node"] == "node02").to_numpy() & (np.arange(len(WINDOWS)) % 2 == 0)
    score = pd.Series(WorstNode().fit(X, label.astype(float)).score(X), index=X.index).groupby(level=0).max()
    assert score.to_dict() == {"node00": 0.0, "node01": 0.0, "node02": 1.0, "node03": 0.0}


def test_the_last_failure_counts_the_more_the_shorter_ago() -> None:
    since = np.where(np.arange(len(X)) < 10, np.nan, np.arange(len(X)) * 60.0)
    score = (
        LastXid()
        .fit(X)
        .score(with_columns(history__x=0.0).assign(**{"history.since_incident__value": since})[X.columns])
    )
    assert (score[:10] == 0).all()
    assert (np.diff(score[10:]) < 0).all()


def test_the_best_metric_is_the_one_that_moves_before_failures() -> None:
    label = (np.arange(len(X)) % 97 == 0).astype(float)
    moved = X.assign(metric_1__mean=X["metric_1__mean"] + 50 * label.astype("float32"))
    chosen = BestMetric().fit(moved, label)
    assert chosen.columns()[chosen.column_] == "metric_1__mean"


def test_silence_is_stale() -> None:
    silent = X.assign(**{"presence.silent_seconds__value": np.where(np.arange(len(X)) == 7, 600.0, 0.0)})
    score = staleness().fit(silent).score(silent)
    assert score[7] > 0.99
    assert score.sum() == score[7]


def test_a_hand_rule_fires_on_interrupts_below_half_the_clusters_median() -> None:
    low = (WINDOWS["node"] == "node01").to_numpy() & (np.arange(len(X)) % 100 > 50)
    rows = with_columns(node_intr_total__sum_values=np.where(low, 1e5, 3e5))
    rules = HandRules().fit(rows)
    score = pd.Series(rules.score(rows), index=rows.index)
    assert score.groupby(level=0).max().to_dict() == {"node00": 0.0, "node01": 0.5, "node02": 0.0, "node03": 0.0}
    fired = int(np.flatnonzero(score)[-1])
    assert rules.explain(rows)[fired] == [("interrupts", 1.0)]
