"""A batch job over a small store: its scores, its pages, and the same said over history."""

from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from features.tables import BusyError, InputError, ModelError, UsageError
from models.tracking import Version
from pipelines import score as job
from pipelines.backtest import backtest
from pipelines.score import Outlets, Source, load, score
from pipelines.state import acknowledge, locked
from pipelines.store import Store
from tests import small_cluster
from tests.pipelines.tiny import World

TO = pd.Timestamp("2026-01-02T01:30:00Z")


def test_every_node_gets_a_score_or_a_reason_for_none(world: World, tmp_path: Path) -> None:
    rows = world.score(tmp_path, TO)["scores"]
    assert [row["node"] for row in rows] == list(small_cluster.NODES)
    assert {row["status"] for row in rows if row["score"] is None} <= {"stale", "down"}


def test_a_lost_gpu_is_an_alarm_once_it_is_sure(world: World, tmp_path: Path) -> None:
    rows = world.score(tmp_path, pd.Timestamp("2026-01-02T00:35:00Z"))["scores"]
    (n3,) = [row for row in rows if row["node"] == "n3"]
    assert n3["probability"] == 1.0
    assert n3["alarm"]
    assert n3["reasons"][0]["feature"] == "rule.failure_began"


def test_a_window_scored_twice_is_the_same_window(world: World, tmp_path: Path) -> None:
    first = world.score(tmp_path, TO)
    written = (tmp_path / "scores" / "20260102T013000Z.jsonl").read_bytes()
    again = world.score(tmp_path, TO)
    assert again["scores"] == first["scores"]
    assert (tmp_path / "scores" / "20260102T013000Z.jsonl").read_bytes() == written


def test_a_job_that_remembers_says_what_one_that_reads_the_week_says(world: World, tmp_path: Path) -> None:
    for end in pd.date_range(TO - pd.Timedelta("1h"), TO, freq="20min"):
        remembers = world.score(tmp_path / "old", end)["scores"]
    assert remembers == world.score(tmp_path / "new", TO)["scores"]


def test_a_time_between_two_ends_is_the_window_before_it(world: World, tmp_path: Path) -> None:
    assert world.score(tmp_path, TO - pd.Timedelta("1s"))["window_end"] == "2026-01-02T01:25:00Z"


def test_backtest_says_what_the_job_said_window_by_window(world: World, tmp_path: Path) -> None:
    first = pd.Timestamp("2026-01-01T23:15:00Z")
    ends = pd.date_range(first + pd.Timedelta("5min"), first + pd.Timedelta("130min"), freq="5min")
    reports = [world.score(tmp_path, end) for end in ends]
    told = {alert["alert"]: alert for report in reports for alert in report["alerts"]}
    found = backtest(world.store, world.config, bundle_dir=world.bundle, start=first, end=ends[-1])
    assert found["windows"] == len(ends)
    assert {alert["alert"]: alert for alert in found["alerts"]} == told
    assert len(told) > 1


def test_a_late_run_catches_up_a_few_windows(world: World, tmp_path: Path) -> None:
    world.score(tmp_path, TO - pd.Timedelta("1h"))
    report = world.score(tmp_path, None)
    assert report["caught_up"] == ["2026-01-02T01:20:00Z", "2026-01-02T01:25:00Z"]
    assert report["window_end"] == "2026-01-02T01:30:00Z"


def test_a_window_of_the_past_moves_no_alert(world: World, tmp_path: Path) -> None:
    after = world.score(tmp_path, TO)["alerts"]
    world.score(tmp_path, pd.Timestamp("2026-01-02T00:40:00Z"))
    assert world.score(tmp_path, TO)["alerts"] == after


def test_an_acknowledged_node_pages_no_one_and_is_scored(world: World, tmp_path: Path) -> None:
    world.score(tmp_path, TO - pd.Timedelta("1h"))
    acknowledge(tmp_path, "n3", TO, "a new GPU is on its way")
    report = world.score(tmp_path, pd.Timestamp("2026-01-02T00:35:00Z"))
    assert [alert["silenced"] for alert in report["alerts"] if alert["node"] == "n3"] == [True]
    assert [row["alarm"] for row in report["scores"] if row["node"] == "n3"] == [True]


def test_a_window_to_come_is_refused(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="still to come"):
        world.score(tmp_path, pd.Timestamp.now("UTC") + pd.Timedelta("2h"))


def test_a_clock_that_ran_ahead_and_was_put_right_keeps_no_page_back(world: World, tmp_path: Path) -> None:
    ahead, lost = TO + pd.Timedelta("2h"), pd.Timestamp("2026-01-02T00:35:00Z")
    with mock.patch.object(job, "now_ns", return_value=ahead.value):
        world.score(tmp_path, ahead)
    with mock.patch.object(job, "now_ns", return_value=lost.value):
        report = world.score(tmp_path, lost)
        assert [alert["node"] for alert in report["alerts"]] == ["n3"]
        assert report["scores"] == world.score(tmp_path / "other", lost)["scores"]


def test_two_runs_at_once_are_one(world: World, tmp_path: Path) -> None:
    with locked(tmp_path), pytest.raises(BusyError):
        world.score(tmp_path, TO)


def test_sending_nowhere_is_a_usage_error(world: World, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--alertmanager"):
        world.score(tmp_path, TO, outlets=Outlets(send=True))


def test_without_send_nothing_is_paged(world: World, tmp_path: Path) -> None:
    with mock.patch("pipelines.writers.alertmanager.send") as send:
        world.score(tmp_path, TO, outlets=Outlets(alertmanager="http://127.0.0.1:9"))
    send.assert_not_called()


def test_the_textfile_is_written(world: World, tmp_path: Path) -> None:
    world.score(tmp_path, TO, outlets=Outlets(textfile=tmp_path / "f.prom"))
    assert 'foreshock_score_ratio{Hostname="n1",horizon="1h"}' in (tmp_path / "f.prom").read_text()


def test_another_grid_than_the_model_s_is_refused(world: World, tmp_path: Path) -> None:
    Store.create(tmp_path / "other", 60_000_000_000)
    with pytest.raises(InputError):
        score(Source(store=tmp_path / "other"), world.config, out=tmp_path, at=TO, bundle_dir=world.bundle)


def test_a_bundle_that_is_not_the_registered_one_is_not_opened(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Registry:
        def __init__(self, _: str) -> None: ...

        def find(self, model: str) -> Version:
            return Version(model, "1", str(world.bundle), "0" * 64)

        def download(self, _version: Version, _to: Path) -> Path:
            return world.bundle

    monkeypatch.setattr(job, "Tracker", Registry)
    with pytest.raises(ModelError, match="not the registered bundle"):
        load("models:/foreshock@champion", None, "sqlite:///nowhere.db")
