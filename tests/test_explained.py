"""A metric that was moved by hand is named among the first reasons."""

import numpy as np
import pytest

from benchmarks.explained import KS, hits, level_columns, plant
from features.labels import label
from models.lineup import Lineup
from models.settings import ModelSettings
from tests.models.planted import LABELS, matrix_of, random_failures, windows_of

WINDOWS = windows_of(5, 6)
FAILURES = random_failures(4, 5, 6, seed=1)
X = matrix_of(WINDOWS, FAILURES, metrics=12)
LABEL = label(WINDOWS, FAILURES, LABELS)["label"].to_numpy()
LATE = (WINDOWS["end"] >= "2026-01-06").to_numpy()
MODELS = ModelSettings(
    names=("blend",), threads=1, options={"lightgbm": {"trees": 30}, "isolation-forest": {"trees": 10}}
)


@pytest.fixture(scope="module")
def lineup() -> Lineup:
    learn = ~LATE & ~np.isnan(LABEL)
    return Lineup(("surprise", "blend"), MODELS).fit(X[learn], LABEL[learn])


def share(lineup: Lineup, model: str, size: float, times: int = 40) -> dict[int, float]:
    """How often the moved metric is among the first k reasons."""
    quiet = np.flatnonzero((LABEL[LATE] == 0) & (WINDOWS["end"][LATE] >= "2026-01-06T02:00Z").to_numpy())
    found = [hits(lineup, model, one) for one in plant(X[LATE], X[~LATE], quiet, times, size)]
    return dict(zip(KS, np.mean(found, axis=0).tolist(), strict=True))


@pytest.mark.parametrize(("model", "times"), [("surprise", 40), ("blend", 10)])
def test_a_metric_moved_by_hand_is_named_among_the_first(lineup: Lineup, model: str, times: int) -> None:
    told = share(lineup, model, size=8.0, times=times)
    assert told[3] >= 0.9
    assert told[1] >= 0.7


def test_a_metric_that_was_not_moved_is_named_as_chance_would(lineup: Lineup) -> None:
    assert share(lineup, "surprise", size=0.0)[1] <= 0.3  # one of twelve


def test_levels_are_moved_together_and_spreads_are_not() -> None:
    columns = ["a__mean", "a.peer__mean", "a__standard_deviation", "a.gpu_spread__mean", "b.gpu_max__maximum"]
    assert level_columns(columns) == {"a": [0, 1], "b": [4]}


def test_only_the_asked_node_s_last_windows_are_moved() -> None:
    row = int(np.flatnonzero((WINDOWS["node"] == "node03").to_numpy())[400])
    (one,) = plant(X, X, np.array([row]), 1, 5.0)
    before = X.loc[one.X.index]
    changed = (one.X.to_numpy() != before.to_numpy()) & before.notna().to_numpy()
    moved = one.X.index[changed.any(axis=1)]
    assert set(moved.get_level_values(0)) == {"node03"}
    assert len(moved) == 3
    assert one.X.index[one.at] == X.index[row]
