"""A job that is killed, refused or starved is healed by its next run; the long forms are `make reliability`."""

import errno
import gc
import os
import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

import httpx
import pandas as pd
import pytest

from features.tables import BusyError, ForeshockError, UpstreamError, to_time
from pipelines import score as scoring
from pipelines.config import Config
from pipelines.score import Outlets
from pipelines.state import locked
from tests.pipelines.job import SOURCE, Job, Points, Receiver, copy, die, end, frozen, in_child, rows
from tests.pipelines.servers import server

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
KILLED = -signal.SIGKILL
STATES = {"the first window": 0, "an alert opens": 1, "an alert goes on": 2, "an alert is over": 5}


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


def before(receiver: Receiver, folder: Path, number: int) -> tuple[Job, dict[str, dict[str, object]]]:
    """A job that has done all windows before this one, and what the receiver holds then."""
    receiver.alerts.clear()
    job = Job(frozen(), folder, receiver)
    for done in range(number):
        job.run(done)
    return job, dict(receiver.alerts)


def disturbed(job: Job, held: dict[str, dict[str, object]], number: int, to: Path, stop: int) -> tuple[int, object]:
    """The window's run killed at a point, and all that is left after one more run."""
    job.receiver.alerts = dict(held)
    again = copy(job, to)

    def work() -> None:
        with Points(lambda count, _: die() if count == stop else None).installed():
            again.run(number)

    status = in_child(work)
    again.run(number)
    return status, again.left()


def points(job: Job, held: dict[str, dict[str, object]], number: int, to: Path) -> tuple[list[str], object]:
    """The points of an undisturbed run, and what it leaves."""
    job.receiver.alerts = dict(held)
    again = copy(job, to)
    passed = Points(lambda *_: None)
    with passed.installed():
        again.run(number)
    return passed.names, again.left()


def test_a_run_touches_the_world_at_more_than_25_points(receiver: Receiver, tmp_path: Path) -> None:
    job, held = before(receiver, tmp_path / "job", 1)
    names, _ = points(job, held, 1, tmp_path / "run")
    assert len(names) >= 25
    assert {"before rename", "after fsync", "before commit", "after request", "before begin immediate"} <= set(names)


@pytest.mark.parametrize("state", ["an alert opens", "an alert is over"])
def test_a_run_killed_at_a_point_is_healed_by_the_next(receiver: Receiver, tmp_path: Path, state: str) -> None:
    number = STATES[state]
    job, held = before(receiver, tmp_path / "job", number)
    names, wanted = points(job, held, number, tmp_path / "run")
    commits = [at for at, name in enumerate(names, 1) if name.endswith(("commit", "rename", "request"))]
    for stop in commits:
        status, left = disturbed(job, held, number, tmp_path / f"{stop}", stop)
        assert status == KILLED, names[stop - 1]
        assert left == wanted, names[stop - 1]


@pytest.mark.reliability
@pytest.mark.parametrize("state", STATES)
def test_a_run_killed_at_every_point_is_healed_by_the_next(receiver: Receiver, tmp_path: Path, state: str) -> None:
    number = STATES[state]
    job, held = before(receiver, tmp_path / "job", number)
    names, wanted = points(job, held, number, tmp_path / "run")
    for stop in range(1, len(names) + 1):
        status, left = disturbed(job, held, number, tmp_path / f"{stop}", stop)
        assert status == KILLED, names[stop - 1]
        assert left == wanted, names[stop - 1]
    print(f"\n{state}: killed at {len(names)} points")  # noqa: T201  # the figure is what the long run is for


@pytest.mark.reliability
@pytest.mark.timeout(1200)
def test_two_hundred_kills_at_random_times_lose_and_double_nothing(receiver: Receiver, tmp_path: Path) -> None:
    choose = random.Random(5)  # noqa: S311  # which moments, no secret
    job, held = before(receiver, tmp_path / "job", 1)
    began = time.monotonic()
    _, wanted = points(job, held, 1, tmp_path / "run")
    lasts, killed = time.monotonic() - began, 0
    for number in range(200):
        receiver.alerts = dict(held)
        again = copy(job, tmp_path / str(number))
        child = os.fork()
        if child == 0:
            try:
                again.run(1)
            finally:
                os._exit(0)
        time.sleep(choose.uniform(0, lasts))
        os.kill(child, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED
        again.run(1)
        assert again.left() == wanted
    print(f"\n{killed} of 200 runs were killed at work")  # noqa: T201  # the figure is what the long run is for
    assert killed > 50


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_disk_that_refuses_at_any_point_is_one_line_and_healed_later(
    receiver: Receiver, tmp_path: Path, code: int
) -> None:
    job, held = before(receiver, tmp_path / "job", 1)
    names, wanted = points(job, held, 1, tmp_path / "run")
    refused = [at for at, name in enumerate(names, 1) if name in ("before fsync", "before rename", "before commit")]
    for stop in refused:
        receiver.alerts = dict(held)
        again = copy(job, tmp_path / str(stop))

        def refuse(count: int, name: str, stop: int = stop) -> None:
            if count == stop:
                raise sqlite3.OperationalError("disk is full") if "commit" in name else OSError(code, os.strerror(code))

        with Points(refuse).installed(), pytest.raises(ForeshockError, match=r"can't be (written|used)"):
            again.run(1)
        again.run(1)
        assert again.left() == wanted, names[stop - 1]
    assert len(refused) > 5


@pytest.mark.parametrize("limit", [0, 4096, 20_000])
def test_a_full_disk_keeps_what_was_there(receiver: Receiver, tmp_path: Path, limit: int) -> None:
    job, held = before(receiver, tmp_path / "job", 1)
    _, wanted = points(job, held, 1, tmp_path / "run")
    receiver.alerts = dict(held)
    again = copy(job, tmp_path / "full")

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        try:
            again.run(1)
        except ForeshockError:
            os._exit(7)

    assert in_child(work) == 7
    assert [path.name for path in (again.out / "scores").glob("*.jsonl")] == ["20260101T000000Z.jsonl"]
    again.run(1)
    assert again.left() == wanted


def test_a_folder_that_can_t_be_made_is_one_line(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file" / "out", Path("/proc/foreshock")):
        with pytest.raises(ForeshockError, match="can't be written"):
            Job(frozen(), place, receiver).run(1)


def test_an_outlet_that_is_down_gets_the_alert_when_it_is_back(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    receiver.status = 503
    with pytest.raises(UpstreamError, match=r"Alertmanager.*; Pushgateway"):
        job.run(1)
    assert receiver.alerts == {}
    receiver.status = 200
    job.run(2)
    (alert,) = receiver.alerts.values()
    assert alert["startsAt"] == "2026-01-01T00:05:00Z"


def block_textfile(job: Job) -> Path:
    (job.out / "textfile").write_text("a file where the folder should be")
    return job.out / "textfile"


def block_history(job: Job) -> Path:
    (job.out / "history").write_text("a file where the folder should be")
    (job.out / "scores" / "20251230T120000Z.jsonl").write_text('{"node":"n0"}\n')
    return job.out / "history"


def block_scores(job: Job) -> Path:
    place = job.out / "scores" / f"{to_time(end(1)):%Y%m%dT%H%M%SZ}.jsonl"
    place.mkdir()
    return place


@pytest.mark.parametrize("block", [block_textfile, block_history, block_scores])
def test_a_file_that_can_t_be_written_keeps_no_page_back(
    receiver: Receiver, tmp_path: Path, block: Callable[[Job], Path]
) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), tmp_path, receiver)
    (tmp_path / "scores").mkdir()
    place = block(job)
    receiver.pushed = b""
    with pytest.raises(ForeshockError, match="can't be") as caught:
        job.run(1)
    assert str(place) in str(caught.value)
    assert caught.value.exit_code == 1
    assert receiver.firing(end(1)) == ["n0"]
    assert receiver.pushed


def test_a_disk_and_a_server_that_refuse_are_told_together(receiver: Receiver, tmp_path: Path) -> None:
    job = Job(frozen(), tmp_path, receiver)
    block_textfile(job)
    with (
        mock.patch.object(receiver, "status", 503),
        pytest.raises(ForeshockError, match=r"textfile.*Alertmanager.*Pushgateway") as caught,
    ):
        job.run(1)
    assert caught.value.exit_code == 1


def test_an_alert_that_was_over_while_the_outlet_was_down_pages_no_one(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    with mock.patch.object(receiver, "status", 503):
        for number in range(1, 6):
            with pytest.raises(UpstreamError):
                job.run(number)
    job.run(6)
    assert receiver.alerts == {}


def test_a_page_is_resolved_once_the_node_is_calm(receiver: Receiver, tmp_path: Path) -> None:
    before(receiver, tmp_path, 6)
    (alert,) = receiver.alerts.values()
    assert alert["endsAt"] == "2026-01-01T00:25:00Z"


def test_a_page_outlives_three_runs_that_do_not_come(receiver: Receiver, tmp_path: Path) -> None:
    before(receiver, tmp_path, 2)
    (alert,) = receiver.alerts.values()
    assert alert["endsAt"] == "2026-01-01T00:25:20Z"  # the run was at 00:05:20


@pytest.mark.parametrize("late", [21 * 60, 59 * 60])
def test_a_late_run_s_page_fires_until_the_runs_after_it_send_it_again(
    receiver: Receiver, tmp_path: Path, late: int
) -> None:
    job, _ = before(receiver, tmp_path, 1)
    job.run(1, late=late)
    now = end(1) + late * 10**9
    assert receiver.firing(now) == ["n0"]
    assert receiver.firing(now + 3 * 300 * 10**9) == ["n0"]
    assert receiver.firing(now + 4 * 300 * 10**9) == []
    job.run(2, late=late)
    assert receiver.firing(now + 4 * 300 * 10**9) == ["n0"]


@pytest.mark.server
def test_alertmanager_holds_a_late_run_s_page_as_firing(receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    arguments = ("--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=")
    job, late = Job(frozen(), tmp_path / "out", receiver), to_time(time.time_ns()) - pd.Timedelta("40min")
    with server("prometheus-alertmanager", tmp_path, *arguments) as url, job.put_in((1.5,)):
        scoring.score(SOURCE, Config(), out=job.out, at=late, outlets=Outlets(alertmanager=url, send=True))
        held = httpx.get(f"{url}/api/v2/alerts").json()
    assert [item["labels"]["node"] for item in held] == ["n0"]


def test_a_late_run_resolves_a_page_with_its_past_end(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 5)
    job.run(5, late=1500)
    assert receiver.firing(end(5)) == []


def test_a_clock_behind_the_window_s_end_ends_no_page_before_its_time(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    job.run(1, late=-240)
    assert receiver.firing(end(1) + 3 * 300 * 10**9) == ["n0"]


def test_a_late_run_judges_what_it_missed_and_pages_for_the_newest_only(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    report = job.run(5, at=None)
    assert report["caught_up"] == ["2026-01-01T00:15:00Z", "2026-01-01T00:20:00Z"]
    assert receiver.alerts == {}


def test_a_window_older_than_the_horizon_pages_no_one(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    assert job.run(1, late=3700)["alerts"]
    assert receiver.alerts == {}


def test_a_clock_set_back_scores_the_past_and_moves_no_alert(receiver: Receiver, tmp_path: Path) -> None:
    job, held = before(receiver, tmp_path, 3)
    report = job.run(1, at=None)
    assert report["window_end"] == "2026-01-01T00:05:00Z"
    assert receiver.alerts == held
    assert job.run(3, at=None)["caught_up"] == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("moment", ["2026-03-29", "2026-10-25", "2026-12-31", "2024-02-29"])
def test_no_window_is_skipped_or_doubled_whatever_the_local_clock_does(
    receiver: Receiver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zone: str, moment: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        first = (pd.Timestamp(f"{moment}T23:50:00Z").value - end(0)) // 300_000_000_000
        job = Job(frozen(), tmp_path, receiver)
        seen = [job.run(first + step, at=None)["window_end"] for step in range(4)]
    finally:
        monkeypatch.undo()
        time.tzset()
    assert pd.DatetimeIndex(seen).diff()[1:].unique().tolist() == [pd.Timedelta("5min")]


def test_a_second_run_at_the_same_time_does_nothing(receiver: Receiver, tmp_path: Path) -> None:
    job, _ = before(receiver, tmp_path, 1)
    with locked(tmp_path):

        def work() -> None:
            try:
                job.run(1)
            except BusyError as error:
                os._exit(error.exit_code)

        assert in_child(work) == 75
    assert rows(0.1)  # the folder's lock is gone with its holder
    job.run(1)


@pytest.mark.reliability
@pytest.mark.timeout(3600)
def test_a_week_of_runs_grows_nothing(receiver: Receiver, tmp_path: Path) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), tmp_path, receiver)
    story = [1.5 if number % 97 in (5, 6) else 0.1 for number in range(2016)]
    seen = []
    for number in range(2016):
        job.run(number, story)
        if number % 100 == 99:
            gc.collect()
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            seen.append((pages * 4096 / 2**20, sum(1 for _ in Path("/proc/self/fd").iterdir())))
    size = sum(path.stat().st_size for path in tmp_path.glob("state.db*"))
    slope = (seen[-1][0] - seen[4][0]) / (len(seen) - 5)
    said = f"{slope:.3f} MiB a hundred runs, descriptors {seen[4][1]} to {seen[-1][1]}, state {size / 2**20:.1f} MiB"
    print(f"\n2016 runs: {said}")  # noqa: T201  # the figure is what the long run is for
    assert slope < 1
    assert seen[-1][1] <= seen[4][1]
    assert size < 32 << 20
