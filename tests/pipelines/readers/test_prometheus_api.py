import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs

import httpx
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from features.tables import UpstreamError, UsageError
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.live import panels
from pipelines.pulling import Prometheus
from pipelines.readers import prometheus_api
from pipelines.readers.prometheus_api import Server, fetch
from pipelines.readers.tally import Tally
from pipelines.store import Store

SECOND = 1_000_000_000
T0 = 1_767_225_600 * SECOND
Ask = dict[str, str]
SERVER = Server("http://prometheus.test", pause_seconds=0.0)


def answer(*entries: dict[str, object]) -> httpx.Response:
    return httpx.Response(200, json={"status": "success", "data": {"resultType": "matrix", "result": list(entries)}})


def serve(reply: Callable[[Ask], httpx.Response]) -> tuple[httpx.MockTransport, list[Ask]]:
    asked: list[Ask] = []

    def handle(request: httpx.Request) -> httpx.Response:
        query = {name: values[0] for name, values in parse_qs(request.content.decode()).items()}
        asked.append({**query, "path": request.url.path, "tenant": request.headers.get("X-Scope-OrgID", "")})
        return reply(query)

    return httpx.MockTransport(handle), asked


def stepped(query: Ask) -> httpx.Response:
    """What `query_range` gives: a point at each step from start to end, both included."""
    step = float(query["step"])
    count = int((float(query["end"]) - float(query["start"])) / step) + 1
    if count > 11_000:
        return httpx.Response(422, json={"status": "error", "error": "exceeded maximum resolution of 11,000 points"})
    stamps = [float(query["start"]) + step * number for number in range(count)]
    return answer({"metric": {"__name__": "m", "node": "n1"}, "values": [[stamp, "1"] for stamp in stamps]})


def raw(query: Ask) -> httpx.Response:
    """What ``m[range]`` gives: every sample of 15 s in [time - range, time]."""
    end = round(float(query["time"]) * 1000)
    start = end - int(query["query"].split("[")[1].removesuffix("ms]"))
    stamps = range(-(-start // 15_000) * 15_000, end + 1, 15_000)
    return answer({"metric": {"__name__": "m", "node": "n1"}, "values": [[stamp / 1000, "1"] for stamp in stamps]})


def pull(
    reply: Callable[[Ask], httpx.Response], seconds: int, step: int | None = None, server: Server = SERVER
) -> tuple[NDArray[np.int64], Tally, list[Ask]]:
    transport, asked = serve(reply)
    tally = Tally()
    step_ns = None if step is None else step * SECOND
    found = fetch(server, T0, T0 + seconds * SECOND, ["m"], tally, step_ns=step_ns, transport=transport)
    times = np.concatenate([chunk.times for chunk in found] or [np.empty(0, dtype=np.int64)])
    return times, tally, asked


def test_a_week_of_steps_is_asked_for_in_pieces_and_every_point_comes_once() -> None:
    times, tally, asked = pull(stepped, 7 * 86_400 + 15, step=15)
    assert len(asked) == 4
    assert len(times) == len(set(times.tolist())) == 40_321
    assert (times % (15 * SECOND) == 0).all()
    assert tally.read == tally.ok == 40_321


def test_raw_samples_at_the_edges_of_pieces_come_once() -> None:
    times, tally, asked = pull(raw, 3 * 3600)
    assert [ask["path"] for ask in asked] == ["/api/v1/query"] * 3
    np.testing.assert_array_equal(times, T0 + np.arange(720) * 15 * SECOND)
    assert tally.read == tally.ok == 720


@pytest.mark.parametrize("status", [400, 422, 413, 504])
def test_a_server_with_narrower_limits_is_asked_for_less_at_a_time(status: int) -> None:
    def narrow(query: Ask) -> httpx.Response:
        return raw(query) if int(query["query"].split("[")[1][:-3]) < 1_000_000 else httpx.Response(status)

    times, _, _ = pull(narrow, 3600)
    np.testing.assert_array_equal(times, T0 + np.arange(240) * 15 * SECOND)


def test_a_server_that_refuses_everything_is_named() -> None:
    with pytest.raises(UpstreamError, match="refuses even 60s"):
        pull(lambda _: httpx.Response(422, json={"status": "error", "error": "too many samples"}), 3600)


def test_a_busy_server_is_asked_again() -> None:
    replies = iter([httpx.Response(503), httpx.Response(429)])
    times, _, asked = pull(lambda query: next(replies, None) or raw(query), 60)
    assert (len(times), len(asked)) == (4, 3)


def test_a_server_that_stays_away_is_named_after_the_last_try() -> None:
    def away(_: Ask) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with pytest.raises(UpstreamError, match=r"prometheus.test can't be reached: refused, 4 times"):
        pull(away, 60)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (httpx.Response(401, text="who are you"), "answers 401"),
        (httpx.Response(200, text="<html>"), "not a Prometheus API answer"),
        (httpx.Response(200, json={"status": "success", "data": {}}), "no result list"),
        (httpx.Response(400, json={"status": "error", "error": "1:2: parse error: x"}), "parse error"),
    ],
)
def test_an_answer_that_is_none_is_told(reply: httpx.Response, said: str) -> None:
    with pytest.raises(UpstreamError, match=said):
        pull(lambda _: reply, 60)


def test_a_tenants_header_goes_with_every_request() -> None:
    _, _, asked = pull(raw, 7200, server=Server("http://prometheus.test", {"X-Scope-OrgID": "team"}))
    assert [ask["tenant"] for ask in asked] == ["team", "team"]


def test_without_a_selector_everything_is_asked_for() -> None:
    transport, asked = serve(raw)
    assert len(list(fetch(SERVER, T0, T0 + 60 * SECOND, [], Tally(), transport=transport))) == 1
    assert asked[0]["query"].startswith('{__name__=~".+"}[')


def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def history() -> list[str]:
    """An hour of two GPUs at 15 s; one vanishes in the middle."""
    lines = ["# TYPE temperature gauge"]
    for gpu in ("GPU-a", "GPU-b"):
        for number in range(240 if gpu == "GPU-a" else 121):
            stamp = T0 / SECOND + 15 * number + 0.125
            lines.append(f'temperature{{Hostname="n1",UUID="{gpu}"}} {40 + number % 7 + 0.1} {stamp:.3f}')
    return [*lines, "# EOF", ""]


@pytest.fixture
def prometheus(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """A real server that holds `history`, and the page it was loaded from."""
    server, tool = shutil.which("prometheus"), shutil.which("promtool")
    if not server or not tool:
        pytest.skip("prometheus and promtool are not on this machine")
    page = tmp_path / "page"
    page.write_text("\n".join(history()))
    data = tmp_path / "data"
    subprocess.run([tool, "tsdb", "create-blocks-from", "openmetrics", str(page), str(data)], check=True, stdout=-3)
    (tmp_path / "prometheus.yml").write_text("{}\n")
    address = f"127.0.0.1:{port()}"
    process = subprocess.Popen(
        [
            server,
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={data}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={address}",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"http://{address}/-/ready", timeout=1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://{address}", page
    finally:
        process.terminate()
        process.wait()


@pytest.mark.server
def test_a_real_server_gives_the_panel_of_the_file_it_was_loaded_from(
    tmp_path: Path, prometheus: tuple[str, Path]
) -> None:
    url, page = prometheus
    start, end = pd.Timestamp(T0, tz="UTC"), pd.Timestamp(T0, tz="UTC") + pd.Timedelta(hours=1)
    ingest(tmp_path / "file", Config(), metrics=[page])
    report = ingest(tmp_path / "api", Config(), prometheus=Prometheus(url, start, end))
    from_file, from_api = Store.open(tmp_path / "file"), Store.open(tmp_path / "api")
    assert report["inputs"][0]["ok"] == 361
    assert from_api.digest() == from_file.digest()
    again = ingest(tmp_path / "api", Config(), prometheus=Prometheus(url, start, end, ("temperature",)))
    assert (again["samples"], from_api.digest()) == (report["samples"], from_file.digest())


@pytest.mark.server
def test_a_live_window_of_a_real_server_is_bit_equal_to_history(tmp_path: Path, prometheus: tuple[str, Path]) -> None:
    url, page = prometheus
    ingest(tmp_path / "s", Config(), metrics=[page])
    low, high = T0 + 1200 * SECOND, T0 + 2400 * SECOND
    found, gpus = panels(fetch(Server(url), low, high, [], Tally()), Config(), 30 * SECOND, low, high)
    held = Store.open(tmp_path / "s").panel("n1", low, high)
    assert found["n1"].series == held.series
    assert found["n1"].values.tobytes() == held.values.tobytes()
    assert gpus["gpu"].tolist() == ["GPU-a", "GPU-b"]


@pytest.mark.server
def test_a_gpu_that_vanished_is_not_repeated_by_the_servers_look_back(prometheus: tuple[str, Path]) -> None:
    last = {}
    for step in (None, 30):
        tally = Tally()
        step_ns = None if step is None else step * SECOND
        chunks = fetch(Server(prometheus[0]), T0, T0 + 3600 * SECOND, [], tally, step_ns=step_ns)
        last[step] = max(int(chunk.times.max()) for chunk in chunks if chunk.labels["UUID"] == "GPU-b")
    assert last[None] == T0 + 1800 * SECOND + SECOND // 8
    assert last[30] > last[None] + 240 * SECOND


def test_a_server_that_breaks_off_leaves_what_was_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transport, _ = serve(
        lambda query: raw(query) if float(query["time"]) <= T0 / SECOND + 86_400 else httpx.Response(401)
    )

    def over_mock(*args: object, **options: object) -> object:
        return fetch(*args, **options, transport=transport)  # type: ignore[arg-type]  # handed through

    monkeypatch.setattr(prometheus_api, "fetch", over_mock)
    start = pd.Timestamp(T0, tz="UTC")
    asked = Prometheus("http://prometheus.test", start, start + pd.Timedelta(days=2), ("m",))
    with pytest.raises(UpstreamError, match="401"):
        ingest(tmp_path / "s", Config(), prometheus=asked)
    assert Store.open(tmp_path / "s").span() == (T0, T0 + 86_400 * SECOND)


def test_saved_answers_may_be_split_over_lines(tmp_path: Path) -> None:
    path = tmp_path / "answers"
    one = raw({"time": str(T0 / SECOND + 60), "query": "m[60001ms]"}).json()
    path.write_text(json.dumps(one) + "\n" + json.dumps(one, indent=1))
    assert ingest(tmp_path / "s", Config(), metrics=[path])["inputs"][0]["ok"] == 10


def test_an_address_that_is_none_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="prometheus:9090: no address of a server; write one as http://"):
        Server("prometheus:9090")


def test_an_answer_without_end_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus_api, "_MOST_BYTES", 1 << 20)
    transport, asked = serve(lambda _: httpx.Response(200, content=b" " * (2 << 20)))
    with pytest.raises(UpstreamError, match="refuses even 60s at a time \\(more than 1 MiB in one answer\\)"):
        list(fetch(SERVER, T0, T0 + 3600 * SECOND, [], Tally(), transport=transport))
    assert len(asked) > 1  # a shorter range is tried first
