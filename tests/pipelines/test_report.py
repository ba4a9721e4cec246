"""The page is of the run that was asked for, or of the newest on the store."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from features.tables import InputError, UsageError
from models.tracking import Tracker
from pipelines import experiment, report
from pipelines.config import Config, TrackingSettings
from pipelines.store import Store
from tests.pipelines.reported import judged, trained

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # MLflow leaves its SQLite pool to the collector


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "mlflow.db"
    Tracker(f"sqlite:///{path}")
    return path


@pytest.fixture
def config(database: Path, tmp_path: Path) -> Config:
    shutil.copy(database, tmp_path / "mlflow.db")
    return Config(tracking=TrackingSettings(uri=f"sqlite:///{tmp_path}/mlflow.db", artifacts=tmp_path / "artifacts"))


@pytest.fixture
def tracker(config: Config) -> Tracker:
    return Tracker(config.tracking.uri, config.tracking.artifacts)


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that passes for a store of digest dd...d, of which no other analysis can say anything."""
    (tmp_path / "store").mkdir()
    monkeypatch.setattr(Store, "open", lambda _: SimpleNamespace(digest=lambda: "d" * 64))
    monkeypatch.setattr(report, "SECTIONS", ())
    return tmp_path / "store"


def test_a_run_is_reported_by_its_id(tracker: Tracker, config: Config, tmp_path: Path) -> None:
    run_id = trained(tracker, 1)
    done = report.report(run_id, config, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert f"run {run_id}" in page
    assert done["bytes"] == len(page.encode())


def test_a_store_is_reported_by_its_newest_training(
    tracker: Tracker, config: Config, tmp_path: Path, shelf: Path
) -> None:
    trained(tracker, 0)
    newest = trained(tracker, 1)
    trained(tracker, 1, digest="e" * 64)
    assert report.report(str(shelf), config, tmp_path / "r.html")["run_id"] == newest


def test_a_store_without_a_training_is_trained_on(
    tracker: Tracker, config: Config, tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(*_: Any, register: bool) -> dict[str, Any]:
        assert not register
        return {"run_id": trained(tracker, 1)}

    monkeypatch.setattr(report, "train", train)
    report.report(str(shelf), config, tmp_path / "r.html")
    assert "Verdict" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_an_analysis_stands_in_the_page_and_one_without_data_does_not(
    tracker: Tracker, config: Config, tmp_path: Path, shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(*_: Any) -> dict[str, str]:
        return {"title": "Saves"}

    def none(*_: Any) -> dict[str, str]:
        raise InputError("no session")

    import sys  # noqa: PLC0415  # two modules that exist for this test alone

    page = SimpleNamespace(section=lambda result: f"<section><h2>{result['title']}</h2></section>")
    monkeypatch.setitem(sys.modules, "made.up", SimpleNamespace(some=some, none=none))
    monkeypatch.setitem(sys.modules, "made.page", page)
    monkeypatch.setattr(report, "SECTIONS", (("made.up", "some", "made.page"), ("made.up", "none", "made.page")))
    trained(tracker, 1)
    assert report.report(str(shelf), config, tmp_path / "r.html")["sections"] == ["some"]
    assert "<section><h2>Saves</h2></section>" in (tmp_path / "r.html").read_text(encoding="utf-8")


def test_what_is_neither_a_store_nor_a_run_is_told(config: Config, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a store's folder nor a run's id"):
        report.report("nowhere", config, tmp_path / "r.html")


def test_the_page_needs_a_file_to_go_to(config: Config, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a folder that exists"):
        report.report("0" * 32, config, tmp_path / "no" / "r.html")


def test_runs_sort_by_what_other_protocols_and_the_clock_said(tracker: Tracker) -> None:
    metrics = tracker.client.get_run(trained(tracker, 1)).data.metrics
    assert (metrics["protocol/node/before"], metrics["protocol/node/missed"]) == (1, 0)
    assert (metrics["cost/seconds"], metrics["cost/recalling_seconds"]) == (95, 60)
    assert not any(name.startswith("protocol/class") for name in metrics)


def test_judged_by_more_protocols_two_runs_stay_comparable() -> None:
    frame = pd.DataFrame({"model": "m", "node": "n1", "end": [pd.Timestamp("2026-01-01", tz="UTC")], "fold": 0})
    every = Config()
    fewer = every.model_copy(update={"evaluation": every.evaluation.model_copy(update={"protocols": ()})})
    other = every.model_copy(update={"evaluation": every.evaluation.model_copy(update={"budget_per_day": 2.0})})
    said = [experiment.judging(frame, {"m": judged()}, config) for config in (every, fewer, other)]
    assert said[0] == said[1] != said[2]


def test_the_note_in_the_ui_is_a_table_of_models(tracker: Tracker) -> None:
    tags = dict(tracker.client.get_run(trained(tracker, 1)).data.tags)
    assert "| blend | 1 (0-98 %) |" in tags["mlflow.note.content"]
    assert tags[experiment.KIND_TAG] == "train"
