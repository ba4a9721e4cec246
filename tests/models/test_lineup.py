"""Models fitted together, by the names users know."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.labels import label
from features.tables import InputError, UsageError
from models import bundle, crossfit, evaluation, splits, telling
from models.lineup import BASELINES, LOOK_BACK, Lineup
from models.lineup import NAMES as EVERY
from models.rules import REASON
from models.settings import ModelSettings
from tests.models.planted import LABELS, SETTINGS, failures_at, matrix_of, random_failures, windows_of

NAMES = tuple(name for name in EVERY if name != "tadgan")  # torch is an extra: tests/models/test_deep.py
QUICK = ModelSettings(quiet_windows=4000, threads=1)
WINDOWS = windows_of(5, 7)
FAILURES = random_failures(5, 5, 7, seed=1)
X = matrix_of(WINDOWS, FAILURES, metrics=10)
LABEL = label(WINDOWS, FAILURES, LABELS)["label"].to_numpy()


@pytest.fixture(scope="module")
def fitted() -> Lineup:
    return Lineup(NAMES, QUICK).fit(X, LABEL)


@pytest.fixture(scope="module")
def judged() -> dict[str, dict[str, object]]:
    folds = splits.leave_one_failure_out(WINDOWS, FAILURES, LABELS, SETTINGS)
    names = ("blend", "surprise", "lightgbm", "random", "clock-and-node")
    out = crossfit.run(folds, telling.of_matrix(X), WINDOWS, LABEL, names, QUICK)
    assert (out.predictions.groupby("model")["window"].nunique() == len(WINDOWS)).all()
    assert not out.predictions.duplicated(["model", "window"]).any()
    return {
        str(name): evaluation.judge(part, FAILURES, WINDOWS, LABELS, SETTINGS)
        for name, part in out.predictions.groupby("model")
    }


@pytest.mark.parametrize("name", ["blend", "surprise", "lightgbm"])
def test_one_metric_that_moves_before_each_failure_is_caught(judged: dict[str, dict[str, object]], name: str) -> None:
    assert judged[name]["before"] in {4, 5}  # one threshold a fold, of five failures
    assert judged[name]["verdict"] == "signal"


@pytest.mark.parametrize("name", ["random", "clock-and-node"])
def test_a_baseline_without_knowledge_catches_next_to_nothing(judged: dict[str, dict[str, object]], name: str) -> None:
    assert judged[name]["before"] in {0, 1}


def test_every_model_scores_every_row_from_0_to_1(fitted: Lineup) -> None:
    scores = fitted.score(X)
    assert tuple(scores.columns) == NAMES
    assert scores.index.equals(X.index)
    assert ((scores >= 0) & (scores <= 1)).all(axis=None)


def test_a_line_up_comes_back_from_a_bundle_bit_for_bit(fitted: Lineup, tmp_path: object) -> None:
    folder = tmp_path / "bundle"  # type: ignore[operator]  # a Path
    digest = bundle.write(folder, {"columns": list(X.columns)}, {"lineup": fitted.to_state()}, {})
    found = bundle.read(folder)
    assert found.digest == digest
    assert fitted.score(X).equals(Lineup.from_state(found.states["lineup"]).score(X))


def test_the_reason_of_an_alarm_is_the_column_that_moved(fitted: Lineup) -> None:
    node, end = X.index[np.flatnonzero(LABEL == 1)[5]]
    before = X.loc[[node]].loc[pd.IndexSlice[:, end - pd.Timedelta("3h") : end], :]
    for name in ("blend", "lightgbm", "surprise", "robust-z", "pca"):
        assert any(column.startswith("metric_") for column, _ in fitted.explain(name, before)[-1]), name


def test_a_failure_that_has_begun_is_an_alarm_of_every_model_but_the_baselines(fitted: Lineup) -> None:
    began = np.zeros(len(X), dtype=bool)
    began[10] = True
    scores = fitted.score(X, began)
    assert {name for name in NAMES if scores[name].iloc[10] == 1.0} >= set(NAMES) - BASELINES
    assert scores["random"].iloc[10] < 1
    assert fitted.explain("blend", X.iloc[10:11], began=began[10:11])[0][0] == (REASON, 1.0)


def test_without_failures_models_without_labels_still_score() -> None:
    quiet = np.where(LABEL == 1, np.nan, LABEL)
    some = Lineup(("lightgbm", "surprise"), QUICK).fit(X, quiet)
    assert list(some.score(X).columns) == ["surprise"]
    assert "two failures or more" in some.skipped["lightgbm"]


def test_when_nothing_can_be_fitted_it_is_said_why() -> None:
    with pytest.raises(InputError, match="no model could be fitted: 0 of"):
        Lineup(("lightgbm",), QUICK).fit(X, np.where(LABEL == 1, np.nan, LABEL))


def test_an_unknown_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="'lightgmb'; there are blend, lightgbm"):
        Lineup(("lightgmb",), QUICK)


def test_with_one_failure_a_model_of_labels_is_left_out_and_named() -> None:
    one = failures_at(("node01", "2026-01-04T10:00"))
    windows = windows_of(2, 7)
    labels = label(windows, one, LABELS)["label"].to_numpy()
    folds = splits.leave_one_failure_out(windows, one, LABELS, SETTINGS)
    out = crossfit.run(
        folds, telling.of_matrix(matrix_of(windows, one)), windows, labels, ("lightgbm", "surprise"), QUICK
    )
    assert set(out.predictions["model"]) == {"surprise"}
    assert (0, "lightgbm") in out.skipped


def test_a_feature_that_is_made_from_the_failures_is_caught_by_moving_them() -> None:
    """A leak foretells failures that never were, as well as those that were."""
    moved = random_failures(5, 5, 7, seed=9)
    labels = label(WINDOWS, moved, LABELS)
    folds = splits.leave_one_failure_out(WINDOWS, moved, LABELS, SETTINGS)
    honest = crossfit.run(folds, telling.of_matrix(X), WINDOWS, labels["label"].to_numpy(), ("lightgbm",), QUICK)
    leak = X.assign(leak__mean=(labels["label"] == 1).to_numpy().astype("float32"))
    leaking = crossfit.run(folds, telling.of_matrix(leak), WINDOWS, labels["label"].to_numpy(), ("lightgbm",), QUICK)
    figures = [
        evaluation.judge(out.predictions, moved, WINDOWS, LABELS, SETTINGS)["before"] for out in (honest, leaking)
    ]
    assert figures[0] <= 1
    assert figures[1] >= 4


def test_another_clusters_quiet_hours_do_not_say_what_is_usual_here(fitted: Lineup) -> None:
    told = fitted.signs(X)
    restless = told._replace(lasting=told.lasting + 3.0)
    alone = Lineup(("surprise",), QUICK).learn(told, LABEL)
    beside = Lineup(("surprise",), QUICK).learn(told, LABEL, None, [(restless, LABEL)])
    ours, also = alone.fitted["surprise"].model, beside.fitted["surprise"].model
    assert ours is not None
    assert also is not None
    np.testing.assert_array_equal(also.score(told.lasting), ours.score(told.lasting))


def test_the_same_fit_gives_the_same_scores(fitted: Lineup) -> None:
    names = ("isolation-forest", "lightgbm", "surprise", "robust-z")
    again = Lineup(names, QUICK).fit(X, LABEL)
    pd.testing.assert_frame_equal(fitted.score(X)[list(names)], again.score(X), check_exact=True)


def test_a_score_needs_no_more_windows_than_it_says(fitted: Lineup) -> None:
    whole, last = fitted.score(X), X.groupby(level=0).tail(LOOK_BACK)
    names = [name for name in NAMES if name != "hand-rules"]  # counts over a day
    ends = last.groupby(level=0).tail(1).index
    pd.testing.assert_frame_equal(fitted.score(last).loc[ends, names], whole.loc[ends, names], check_exact=True)
