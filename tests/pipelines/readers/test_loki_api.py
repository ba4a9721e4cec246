"""Lines pulled from a Loki server: all of them, each once, whatever its limits."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pandas as pd
import pytest

from features.tables import LOGS, UpstreamError, check
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.pulling import Loki
from pipelines.readers.context import LogContext
from pipelines.readers.loki_api import fetch
from pipelines.readers.prometheus_api import Server
from pipelines.readers.tally import Tally
from pipelines.store import Store

T0 = pd.Timestamp("2026-01-01T00:00:00Z").value
SECOND = 1_000_000_000
Answer = tuple[int, str]
Line = tuple[int, str, str]  # time, node, text


class Loki5000(ThreadingHTTPServer):
    """A server that speaks ``query_range`` of Loki's documented API over some lines."""

    def __init__(self, lines: list[Line], limit: int, before: Callable[[dict[str, str]], Answer | None]) -> None:
        self.lines, self.limit, self.before = sorted(lines), limit, before
        self.asked: list[dict[str, str]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def answer(self, query: dict[str, str]) -> Answer:
        if found := self.before(query):
            return found
        limit = int(query["limit"])
        if limit > self.limit:
            return 400, f"max entries limit per query exceeded, limit > max_entries_limit ({limit} > {self.limit})"
        inside = [line for line in self.lines if int(query["start"]) <= line[0] < int(query["end"])]
        streams: dict[str, list[list[str]]] = {}
        for time, node, text in inside[:limit]:
            streams.setdefault(node, []).append([str(time), text])
        result = [{"stream": {"node": node, "job": "varlogs"}, "values": values} for node, values in streams.items()]
        return 200, json.dumps({"status": "success", "data": {"resultType": "streams", "result": result}})


class _Handler(BaseHTTPRequestHandler):
    server: Loki5000

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(path.query).items()}
        self.server.asked.append({**query, "tenant": self.headers.get("X-Scope-OrgID", "")})
        code, text = self.server.answer(query) if path.path == "/loki/api/v1/query_range" else (404, "no such page")
        body = text.encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


Start = Callable[..., Loki5000]


@pytest.fixture
def loki() -> Iterator[Start]:
    running: list[Loki5000] = []

    def start(
        lines: list[Line], limit: int = 5000, before: Callable[[dict[str, str]], Answer | None] = lambda _: None
    ) -> Loki5000:
        running.append(Loki5000(lines, limit, before))
        threading.Thread(target=running[-1].serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()


def pulled(server: Loki5000, page: int = 100, headers: dict[str, str] | None = None) -> tuple[pd.DataFrame, Tally]:
    tally = Tally()
    asked = Server(server.url, headers or {}, pause_seconds=0.01)
    found = list(fetch(asked, T0, T0 + 3600 * SECOND, tally, context=LogContext(), page=page))
    frame = check(pd.concat(found, ignore_index=True) if found else LOGS.empty(), LOGS)
    assert tally.read == tally.ok + sum(tally.rejected.values())
    return frame, tally


def test_every_line_comes_once_over_many_pages(loki: Start) -> None:
    lines = [(T0 + place * SECOND, f"n{place % 3}", f"line {place}") for place in range(1050)]
    frame, tally = pulled(loki(lines))
    assert sorted(frame["message"]) == sorted(text for _, _, text in lines)
    assert (tally.read, tally.ok) == (1050, 1050)
    assert sorted(frame["node"].unique()) == ["n0", "n1", "n2"]


def test_lines_of_one_moment_over_the_edge_of_a_page_come_once_and_repeats_are_kept(loki: Start) -> None:
    lines = [(T0 + place // 40 * SECOND, "n1", f"line {place // 2}") for place in range(400)]
    frame, _ = pulled(loki(lines), page=100)
    assert frame["count"].sum() == 400
    assert set(frame["count"]) == {2}


def test_more_lines_of_a_moment_than_a_page_holds_are_told(loki: Start) -> None:
    lines = [(T0, "n1", f"line {place}") for place in range(150)] + [(T0 + SECOND, "n1", "later")]
    frame, tally = pulled(loki(lines), page=100)
    assert "later" in set(frame["message"])
    assert tally.noted["moments with more lines than a page"] == 1
    assert "max_entries_limit_per_query" in tally.hints[0]


def test_a_server_with_a_smaller_page_is_asked_for_less_at_a_time(loki: Start) -> None:
    server = loki([(T0 + place * SECOND, "n1", f"line {place}") for place in range(300)], limit=130)
    assert len(pulled(server, page=400)[0]) == 300


def test_a_server_with_a_shorter_range_is_asked_for_less_at_a_time(loki: Start) -> None:
    def narrow(query: dict[str, str]) -> Answer | None:
        span = int(query["end"]) - int(query["start"])
        return (400, "the query time range exceeds the limit") if span > 600 * SECOND else None

    server = loki([(T0 + place * SECOND, "n1", f"line {place}") for place in range(0, 3600, 30)], before=narrow)
    assert len(pulled(server)[0]) == 120


def test_a_server_that_refuses_everything_is_named(loki: Start) -> None:
    with pytest.raises(UpstreamError, match="refuses even 60s at a time"):
        pulled(loki([], before=lambda _: (422, "too much")))


def test_a_busy_server_is_asked_again(loki: Start) -> None:
    answers = iter([(503, ""), (429, "slow down"), None])
    server = loki([(T0, "n1", "a")], before=lambda _: next(answers))
    assert pulled(server)[0]["message"].tolist() == ["a"]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((401, "no org id"), "answers 401: no org id"),
        ((400, "parse error at line 1"), "answers 400: parse error"),
        ((200, "<html>"), "<html>"),
        ((200, '{"status":"success","data":{"resultType":"matrix","result":[]}}'), "no streams of lines"),
    ],
)
def test_an_answer_that_is_none_is_told(loki: Start, answer: Answer, said: str) -> None:
    with pytest.raises(UpstreamError, match=said):
        pulled(loki([], before=lambda _: answer))


def test_a_tenants_header_goes_with_every_request(loki: Start) -> None:
    server = loki([(T0, "n1", "a")])
    pulled(server, headers={"X-Scope-OrgID": "team"})
    assert {asked["tenant"] for asked in server.asked} == {"team"}


def test_an_ingest_pulls_day_by_day_and_a_second_one_adds_nothing(loki: Start, tmp_path: Path) -> None:
    server = loki([(T0 + hour * 3600 * SECOND, "n1", f"line {hour}") for hour in range(60)])
    asked = Loki(server.url, pd.Timestamp(T0, tz="UTC"), pd.Timestamp(T0 + 3 * 86_400 * SECOND, tz="UTC"))
    for _ in range(2):
        report = ingest(tmp_path / "s", Config(), loki=asked)
    assert (report["log_lines"], report["inputs"][0]["format"]) == (60, "loki-api")
    assert len(Store.open(tmp_path / "s").log_days("n1")) == 3
