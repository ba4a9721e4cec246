"""What a search is judged on it has never seen."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from features.labels import label
from features.tables import EVENTS, LOGS, InputError, Matrix, UsageError
from models.settings import ModelSettings
from models.tracking import Tracker
from pipelines import config as configs
from pipelines import tune
from pipelines.config import Config, TrackingSettings
from pipelines.store import Store
from pipelines.train import History
from tests.models.planted import failures_at, matrix_of, windows_of

pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # MLflow and Optuna leave their pools to the collector
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]
TIMES = (("node01", "2026-01-02T10:00"), ("node02", "2026-01-03T10:00"), ("node03", "2026-01-04T10:00"))
WINDOWS = windows_of(5, 5.0)
SETTINGS = Config(models=ModelSettings(names=("lightgbm",), threads=1))


class Shelf(SimpleNamespace):
    """As much of a store as a search asks for."""

    path = Path("planted")

    def digest(self) -> str:
        return "d" * 64

    def inputs(self) -> list[dict[str, Any]]:
        return []

    def span(self) -> tuple[int, int]:
        return int(WINDOWS["start"].astype("int64").min()), int(WINDOWS["end"].astype("int64").max())


def history(count: int = 3) -> History:
    failures = failures_at(*TIMES[:count])
    matrix = Matrix(WINDOWS, matrix_of(WINDOWS, failures, metrics=6), label(WINDOWS, failures, SETTINGS.labels))
    store: Any = Shelf()
    return History(store, failures, EVENTS.empty(), matrix, LOGS.empty(), (), np.zeros(len(WINDOWS), dtype=bool))


@pytest.fixture(scope="module")
def bench() -> tune._Bench:
    return tune._Bench.of(history(), "lightgbm", SETTINGS)


def test_a_search_sees_neither_the_outer_fold_s_windows_nor_its_failure(bench: tune._Bench) -> None:
    for outer in tune.outer_folds(bench):
        inside = tune.inner_folds(bench, outer)
        seen = np.concatenate([np.concatenate([fold.train, fold.test]) for fold in inside])
        assert not np.isin(seen, outer.test).any()
        assert not set(outer.held_out) & {name for fold in inside for name in fold.held_out}


def test_an_inner_fold_is_not_tested_on_what_it_learned_from(bench: tune._Bench) -> None:
    for fold in tune.inner_folds(bench, tune.outer_folds(bench)[0]):
        assert not np.isin(fold.train, fold.test).any()


def test_every_outer_window_is_judged_once(bench: tune._Bench) -> None:
    tested = np.concatenate([fold.test for fold in tune.outer_folds(bench)])
    assert sorted(tested.tolist()) == list(range(len(WINDOWS)))


def test_a_trial_is_worth_more_the_more_of_it_is_seen(bench: tune._Bench) -> None:
    values = list(bench.steps(tune.outer_folds(bench)[0])(bench.base))
    assert len(values) == 2  # the two failures that are left
    assert all(0 <= value <= 1 for value in values)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("tuned")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tune, "recall", lambda *_: history())
        patch.setattr(Store, "open", lambda _: None)
        tracking = TrackingSettings(uri=f"sqlite:///{folder}/mlflow.db", artifacts=folder / "artifacts")
        report = tune.tune(Path("planted"), SETTINGS.model_copy(update={"tracking": tracking}), trials=1)
    return report, folder


def test_the_tuned_model_stands_beside_the_untuned(done: tuple[dict[str, Any], Path]) -> None:
    report, _ = done
    assert list(report["models"]) == ["tuned", "default"]
    assert [row["trials"] for row in report["folds"]] == [1, 1, 1]
    assert len(report["models"]["tuned"]["by_failure"]) == 3


def test_the_settings_to_keep_are_a_configuration(done: tuple[dict[str, Any], Path]) -> None:
    report, folder = done
    (folder / "tuned.toml").write_text(report["config"])
    found = configs.load(folder / "tuned.toml").models
    assert found.persistence == report["best"]["persistence"]
    assert found.options["lightgbm"]["leaves"] == report["best"]["lightgbm.leaves"]


def test_the_database_of_searches_lies_beside_mlflow_s(done: tuple[dict[str, Any], Path]) -> None:
    report, folder = done
    assert report["storage"] == f"sqlite:///{folder}/optuna.db"
    assert (folder / "optuna.db").exists()


def test_every_trial_is_a_nested_run(done: tuple[dict[str, Any], Path]) -> None:
    report, folder = done
    client = Tracker(f"sqlite:///{folder}/mlflow.db").client
    runs = {run.info.run_id: run for run in client.search_runs(["1"], max_results=100)}
    trials = [run for run in runs.values() if run.info.run_name.startswith("trial")]
    searches = {run.data.tags["mlflow.parentRunId"] for run in trials}
    assert len(trials) == 4
    assert {runs[one].data.tags["mlflow.parentRunId"] for one in searches} == {report["run_id"]}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}


def test_a_person_is_told_which_figures_are_honest(done: tuple[dict[str, Any], Path]) -> None:
    said = tune.describe(done[0])
    assert "judged with settings searched without it" in said
    assert "of data the search saw" in said
    assert json.loads(json.dumps(done[0]["best"]))["persistence"] >= 1


@pytest.mark.parametrize(("name", "trials", "words"), [("random", 3, "is a baseline"), ("lightgbm", 0, "at least 1")])
def test_what_can_not_be_searched_is_refused(name: str, trials: int, words: str) -> None:
    settings = SETTINGS.model_copy(update={"models": ModelSettings(names=(name,))})
    with pytest.raises(UsageError, match=words):
        tune.tune(Path("planted"), settings, trials=trials)


def test_two_failures_are_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tune, "recall", lambda *_: history(2))
    monkeypatch.setattr(Store, "open", lambda _: None)
    with pytest.raises(InputError, match="fewer than three failures"):
        tune.tune(Path("planted"), SETTINGS, trials=1)
