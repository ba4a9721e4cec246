"""Runs, folds, versions, and what happens when many start at once or one is killed."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from features.tables import ModelError, UpstreamError, UsageError
from models import interface, tracking
from models.tracking import Dataset, Tracker

# Eight at one moment: what takes seconds to load is loaded once, before they part
STARTERS = """
import os, sys, traceback
from models.tracking import Tracker
import mlflow.store.tracking.sqlalchemy_store, mlflow.store.model_registry.sqlalchemy_store

def start():
    try:
        with Tracker(sys.argv[1]).start("e", "r") as run:
            run.log(metrics={"a": 1.0})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)

started = [os.fork() or start() for _ in range(8)]
sys.exit(any(os.waitpid(one, 0)[1] for one in started))
"""
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # MLflow leaves its SQLite pool to the collector


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MLflow's tables, made once: seconds each time."""
    path = tmp_path_factory.mktemp("made") / "mlflow.db"
    Tracker(f"sqlite:///{path}")
    return path


@pytest.fixture
def tracker(database: Path, tmp_path: Path) -> Tracker:
    shutil.copy(database, tmp_path / "mlflow.db")
    return Tracker(f"sqlite:///{tmp_path}/mlflow.db", tmp_path / "artifacts")


def row(tracker: Tracker, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(tracker.uri.removeprefix("sqlite:///")) as connection:
        found = connection.execute(query).fetchall()
    connection.close()
    return found


def registered(tracker: Tracker, tmp_path: Path, digest: str) -> tracking.Version:
    (tmp_path / "b").mkdir(exist_ok=True)
    (tmp_path / "b" / "manifest.json").write_text(digest)
    with tracker.start("e", "r") as run:
        run.folder(tmp_path / "b", "bundle")
        return tracker.register(run, "bundle", "foreshock", digest)


def test_importing_the_room_does_not_import_mlflow() -> None:
    code = "import sys, models.tracking; print('mlflow' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "False"


def test_a_folder_as_address_is_refused_with_the_cure() -> None:
    with pytest.raises(UsageError, match=r"sqlite:///mlruns/mlflow\.db"):
        Tracker("mlruns")


def test_an_unreachable_server_is_an_upstream_error_without_the_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UpstreamError) as caught:
        Tracker("http://me:canary@127.0.0.1:9")
    assert "canary" not in str(caught.value)


def test_eight_starters_on_a_fresh_database_all_finish(tmp_path: Path) -> None:
    started = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", STARTERS, f"sqlite:///{tmp_path}/deep/mlflow.db"],
        capture_output=True,
        check=False,
    )
    assert (started.returncode, started.stderr.decode()) == (0, "")
    with sqlite3.connect(tmp_path / "deep" / "mlflow.db") as connection:
        assert connection.execute("select count(*) from runs where status = 'FINISHED'").fetchone() == (8,)
        assert connection.execute("select count(*) from experiments where name = 'e'").fetchone() == (1,)
    connection.close()


def test_a_metric_that_is_no_number_becomes_a_tag(tracker: Tracker) -> None:
    with tracker.start("e", "r") as run:
        run.log(metrics={"ok": 0.5, "nan": float("nan"), "inf": float("inf"), "none": None})
    assert row(tracker, "select key, value from metrics") == [("ok", 0.5)]
    assert row(tracker, "select key from tags where value = 'n/a' order by key") == [("inf",), ("nan",), ("none",)]


def test_a_long_parameter_becomes_an_artifact_with_its_digest(tracker: Tracker, tmp_path: Path) -> None:
    with tracker.start("e", "r") as run:
        run.log(params={"short": 3, "columns": "x" * 501})
    params = {str(key): value for key, value in row(tracker, "select key, value from params")}
    assert params["short"] == "3"
    assert str(params["columns"]).startswith("sha256:")
    assert next(tmp_path.glob("artifacts/**/params/columns.txt")).read_text() == "x" * 501


def test_more_metrics_than_one_batch_takes_are_all_logged(tracker: Tracker) -> None:
    with tracker.start("e", "r") as run:
        run.log(metrics={f"m{i}": float(i) for i in range(1001)}, params={f"p{i}": i for i in range(101)})
    assert row(tracker, "select count(*) from metrics") == [(1001,)]
    assert row(tracker, "select count(*) from params") == [(101,)]


def test_a_fold_is_nested_under_its_run(tracker: Tracker) -> None:
    with tracker.start("e", "r") as run, run.child("fold 0"):
        pass
    assert row(tracker, "select value from tags where key = 'mlflow.parentRunId'") == [(run.run_id,)]


def test_datasets_tables_and_curves_are_logged(tracker: Tracker, tmp_path: Path) -> None:
    with tracker.start("e", "r", datasets=[Dataset("store", "some/store", "d" * 64)]) as run:
        run.table(pd.DataFrame({"node": ["n1"], "outcome": ["before"]}), "failures.json")
        run.curve("blend/before", [(0.25, 1), (0.84, 2), (1.0, float("nan"))])
    assert row(tracker, "select name, digest from datasets") == [("store", "d" * 36)]
    assert json.loads(next(tmp_path.glob("artifacts/**/failures.json")).read_text())["data"] == [["n1", "before"]]
    assert row(tracker, "select step, value from metrics order by step") == [(25, 1.0), (84, 2.0)]


def test_a_run_that_raises_is_failed_and_one_interrupted_killed(tracker: Tracker) -> None:
    with pytest.raises(ValueError, match="x"), tracker.start("e", "bad"):
        raise ValueError("x")
    with pytest.raises(KeyboardInterrupt), tracker.start("e", "stopped"):
        raise KeyboardInterrupt
    assert row(tracker, "select name, status from runs order by name") == [("bad", "FAILED"), ("stopped", "KILLED")]


def test_a_dead_process_run_is_closed_at_the_next_start(tracker: Tracker) -> None:
    code = "import os, sys; from models.tracking import Tracker\nTracker(sys.argv[1]).start('e', 'dead'); os._exit(9)"
    subprocess.run([sys.executable, "-c", code, tracker.uri], check=False)
    alive = tracker.start("e", "alive")
    tracker.start("e", "next").end()
    found = {str(name): status for name, status in row(tracker, "select name, status from runs")}
    assert found == {"dead": "KILLED", "alive": "RUNNING", "next": "FINISHED"}
    alive.end()


def test_the_first_version_is_champion_and_the_second_challenger(tracker: Tracker, tmp_path: Path) -> None:
    assert registered(tracker, tmp_path, "one").uri == "models:/foreshock/1"
    registered(tracker, tmp_path, "two")
    assert tracker.find("models:/foreshock@champion").digest == "one"
    assert tracker.find("models:/foreshock@challenger").version == "2"


def test_a_version_downloads_as_the_files_that_were_logged(tracker: Tracker, tmp_path: Path) -> None:
    version = registered(tracker, tmp_path, "one")
    (tmp_path / "to").mkdir()
    assert (tracker.download(version, tmp_path / "to") / "manifest.json").read_text() == "one"


@pytest.mark.parametrize("model", ["models:/foreshock@champion", "models:/foreshock/7"])
def test_a_missing_version_says_how_to_get_one(tracker: Tracker, model: str) -> None:
    with pytest.raises(ModelError, match="foreshock train"):
        tracker.find(model)


def test_a_model_name_of_another_form_is_a_usage_error(tracker: Tracker) -> None:
    with pytest.raises(UsageError, match="models:/NAME"):
        tracker.find("runs:/abc")


def test_the_ui_of_a_server_is_not_served_again() -> None:
    with pytest.raises(UsageError, match="browser"):
        interface.serve_ui("http://mlflow.example.org", 5000)


def test_the_ui_ends_with_the_command_that_is_told_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = tmp_path / "python"
    server.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nkill -TERM {os.getpid()}\nexec sleep 60\n")
    server.chmod(0o755)
    monkeypatch.setattr(interface, "Tracker", lambda _: None)
    monkeypatch.setattr(sys, "executable", str(server))
    interface.serve_ui("sqlite:///mlflow.db", 5000)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
