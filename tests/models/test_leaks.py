"""Failures moved to random times can't be foretold; a feature that foretells them all the same leaks its target."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.labels import label
from features.windows import as_ns
from models import crossfit, evaluation, splits
from models.settings import ModelSettings
from models.telling import of_matrix
from tests.models.planted import LABELS, SETTINGS, matrix_of, random_failures, windows_of

WINDOWS = windows_of(4, 6.0)
MODELS = ModelSettings(names=("lightgbm",), threads=1, options={"lightgbm": {"trees": 30}})


def moved(failures: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The failures at random times: what really foreshadowed them lies elsewhere now."""
    elsewhere = random_failures(len(failures), 4, 6.0, seed)
    return failures.assign(
        time=elsewhere["time"], end=elsewhere["time"], node=elsewhere["node"], nodes=elsewhere["nodes"]
    )


def leaking(failures: pd.DataFrame) -> np.ndarray:
    """A feature that was joined with the table of failures from the wrong side: it moves when one is near ahead."""
    end, node = as_ns(WINDOWS["end"]), WINDOWS["node"].to_numpy()
    out = np.random.default_rng(0).standard_normal(len(WINDOWS))
    for time, name in zip(as_ns(failures["time"]), failures["node"], strict=True):
        out[(node == name) & (end < time) & (end > time - 40 * 60_000_000_000)] += 9
    return out.astype(np.float32)


def judged(X: pd.DataFrame, failures: pd.DataFrame) -> dict[str, Any]:
    y = label(WINDOWS, failures, LABELS)["label"].to_numpy(dtype=np.float32)
    folds = splits.leave_one_failure_out(WINDOWS, failures, LABELS, SETTINGS)
    told = crossfit.run(folds, of_matrix(X), WINDOWS, y, ("lightgbm",), MODELS).predictions
    return evaluation.judge(told, failures, WINDOWS, LABELS, SETTINGS)


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    return random_failures(7, 4, 6.0, seed=1)


@pytest.fixture(scope="module")
def matrix(real: pd.DataFrame) -> pd.DataFrame:
    """Features with a true sign before the real failures."""
    return matrix_of(WINDOWS, real, metrics=3)


def test_a_true_sign_is_seen_before_the_real_failures(matrix: pd.DataFrame, real: pd.DataFrame) -> None:
    assert judged(matrix, real)["verdict"] == "signal"


@pytest.mark.parametrize("seed", [2])
def test_a_true_sign_says_nothing_of_failures_that_were_moved(
    matrix: pd.DataFrame, real: pd.DataFrame, seed: int
) -> None:
    assert judged(matrix, moved(real, seed))["verdict"] == "no signal"


@pytest.mark.parametrize("seed", [2])
def test_a_leaking_feature_foretells_even_those(matrix: pd.DataFrame, real: pd.DataFrame, seed: int) -> None:
    failures = moved(real, seed)
    found = judged(matrix.assign(leak__mean=leaking(failures)), failures)
    assert found["verdict"] == "signal"
    assert found["before"] >= 5


def test_moved_failures_keep_their_number_and_codes(real: pd.DataFrame) -> None:
    assert list(moved(real, 2)["xid"]) == list(real["xid"])
    assert not (moved(real, 2)["time"] == real["time"]).any()
