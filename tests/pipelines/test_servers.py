"""What is tracked shows in a real MLflow UI in a real browser, and goes through a server on PostgreSQL."""

import importlib.util
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from features.tables import UpstreamError
from models import registry, tracked, tuning
from models.settings import ModelSettings
from models.tracking import Tracker
from pipelines import report
from pipelines.config import Config, TrackingSettings
from tests.pipelines.reported import trained

pytestmark = [
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # MLflow leaves its pools to the collector
    pytest.mark.timeout(600),
]
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next((path for name in _BROWSERS if (path := shutil.which(name))), "")
POSTGRES = max(map(str, Path("/usr/lib/postgresql").glob("*/bin")), default="")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
needs_browser = pytest.mark.skipif(not CHROMIUM, reason="no Chromium on this machine")


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@contextmanager
def running(command: list[str], address: str, folder: Path, **environment: str) -> Iterator[str]:
    """A server below a process group of its own, ready to answer."""
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **environment}, cwd=folder, start_new_session=True
        )
        try:
            until = time.monotonic() + 240
            while True:
                with suppress(urllib.error.URLError, ConnectionError, TimeoutError):
                    urllib.request.urlopen(f"{address}/health", timeout=5).close()  # noqa: S310  # our own address
                    break
                if server.poll() is not None or time.monotonic() > until:
                    pytest.fail((folder / "server.log").read_text(errors="replace")[-2000:])
                time.sleep(0.5)
            yield address
        finally:
            with suppress(ProcessLookupError):
                os.killpg(server.pid, signal.SIGTERM)
            server.wait(30)


class Site(NamedTuple):
    """A UI and two runs in it."""

    address: str
    runs: tuple[str, str]
    folder: Path

    def page(self, path: str, name: str) -> str:
        """The page's DOM after its scripts ran; a picture of it is kept below the test's folder."""
        common = [CHROMIUM, *FLAGS, "--virtual-time-budget=30000", f"--user-data-dir={self.folder / name}"]
        done = subprocess.run(
            [*common, "--window-size=1500,2400", "--dump-dom", f"{self.address}/#{path}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=200,
        )
        return done.stdout


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("ui")
    uri = f"sqlite:///{folder}/mlflow.db"
    tracker = Tracker(uri, folder / "artifacts")
    runs = trained(tracker, 0), trained(tracker, 1)
    port = free_port()
    command = [sys.executable, "-m", "pipelines.cli", "ui", "--port", str(port), "--tracking-uri", uri]
    with running(command, f"http://127.0.0.1:{port}", folder, PYTHONPATH=os.pathsep.join(sys.path)) as address:
        yield Site(address, runs, folder)


@needs_browser
def test_the_list_of_runs_shows_them_with_their_dataset(site: Site) -> None:
    page = site.page("/experiments/1/runs", "list")
    assert page.count("train s") >= 2
    assert "s (ddddd" in page


@needs_browser
def test_a_run_shows_figures_that_sort_and_what_it_says(site: Site) -> None:
    page = site.page(f"/experiments/1/runs/{site.runs[1]}", "run")
    for words in ("before_at_0.84", "false_alarms_per_day", "lead_minutes_median", "Verdict: signal", "fold 0: f1"):
        assert words in page


@needs_browser
@pytest.mark.parametrize(
    ("file", "words"), [("figures/trade_off.png", "<img"), ("false_alarms.json", "up (maximum) is 1")]
)
def test_a_run_s_pictures_and_tables_show(site: Site, file: str, words: str) -> None:
    page = site.page(f"/experiments/1/runs/{site.runs[1]}/artifacts/{file}", file.replace("/", "-"))
    assert words in page


@needs_browser
def test_two_runs_are_compared(site: Site) -> None:
    both = "%22,%22".join(site.runs)
    page = site.page(f"/compare-runs?runs=%5B%22{both}%22%5D&experiments=%5B%221%22%5D", "compare")
    assert "Comparing 2 Runs" in page
    assert "before_at_0.84" in page


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """The address of a cluster of its own, served below ``folder``."""
    port = free_port()
    # PostgreSQL refuses to run as root
    user: dict[str, Any] = {"user": "nobody", "group": "nogroup"} if os.geteuid() == 0 else {}
    data = folder / "data"
    data.mkdir()
    folder.chmod(0o755)
    if user:
        shutil.chown(data, **user)

    def command(name: str, *arguments: str) -> None:
        subprocess.run(
            [f"{POSTGRES}/{name}", *arguments], check=True, cwd=data, stdout=subprocess.DEVNULL, timeout=200, **user
        )

    command("initdb", "-D", str(data), "-U", "foreshock", "--auth=trust", "--no-sync", "--locale=C", "-E", "UTF8")
    options = f"-p {port} -h 127.0.0.1 -k {data} -F"
    command("pg_ctl", "-D", str(data), "-w", "-t", "120", "-l", str(data / "log"), "-o", options, "start")
    try:
        for name in ("tracking", "searches"):
            command("createdb", "-h", "127.0.0.1", "-p", str(port), "-U", "foreshock", name)
        yield f"postgresql+psycopg2://foreshock@127.0.0.1:{port}"
    finally:
        command("pg_ctl", "-D", str(data), "-m", "immediate", "stop")


@pytest.mark.skipif(not POSTGRES, reason="no PostgreSQL on this machine")
@pytest.mark.skipif(importlib.util.find_spec("psycopg2") is None, reason="no psycopg2; pip install psycopg2-binary")
def test_a_tracking_server_on_postgresql_takes_all_of_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder, base = tmp_path_factory.mktemp("server"), Path("/tmp") / f"foreshock-pg-{os.getpid()}"  # noqa: S108  # its server can't enter pytest's folder
    base.mkdir()
    port = free_port()
    try:
        with postgres(base) as database:
            command = [
                sys.executable,
                "-m",
                "mlflow",
                "server",
                "--backend-store-uri",
                f"{database}/tracking",
                "--workers",
                "1",
            ]
            command += ["--artifacts-destination", str(folder / "kept"), "--host", "127.0.0.1", "--port", str(port)]
            quiet = {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false", "MLFLOW_DISABLE_TELEMETRY": "true"}
            with running(command, f"http://127.0.0.1:{port}", folder, **quiet) as address:
                _walk(address, folder)
            searches = f"{database}/searches"
            found = tuning.search("s", searches, 2, lambda _: iter([0.5]), ModelSettings(names=("pu",)))
            assert len(found.trials) == 2
            with pytest.raises(UpstreamError, match="a database of its own"):
                tuning.search("s", f"{database}/tracking", 1, lambda _: iter([0.5]), ModelSettings())
    finally:
        shutil.rmtree(base)


def _walk(address: str, folder: Path) -> None:
    """Train, compare, promote and report by a server."""
    tracker = Tracker(address)
    first, second = trained(tracker, 0), trained(tracker, 1)
    figures: dict[str, Any] = tracked.run(tracker, second).metrics
    assert figures["before_at_0.84"] == 1.0
    assert json.loads(tracked.fetch(tracker, first, "report.json"))["run_id"] == first
    registry.promote(address, "foreshock", 2)
    assert tracker.find("models:/foreshock@champion").version == "2"
    config = Config(tracking=TrackingSettings(uri=address))
    done = report.report(second, config, folder / "page.html")
    assert done["run_id"] == second
    assert "Verdict: signal" in (folder / "page.html").read_text()
