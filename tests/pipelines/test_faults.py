"""A Prometheus that misbehaves: one line, the right exit code, nothing committed, and the next run heals."""

import json
import logging
import re
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx
import numpy as np
import pandas as pd
import pytest

from features.tables import ForeshockError, InputError, UpstreamError
from models import bundle
from pipelines.score import Outlets, Source, score
from tests import small_cluster
from tests.pipelines.tiny import World

Reply = Callable[[dict[str, str]], httpx.Response]
TO = pd.Timestamp("2026-01-02T01:30:00Z")
CANARY = "canary-0123456789"
SOURCE = Source(prometheus=f"http://me:{CANARY}@prometheus.test", headers={"Authorization": f"Bearer {CANARY}"})


def entries(query: dict[str, str]) -> list[dict[str, Any]]:
    """What ``{__name__=~"a|b"}[Nms]`` at a time gives of the small cluster."""
    found = re.fullmatch(r'\{__name__=~"(.*)"\}\[(\d+)ms\]', query["query"])
    assert found is not None, query
    wanted, end = set(found[1].split("|")), round(float(query["time"]) * 1000)
    out = []
    for node in small_cluster.NODES:
        panel = small_cluster.panel(node)
        inside = (panel.times // 10**6 > end - int(found[2])) & (panel.times // 10**6 <= end)
        for series, values in zip(panel.series, panel.values, strict=True):
            name, _, more = series.metric.partition("{")
            cells = np.flatnonzero(inside & ~np.isnan(values))
            if name in wanted and len(cells):
                labels = {"__name__": name, "Hostname": node, **dict(re.findall(r'(\w+)="([^"]*)"', more))}
                labels |= {"UUID": series.gpu} if series.gpu else {}
                points = [[int(panel.times[cell]) / 1e9, repr(float(values[cell]))] for cell in cells]
                out.append({"metric": labels, "values": points})
    return out


def asked(request: httpx.Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(request.content.decode()).items()}


def good(query: dict[str, str], **more: object) -> httpx.Response:
    data = {"resultType": "matrix", "result": entries(query)}
    return httpx.Response(200, json={"status": "success", "data": data, **more})


def doubled(query: dict[str, str]) -> httpx.Response:
    data = {"resultType": "matrix", "result": entries(query) * 2}
    return httpx.Response(200, json={"status": "success", "data": data})


def empty(_: dict[str, str]) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": []}})


def slow(_: dict[str, str]) -> httpx.Response:
    raise httpx.ReadTimeout("")


def torn(_: dict[str, str]) -> httpx.Response:
    raise httpx.RemoteProtocolError("peer closed connection without sending complete message body")


def status(code: int) -> Reply:
    return lambda _: httpx.Response(code, json={"status": "error", "errorType": "x", "error": "no"})


FAULTS: dict[str, tuple[Reply, type[ForeshockError]]] = {
    **{f"status {code}": (status(code), UpstreamError) for code in (400, 401, 403, 404, 422, 429, 500, 502, 503, 504)},
    "slow": (slow, UpstreamError),
    "a cut body": (torn, UpstreamError),
    "bad gzip": (
        lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, content=b"\x1f\x8bno"),
        UpstreamError,
    ),
    "cut JSON": (lambda _: httpx.Response(200, content=b'{"status":"success","data":{"resu'), UpstreamError),
    "a page of HTML": (lambda _: httpx.Response(200, content=b"<html>log in</html>"), UpstreamError),
    "an error with status 200": (lambda _: httpx.Response(200, json={"status": "error", "error": "no"}), UpstreamError),
    "no result": (lambda _: httpx.Response(200, json={"status": "success", "data": {}}), UpstreamError),
    "an address that moved": (lambda _: httpx.Response(302, headers={"Location": "/graph"}), UpstreamError),
    "nothing at all": (empty, InputError),
}


class Put:
    """What the server says from now on."""

    reply: Reply = staticmethod(good)


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Put:
    said, real = Put(), httpx.Client

    def handle(request: httpx.Request) -> httpx.Response:
        return said.reply(asked(request))

    def client(**how: Any) -> httpx.Client:
        return real(**{**how, "transport": httpx.MockTransport(handle)})

    monkeypatch.setattr(httpx, "Client", client)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    return said


def run(world: World, out: Path) -> dict[str, Any]:
    return score(SOURCE, world.config, out=out, at=TO, bundle_dir=world.bundle, outlets=Outlets(out / "f.prom"))


@pytest.fixture(scope="module")
def wanted(world: World, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    with pytest.MonkeyPatch.context() as patch:
        real = httpx.Client
        handle = httpx.MockTransport(
            lambda request: good({n: v[0] for n, v in parse_qs(request.content.decode()).items()})
        )
        patch.setattr(httpx, "Client", lambda **how: real(**{**how, "transport": handle}))
        found: list[dict[str, Any]] = run(world, tmp_path_factory.mktemp("undisturbed"))["scores"]
    return found


@pytest.mark.parametrize("fault", FAULTS)
def test_a_server_that_fails_commits_nothing(
    world: World, put: Put, tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    caplog.set_level(logging.DEBUG)
    put.reply, error = FAULTS[fault]
    with pytest.raises(error) as caught:
        run(world, tmp_path)
    assert "\n" not in str(caught.value)
    assert CANARY not in str(caught.value) + caplog.text
    assert not (tmp_path / "scores").exists()
    assert not (tmp_path / "f.prom").exists()
    with sqlite3.connect(tmp_path / "state.db") as database:
        assert database.execute("select count(*) from windows").fetchone() == (0,)
    database.close()


def test_once_the_server_is_back_the_scores_are_an_undisturbed_run_s(
    world: World, put: Put, tmp_path: Path, wanted: list[dict[str, Any]]
) -> None:
    put.reply = status(503)
    with pytest.raises(UpstreamError):
        run(world, tmp_path)
    put.reply = good
    assert run(world, tmp_path)["scores"] == wanted


def test_a_server_that_answers_the_third_time_is_no_error(
    world: World, put: Put, tmp_path: Path, wanted: list[dict[str, Any]]
) -> None:
    tries: list[int] = []

    def reply(query: dict[str, str]) -> httpx.Response:
        tries.append(1)
        return good(query) if len(tries) % 3 == 0 else status(503)(query)

    put.reply = reply
    assert run(world, tmp_path)["scores"] == wanted


@pytest.mark.parametrize("reply", [doubled, lambda query: good(query, warnings=["partial"], infos=["x"])])
def test_doubles_and_warnings_change_no_score(
    world: World, put: Put, tmp_path: Path, wanted: list[dict[str, Any]], reply: Reply
) -> None:
    put.reply = reply
    assert run(world, tmp_path)["scores"] == wanted


def test_a_secret_is_in_no_output(world: World, put: Put, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    put.reply = good
    report = run(world, tmp_path)
    assert CANARY not in json.dumps(report) + caplog.text
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or CANARY.encode() not in path.read_bytes()


@pytest.mark.reliability
@pytest.mark.timeout(1800)
def test_ten_thousand_tampered_bundles_are_refused(world: World, tmp_path: Path) -> None:
    import random  # noqa: PLC0415  # only here
    import shutil  # noqa: PLC0415  # only here

    from features.tables import ModelError  # noqa: PLC0415  # only here

    choose = random.Random(1)  # noqa: S311  # which bytes, no secret
    shutil.copytree(world.bundle, tmp_path / "bundle")
    files = [path for path in sorted((tmp_path / "bundle").rglob("*")) if path.is_file()]
    for number in range(10_100):
        path = choose.choice(files)
        content = path.read_bytes()
        at = choose.randrange(len(content))
        flipped = content[:at] + bytes([content[at] ^ choose.randrange(1, 256)]) + content[at + 1 :]
        path.write_bytes(content[:at] if number >= 10_000 else flipped)
        with pytest.raises(ModelError):
            bundle.read(tmp_path / "bundle")
        path.write_bytes(content)
    assert bundle.read(tmp_path / "bundle").digest == world.digest
    print("\n10,100 tampered bundles refused")  # noqa: T201  # the figure is what the long run is for
