"""A search goes on where it was, and its worth is what the budget would say."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import optuna
import pandas as pd
import pytest

from features.tables import UpstreamError, UsageError
from models import processes, tuning
from models.settings import ModelSettings
from models.tuning import apply, search, space_of, worth
from tests.models.planted import LABELS, SETTINGS, failures_at, predictions_of, windows_of

# Optuna leaves its pool of connections to the collector, and warns of what it calls experimental
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning"),
]
BASE = ModelSettings(names=("lightgbm",))
WINDOWS = windows_of(4, 4.0)
FAILURES = failures_at(("node01", "2026-01-03T10:00"))
LENGTH = 20 * 60_000_000_000


def steps(settings: ModelSettings) -> Iterator[float]:
    """Best at persistence 3."""
    for _ in range(3):
        yield -abs(settings.persistence - 3.0)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Optuna's tables, made once: seconds each time."""
    path = tmp_path_factory.mktemp("made") / "below" / "optuna.db"
    search("other", f"sqlite:///{path}", 1, steps, BASE, deadline=0.0)
    return path


@pytest.fixture
def storage(database: Path, tmp_path: Path) -> str:
    shutil.copy(database, tmp_path / "optuna.db")
    return f"sqlite:///{tmp_path}/optuna.db"


def test_the_best_settings_are_found(storage: str) -> None:
    found = search("s", storage, 4, steps, BASE)
    assert found.worth == max(trial.worth or -9.0 for trial in found.trials)
    assert found.worth == -abs(found.best["persistence"] - 3.0)


def test_a_search_that_is_done_is_not_done_again(storage: str) -> None:
    first = search("s", storage, 3, steps, BASE)

    def never(_: ModelSettings) -> Iterator[float]:
        raise AssertionError

    assert search("s", storage, 3, never, BASE).best == first.best


def test_a_search_goes_on_where_it_was(storage: str) -> None:
    search("s", storage, 2, steps, BASE)
    assert [trial.number for trial in search("s", storage, 3, steps, BASE).trials] == [0, 1, 2]


def test_the_same_seed_asks_the_same(storage: str) -> None:
    asked = [search(name, storage, 3, steps, BASE).trials for name in "ab"]
    assert [trial.values for trial in asked[0]] == [trial.values for trial in asked[1]]


def test_no_time_left_is_no_trial(storage: str) -> None:
    assert search("s", storage, 3, steps, BASE, deadline=0.0).best == {}


def test_a_hopeless_trial_is_cut_short(storage: str) -> None:
    def falling(settings: ModelSettings) -> Iterator[float]:
        for _ in range(3):
            yield float(settings.persistence)

    states = {trial.state for trial in search("s", storage, 8, falling, BASE).trials}
    assert states == {"complete", "pruned"}


KILLED = """
import os, signal, sys
from models.settings import ModelSettings
from models.tuning import search
def steps(settings):
    yield 0.0
    os.kill(os.getpid(), signal.SIGKILL)
search("s", sys.argv[1], 3, steps, ModelSettings(names=("lightgbm",)))
"""


def test_a_killed_trial_is_failed_not_counted_and_done_again(storage: str) -> None:
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", KILLED, storage], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL
    left = optuna.load_study(study_name="s", storage=storage)
    assert [trial.state.name for trial in left.trials] == ["RUNNING"]
    found = search("s", storage, 1, steps, BASE)
    assert [trial.state for trial in found.trials] == ["fail", "complete"]


def test_a_trial_of_a_process_that_runs_is_left_alone(storage: str) -> None:
    search("s", storage, 1, steps, BASE)
    study = optuna.load_study(study_name="s", storage=storage)
    study.ask().set_user_attr(tuning.PROCESS, processes.this())
    assert tuning.bury(study) == 0


def test_two_trials_have_pictures(storage: str) -> None:
    pictures = search("s", storage, 2, steps, BASE, draw=True).pictures
    assert {"optimization_history.png", "slice.png"} <= pictures.keys()
    assert pictures["slice.png"].startswith(b"\x89PNG")


def test_a_storage_that_is_no_address_says_how_to_write_one() -> None:
    with pytest.raises(UsageError, match="sqlite:///FILE"):
        search("s", "optuna.db", 1, steps, BASE)


def test_a_database_that_can_not_be_opened_is_an_upstream_error(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    with pytest.raises(UpstreamError, match="Optuna's storage"):
        search("s", f"sqlite:///{tmp_path}/x.db", 1, steps, BASE)


def test_a_model_s_knobs_are_searched_only_for_that_model() -> None:
    assert {knob.name for knob in space_of(("pu",))} == {"persistence", "pu.rounds"}


def test_found_values_reach_the_settings() -> None:
    found = apply(BASE, {"persistence": 2, "lightgbm.leaves": 5})
    assert found.persistence == 2
    assert found.options == {"lightgbm": {"leaves": 5}}


def planted(warning: float, false: float) -> float:
    """Worth of a score that is ``warning`` once before the failure and ``false`` in five hours elsewhere."""
    ends, node = WINDOWS["end"], WINDOWS["node"]
    score = (ends == "2026-01-03T09:30Z") & (node == "node01")
    hours = ends.isin([pd.Timestamp(f"2026-01-02T{hour:02d}:00Z") for hour in range(5)]) & (node == "node00")
    frame = predictions_of(WINDOWS, score * warning + hours * false)
    (found,) = worth(frame, FAILURES, LENGTH, 5.0, LABELS, SETTINGS)
    return found


def test_a_warning_above_all_else_is_worth_everything() -> None:
    assert planted(0.9, 0.1) == 1.0


def test_a_warning_that_costs_the_budget_is_worth_a_half() -> None:
    cost = 1.0 / SETTINGS.budget_per_day  # five false alarms in five days
    assert planted(0.5, 0.9) == pytest.approx(1 / (1 + cost))


def test_no_warning_is_worth_nothing() -> None:
    assert planted(0.0, 0.5) == 0.0
