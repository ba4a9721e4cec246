"""A challenger takes over when it beats the champion on the same folds, or is forced on record."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from features.tables import InputError, ModelError, UsageError
from models import registry, tracked
from models.registry import JUDGING_TAG, Judged
from models.tracking import Tracker

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # MLflow leaves its SQLite pool to the collector


def figures(before: int, alarms: float = 0.5, at: int = 0) -> dict[str, Any]:
    caught = [{"failure": f"f{number}", "outcome": "before"} for number in range(before)]
    return {
        "before": before,
        "at": at,
        "false_alarms_per_day": alarms,
        "lead_minutes_median": 10.0,
        "by_failure": caught,
    }


def gate(new: dict[str, Any], old: dict[str, Any], judging: str = "same") -> registry.Gate:
    return registry.compare(Judged(judging, 0.84, new), Judged("same", 0.84, old), "version 2", "version 1")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "mlflow.db"
    Tracker(f"sqlite:///{path}")
    return path


@pytest.fixture
def tracker(database: Path, tmp_path: Path) -> Tracker:
    shutil.copy(database, tmp_path / "mlflow.db")
    return Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts")


def trained(tracker: Tracker, before: int, judging: str = "same") -> str:
    report = {"models": {"blend": figures(before)}, "champion": "blend", "budget_per_day": 0.84}
    with tracker.start("e", "r", tags={JUDGING_TAG: judging, "data.store_sha256": "d"}) as run:
        run.files({"report.json": json.dumps(report).encode(), "bundle/manifest.json": b"{}"})
        tracker.register(run, "bundle", "foreshock", f"digest {before}")
        return run.run_id


def tags(tracker: Tracker, version: str) -> dict[str, str]:
    return dict(tracker.client.get_model_version("foreshock", version).tags)


def test_more_caught_before_passes() -> None:
    assert gate(figures(3), figures(2)).passed


def test_as_many_with_fewer_false_alarms_passes() -> None:
    assert gate(figures(2, 0.4), figures(2, 0.5)).passed


def test_the_same_figures_do_not_pass() -> None:
    assert not gate(figures(2), figures(2)).passed


def test_catches_bought_by_false_alarms_do_not_pass() -> None:
    found = gate(figures(5, 3.0), figures(2, 0.5))
    assert not found.passed
    assert "double the budget" in found.reason


def test_figures_of_other_folds_are_not_compared() -> None:
    assert "other data, folds or rules" in gate(figures(5), figures(2), "other").reason


def test_a_better_challenger_becomes_champion_and_the_reason_stays(tracker: Tracker) -> None:
    trained(tracker, 1)
    trained(tracker, 2)
    registry.promote(tracker.uri, "foreshock", 2)
    assert tracker.find("models:/foreshock@champion").version == "2"
    assert "catches 2 before" in tags(tracker, "2")["foreshock.gate"]
    assert tags(tracker, "2")["foreshock.forced"] == "false"


def test_a_worse_challenger_is_refused_with_the_cure(tracker: Tracker) -> None:
    trained(tracker, 2)
    trained(tracker, 1)
    with pytest.raises(ModelError, match="--force"):
        registry.promote(tracker.uri, "foreshock", 2)
    assert tracker.find("models:/foreshock@champion").version == "1"


def test_a_forced_promotion_is_on_record(tracker: Tracker) -> None:
    trained(tracker, 2)
    trained(tracker, 1)
    registry.promote(tracker.uri, "foreshock", 2, force=True)
    assert tags(tracker, "2")["foreshock.forced"] == "true"
    assert tracker.find("models:/foreshock@champion").version == "2"


def test_an_alias_that_does_not_score_has_no_gate(tracker: Tracker) -> None:
    trained(tracker, 2)
    trained(tracker, 1)
    registry.promote(tracker.uri, "foreshock", 2, "shadow")
    assert tracker.find("models:/foreshock@shadow").version == "2"


def test_an_alias_mlflow_would_misread_is_a_usage_error(tracker: Tracker) -> None:
    with pytest.raises(UsageError, match="alias"):
        registry.promote(tracker.uri, "foreshock", 1, "7 up")


def test_the_newest_finished_run_on_the_data_is_found(tracker: Tracker) -> None:
    trained(tracker, 1)
    second = trained(tracker, 2)
    tracker.start("e", "unfinished", tags={"data.store_sha256": "d"})
    found = tracked.newest(tracker, "e", {"data.store_sha256": "d"})
    assert found is not None
    assert found.run_id == second
    assert tracked.newest(tracker, "e", {"data.store_sha256": "x"}) is None
    assert tracked.newest(tracker, "none", {"data.store_sha256": "d"}) is None


def test_a_run_or_file_that_is_not_there_is_one_clear_line(tracker: Tracker) -> None:
    with pytest.raises(InputError, match="is not in MLflow"):
        tracked.run(tracker, "0" * 32)
    run_id = trained(tracker, 1)
    with pytest.raises(InputError, match="has no file"):
        tracked.fetch(tracker, run_id, "evidence.json")
