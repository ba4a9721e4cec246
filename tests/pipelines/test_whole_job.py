"""The job as operators run it: a real Prometheus, a real journal, real outlets; killed at every point, and healed."""

import json
import shutil
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import httpx
import pandas as pd
import pytest

from features.tables import LOGS, SESSIONS, Panel, Series, conform, to_time
from pipelines import log_sources
from pipelines.asking import Source
from pipelines.config import Config
from pipelines.score import Outlets, score
from pipelines.store import frame_bytes
from tests import small_cluster
from tests.conftest import ROOT
from tests.pipelines.clusters import journal_folder, serving
from tests.pipelines.job import Job, Points, Receiver, die, frozen, in_child
from tests.pipelines.servers import server
from tests.pipelines.tiny import World

pytestmark = [
    pytest.mark.server,
    pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning"),
]
STRIDE = 300_000_000_000
KILLED = -signal.SIGKILL


class Site(NamedTuple):
    """A running Prometheus, journals, and the end of the window in which n1 shows a code and n4 logs one."""

    url: str
    logs: Path
    journal: Path
    end: int

    @property
    def at(self) -> pd.Timestamp:
        return to_time(self.end)


def settings(world: World) -> Config:
    """Of five nodes two are not the fleet."""
    scoring = world.config.scoring.model_copy(update={"fleet_share": 1.0})
    return world.config.model_copy(update={"scoring": scoring})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The small cluster, moved to the present: its second hour ends now."""
    end = time.time_ns() // STRIDE * STRIDE
    moved = end - (small_cluster.START + 24 * STRIDE)

    def panel(node: str) -> Panel:
        whole = small_cluster.panel(node)
        if node == "n1":
            row = whole.series.index(Series("DCGM_FI_DEV_XID_ERRORS", "GPU-n1a"))
            whole.values[row, whole.times + moved >= end - 200 * 10**9] = 79.0
        return replace(whole, times=whole.times + moved)

    lines = small_cluster.logs()
    lines["time"] += pd.Timedelta(moved, "ns")
    said = "NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name=x, An uncorrectable double bit error (DBE) has been detected"
    xid = {"node": "n4", "time": to_time(end - 150 * 10**9), "source": "kernel", "kernel": True, "count": 1}
    lines = conform(pd.concat([lines, pd.DataFrame([{**xid, "severity": "err", "message": said}])]), LOGS)
    folder = tmp_path_factory.mktemp("site")
    with serving(folder, panel, lines) as cluster:
        yield Site(cluster.url, cluster.logs, journal_folder(folder / "journal", lines), end)


def told(report: dict[str, Any]) -> dict[str, str]:
    """Of each node in alarm its first reason."""
    return {row["node"]: row["reasons"][0]["text"] for row in report["scores"] if row["alarm"]}


@pytest.mark.parametrize("kind", ["file", "journal"])
def test_a_code_on_a_gauge_and_one_in_a_log_page_by_rule(world: World, site: Site, tmp_path: Path, kind: str) -> None:
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    arguments = ("--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=")
    source = Source(prometheus=site.url, logs=(site.logs if kind == "file" else site.journal,))
    with server("prometheus-alertmanager", tmp_path, *arguments) as url:
        outlets = Outlets(alertmanager=url, send=True)
        how: dict[str, Any] = {"at": site.at, "bundle_dir": world.bundle, "outlets": outlets}
        for _ in range(2):
            report = score(source, settings(world), out=tmp_path / "out", **how)
        held = {item["labels"]["node"]: item for item in httpx.get(f"{url}/api/v2/alerts").json()}
    assert told(report)["n1"].startswith("a failure has begun: XID 79")
    assert told(report)["n4"].startswith("a failure has begun: XID 48")
    assert held.keys() == told(report).keys()
    assert held["n1"]["startsAt"].startswith(site.at.isoformat()[:19])
    assert "XID 79" in held["n1"]["annotations"]["description"]


def test_every_panel_of_the_dashboard_shows_something(world: World, site: Site, tmp_path: Path) -> None:
    config = {"scrape_interval": "1s", "honor_labels": True}
    with server("prometheus-pushgateway", tmp_path) as gateway:
        report = score(
            Source(prometheus=site.url, logs=(site.logs,)), settings(world), out=tmp_path / "out", at=site.at,
            bundle_dir=world.bundle, outlets=Outlets(pushgateway=gateway),
        )  # fmt: skip
        assert told(report)
        job = {"job_name": "p", "static_configs": [{"targets": [gateway.removeprefix("http://")]}], **config}
        (tmp_path / "p.yml").write_text(json.dumps({"scrape_configs": [job]}))
        with server("prometheus", tmp_path, "--config.file=p.yml", "--storage.tsdb.path=data") as url:
            allowed = {"foreshock_input_rejected"}  # nothing of this input is left out, so there is no reason to show
            empty, until = silent(url), time.monotonic() + 30
            while not empty <= allowed and time.monotonic() < until:
                time.sleep(0.5)
                empty = silent(url)
    assert empty <= allowed


def silent(url: str) -> set[str]:
    """Expressions of the dashboard that this Prometheus has no answer to."""
    board = json.loads((ROOT / "deploy" / "grafana" / "foreshock.json").read_text())
    wanted = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    wanted += [item["expr"] for item in board["annotations"]["list"]]
    found = set()
    for expr in wanted:
        answer = httpx.get(f"{url}/api/v1/query", params={"query": expr.replace("$node", ".*")}).json()
        assert answer["status"] == "success", answer
        if not answer["data"]["result"]:
            found.add(expr)
    return found


class Whole(Job):
    """The job with its own models, samples and lines; its pages go to a receiver that can be looked into."""

    def __init__(self, source: Source, world: World, out: Path, receiver: Receiver, end: int) -> None:
        super().__init__(frozen(), out, receiver)
        self.source, self.world, self.end = source, world, end

    def run(self, number: int = 0, *_: Any, **__: Any) -> dict[str, Any]:
        to = self.receiver.url
        outlets = Outlets(self.out / "textfile" / "f.prom", to, to, send=True)
        at = to_time(self.end + number * STRIDE)
        clock = mock.patch("pipelines.score.now_ns", return_value=self.end + 20 * 10**9)
        with clock:
            return score(
                self.source, settings(self.world), out=self.out, at=at, bundle_dir=self.world.bundle, outlets=outlets
            )


class Reaching(Points):
    """Points of the pull and of the journal as well."""

    def wrap(self, stack: ExitStack) -> None:
        stream, run = httpx.Client.stream, log_sources.subprocess.run  # type: ignore[attr-defined]  # the module's own import
        stack.enter_context(mock.patch.object(httpx.Client, "stream", self.around("pull", stream)))
        stack.enter_context(mock.patch("subprocess.run", self.around("journalctl", run)))


def sources_of(site: Site, world: World, folder: Path, kind: str) -> tuple[Source, int]:
    if kind == "server and journal":
        return Source(prometheus=site.url, logs=(site.journal,)), site.end
    shutil.copytree(world.store, folder / "store")
    begun = to_time(small_cluster.START)
    row = {"job": "j", "attempt": 1, "started": begun, "ended": begun, "outcome": "failed", "nodes": ["n1", "n2"]}
    content = frame_bytes(conform(pd.DataFrame([{**row, "excluded": []}]), SESSIONS))
    (folder / "store" / "sessions.parquet").write_bytes(content)
    return Source(store=folder / "store"), small_cluster.START + 25 * STRIDE


def killed_at(site: Site, world: World, tmp_path: Path, kind: str, every: int) -> Counter[str]:
    """Kill runs at points and run once more; how many at each kind of point."""
    source, end = sources_of(site, world, tmp_path, kind)
    with Receiver().running() as receiver:
        first = Whole(source, world, tmp_path / "first", receiver, end)
        first.run(-1)
        held = dict(receiver.alerts)

        def again(name: str) -> Whole:
            receiver.alerts = dict(held)
            shutil.copytree(first.out, tmp_path / name)
            return Whole(source, world, tmp_path / name, receiver, end)

        passed, whole = Reaching(lambda *_: None), again("whole")
        with passed.installed():
            whole.run()
        wanted, seen = whole.left(), Counter[str]()
        for stop in range(1, len(passed.names) + 1, every):
            job = again(str(stop))

            def work(job: Whole = job, stop: int = stop) -> None:
                with Reaching(lambda count, _: die() if count == stop else None).installed():
                    job.run()

            assert in_child(work) == KILLED, passed.names[stop - 1]
            job.run()
            assert job.left() == wanted, passed.names[stop - 1]
            seen[passed.names[stop - 1]] += 1
    return seen


@pytest.mark.parametrize("kind", ["server and journal", "store with sessions"])
def test_a_whole_run_killed_is_healed_by_the_next(world: World, site: Site, tmp_path: Path, kind: str) -> None:
    assert killed_at(site, world, tmp_path, kind, every=23).total() >= 2


@pytest.mark.reliability
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", ["server and journal", "store with sessions"])
def test_a_whole_run_killed_at_every_point_is_healed(world: World, site: Site, tmp_path: Path, kind: str) -> None:
    seen = killed_at(site, world, tmp_path, kind, every=1)
    print(f"\n{kind}: killed at {seen.total()} points: {dict(seen)}")  # noqa: T201  # the figure is what the long run is for
    assert ("before pull" in seen) == (kind == "server and journal")
