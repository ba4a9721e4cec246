"""However few, near or early the failures are: each window is scored once, and each failure judged once."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.labels import label
from models import choice, crossfit, evaluation, protocols, splits
from models.lineup import BASELINES
from models.settings import EvaluationSettings, ModelSettings
from models.telling import of_matrix
from tests.models.planted import LABELS, SETTINGS, failures_at, matrix_of, windows_of

WINDOWS = windows_of(2, 3.0)
NAMES = ("surprise", "lightgbm", "random", "last-xid")
MODELS = ModelSettings(names=NAMES[:2], threads=1, options={"lightgbm": {"trees": 5}})
HISTORIES: dict[str, tuple[tuple[str, str], ...]] = {
    "none": (),
    "one": (("node00", "2026-01-02T10:00"),),
    "two": (("node00", "2026-01-02T10:00"), ("node01", "2026-01-03T10:00")),
    "all on one node": (("node01", "2026-01-01T10:00"), ("node01", "2026-01-02T10:00"), ("node01", "2026-01-03T10:00")),
    "closer than the horizon": (("node00", "2026-01-02T10:00"), ("node00", "2026-01-02T10:20")),
    "at the same moment": (("node00+node01", "2026-01-02T10:00"), ("node01", "2026-01-02T10:00")),
    "at the start and the end": (("node00", "2026-01-01T00:21"), ("node01", "2026-01-03T23:59")),
    "after the end": (("node00", "2026-01-02T10:00"), ("node01", "2026-01-04T00:30")),
    "on a node without windows": (("node00", "2026-01-02T10:00"), ("node77", "2026-01-03T10:00")),
}


def told(X: pd.DataFrame, failures: pd.DataFrame) -> tuple[crossfit.Crossfit, np.ndarray]:
    y = label(WINDOWS, failures, LABELS)["label"].to_numpy(dtype=np.float32)
    folds = splits.leave_one_failure_out(WINDOWS, failures, LABELS, SETTINGS)
    return crossfit.run(folds, of_matrix(X), WINDOWS, y, NAMES, MODELS, began=np.zeros(len(y), dtype=bool)), y


def judged(fitted: crossfit.Crossfit, failures: pd.DataFrame, settings: EvaluationSettings) -> dict[str, Any]:
    return {
        str(name): evaluation.judge(part, failures, WINDOWS, LABELS, settings)
        for name, part in fitted.predictions.groupby("model", sort=False)
    }


@pytest.mark.parametrize("history", HISTORIES)
def test_each_window_is_scored_once_and_each_failure_judged_once(history: str) -> None:
    failures = failures_at(*HISTORIES[history])
    fitted, y = told(matrix_of(WINDOWS, failures, metrics=3), failures)
    assert (fitted.predictions.groupby("model")["window"].nunique() == len(WINDOWS)).all()
    assert fitted.predictions["score"].between(0, 1).all()
    figures = judged(fitted, failures, SETTINGS)
    for found in figures.values():
        assert found["before"] + found["at"] + found["missed"] + found["unjudged"] == len(failures)
    best = choice.compare(figures, BASELINES)
    assert best["champion"] in {"lightgbm", "surprise"}
    if len(failures) < 2:
        assert best["verdict"] == "no signal"
        assert set(fitted.skipped) >= {(0, "lightgbm")}
    asked = protocols.Ask((best["champion"], "random"), WINDOWS, failures, y, np.zeros(len(y), dtype=bool), fitted.told,
                          of_matrix(matrix_of(WINDOWS, failures, metrics=3)))  # fmt: skip
    for protocol in SETTINGS.protocols if history in {"two", "all on one node", "at the same moment"} else ():
        other = protocols.judge(protocol, asked, LABELS, SETTINGS, MODELS)
        assert bool(other["why_not"]) != bool(other["models"])


@pytest.mark.parametrize("budget", [1e-9, 1e9])
def test_the_smallest_and_the_largest_budget_give_figures(budget: float) -> None:
    failures = failures_at(*HISTORIES["two"])
    score = np.random.default_rng(0).random(len(WINDOWS))
    frame = WINDOWS.assign(model="m", fold=np.arange(len(WINDOWS)) % 2, score=score)
    found = evaluation.judge(
        frame, failures, WINDOWS, LABELS, EvaluationSettings(budget_per_day=budget, permutations=200)
    )
    assert found["before"] + found["at"] + found["missed"] == 2
    assert found["false_alarms"] <= 2 if budget < 1 else found["before"] == 2


def test_columns_without_a_value_and_constant_ones_are_no_obstacle() -> None:
    failures = failures_at(*HISTORIES["two"])
    X = matrix_of(WINDOWS, failures, metrics=3).assign(empty__mean=np.float32("nan"), same__mean=np.float32(7))
    fitted, _ = told(X, failures)
    assert np.isfinite(fitted.predictions["score"]).all()


def test_a_matrix_of_nothing_but_missing_values_is_scored_and_catches_nothing() -> None:
    failures = failures_at(*HISTORIES["two"])
    X = matrix_of(WINDOWS, failures, metrics=2).astype("float32") * np.float32("nan")
    fitted, _ = told(X, failures)
    assert (fitted.predictions.groupby("model").size() == len(WINDOWS)).all()
    assert judged(fitted, failures, SETTINGS)["lightgbm"]["before"] == 0
