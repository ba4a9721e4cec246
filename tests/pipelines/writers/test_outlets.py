"""What leaves foreshock: files, pushes and pages, against the real servers where they are installed."""

import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from features.tables import ForeshockError, UpstreamError
from pipelines.writers import alertmanager, jsonlines, post, pushgateway, textfile
from tests.pipelines.servers import server

MINUTE = 60_000_000_000


def row(node: str, score: float | None, status: str = "ok") -> dict[str, Any]:
    return {
        "node": node,
        "score": score,
        "probability": None if score is None else score / 4,
        "alarm": score is not None and score >= 1,
        "suspect_gpu": "GPU-7",
        "status": status,
        "missing_ratio": 0.0,
        "reasons": [],
    }


def alert(node: str = "n1", state: str = "firing", text: str = "hot", **more: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"alert": "x", "node": node, "gpu": "GPU-7", "start": "2026-01-01T00:00:00Z", "state": state}
    said |= {"end": "2026-01-01T00:30:00Z", "score": 1.5, "silenced": False, "reasons": [{"text": text}]}
    return said | more


def report(*rows: dict[str, Any], alerts: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {
        "window_end": "2026-01-01T00:20:00Z",
        "model": "models:/foreshock/1",
        "digest": "d" * 64,
        "horizon": "60m",
        "scores": list(rows),
        "alerts": list(alerts),
        "suspect": False,
        "drift": {"unknown_templates_ratio": 0.1},
        "rejected": {"no time": 3},
        "finished_seconds": 1767226805.0,
        "duration_seconds": 2.5,
    }


def samples(text: bytes) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(text.decode()):
        for sample in family.samples:
            assert sample.timestamp is None
            found[(sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items())))] = sample.value
    return found


def test_a_window_is_one_file_and_twice_the_same_file(tmp_path: Path) -> None:
    path = jsonlines.write(tmp_path, "20260101T002000Z", [row("n1", 1.5), row("n2", None, "down")])
    first = path.read_bytes()
    jsonlines.write(tmp_path, "20260101T002000Z", [row("n1", 1.5), row("n2", None, "down")])
    assert path.read_bytes() == first
    assert [orjson.loads(line)["score"] for line in first.splitlines()] == [1.5, None]
    assert [item.name for item in tmp_path.iterdir()] == ["20260101T002000Z.jsonl"]


def test_a_folder_that_refuses_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "scores").write_text("a file where the folder should be")
    with pytest.raises(ForeshockError, match="can't be written"):
        jsonlines.write(tmp_path / "scores", "x", [])


def test_the_textfile_says_score_probability_and_status_of_each_node() -> None:
    found = samples(textfile.exposition(report(row("n1", 1.5), row("n2", 0.2))))
    assert found["foreshock_score_ratio", "Hostname=n1", "horizon=60m"] == 1.5
    assert found["foreshock_failure_probability_ratio", "Hostname=n1", "horizon=60m"] == 0.375
    assert found["foreshock_alarm", "Hostname=n1", "UUID=GPU-7"] == 1
    assert found["foreshock_alarm", "Hostname=n2", "UUID="] == 0
    assert found["foreshock_input_rejected", "reason=no time"] == 3
    assert found["foreshock_window_end_timestamp_seconds",] == 1767226800


def test_a_stale_node_has_a_status_and_no_score() -> None:
    found = samples(textfile.exposition(report(row("n1", None, "stale"))))
    assert found["foreshock_node_status", "Hostname=n1", "status=stale"] == 1
    assert found["foreshock_node_status", "Hostname=n1", "status=ok"] == 0
    assert not [key for key in found if key[0] == "foreshock_score_ratio"]


def test_an_open_alert_is_active_until_it_is_over_and_not_while_its_node_is_acknowledged() -> None:
    told = (alert("n1"), alert("n2", silenced=True), alert("n3", state="resolved"))
    found = samples(textfile.exposition(report(*(row(node, 1.5) for node in ("n1", "n2", "n3")), alerts=told)))
    active = {key[1:]: value for key, value in found.items() if key[0] == "foreshock_alert_active"}
    assert active == {("Hostname=n1", "UUID=GPU-7"): 1.0, ("Hostname=n2", "UUID=GPU-7"): 0.0}


def test_a_hostile_node_name_stays_one_label() -> None:
    name = 'n1"} 1\nevil{x="\\'
    found = samples(textfile.exposition(report(row(name, 1.5))))
    assert found["foreshock_alarm", f"Hostname={name}", "UUID=GPU-7"] == 1
    assert not [key for key in found if key[0] == "evil"]


def test_the_same_report_is_the_same_textfile(tmp_path: Path) -> None:
    textfile.write(tmp_path / "a.prom", report(row("n1", 1.5)))
    textfile.write(tmp_path / "b.prom", report(row("n1", 1.5)))
    assert (tmp_path / "a.prom").read_bytes() == (tmp_path / "b.prom").read_bytes()


def test_an_alert_s_labels_hold_no_score_time_or_run() -> None:
    said = alertmanager.payload([alert()], 0, 5 * MINUTE)[0]["labels"]
    assert said == {"alertname": "ForeshockNodeAtRisk", "severity": "warning", "node": "n1", "UUID": "GPU-7"}


def test_a_firing_alert_ends_four_strides_on_and_a_resolved_one_in_the_past() -> None:
    end = 1_767_226_800_000_000_000
    firing, over = alertmanager.payload([alert(), alert(state="resolved", end="2026-01-01T00:10:00Z")], end, 5 * MINUTE)
    assert firing["endsAt"] == "2026-01-01T00:40:00Z"
    assert over["endsAt"] == "2026-01-01T00:10:00Z"


def test_a_fleet_alert_names_no_node() -> None:
    said = alertmanager.payload([alert(node="", gpu="")], 0, 5 * MINUTE)[0]["labels"]
    assert said == {"alertname": "ForeshockModelSuspect", "severity": "warning"}


def test_markup_and_control_characters_reach_no_pager() -> None:
    said = alertmanager.payload([alert(text="<!channel> \x1b[2J" + "x" * 2000)], 0, MINUTE)[0]["annotations"]
    assert said["description"].startswith("&lt;!channel&gt; \\x1b[2Jxxx")
    assert len(said["description"]) == 1000


def test_an_outlet_that_is_down_is_tried_three_times_without_showing_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    with pytest.raises(UpstreamError, match="Pushgateway") as caught:
        pushgateway.push("http://me:canary@127.0.0.1:9", report())
    assert pauses == [0.5, 1.0]
    assert "canary" not in str(caught.value)


@pytest.mark.server
def test_a_pushgateway_shows_what_was_pushed_and_forgets_a_node_that_is_gone(tmp_path: Path) -> None:
    with server("prometheus-pushgateway", tmp_path) as url:
        pushgateway.push(url, report(row("n1", 1.5), row("n2", 0.5)))
        pushgateway.push(url, report(row("n1", 1.25)))
        text = httpx.get(f"{url}/metrics").text
    ours = [line for line in text.splitlines() if line.startswith("foreshock_score_ratio")]
    assert ours == ['foreshock_score_ratio{Hostname="n1",horizon="60m",instance="",job="foreshock"} 1.25']


@pytest.mark.server
def test_alertmanager_holds_one_alert_however_often_it_is_sent_and_resolves_it(tmp_path: Path) -> None:
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    now = time.time_ns() // MINUTE * MINUTE
    started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now // 10**9 - 600))
    over = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now // 10**9 - 300))
    arguments = ("--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=")
    with server("prometheus-alertmanager", tmp_path, *arguments) as url:
        for score in (1.5, 1.6):
            alertmanager.send(url, [alert(start=started, score=score)], now, 5 * MINUTE)
        held = httpx.get(f"{url}/api/v2/alerts").json()
        assert [item["labels"]["node"] for item in held] == ["n1"]
        assert held[0]["annotations"]["description"] == "hot"
        alertmanager.send(url, [alert(start=started, end=over, state="resolved")], now, 5 * MINUTE)
        assert httpx.get(f"{url}/api/v2/alerts").json() == []


@pytest.mark.server
def test_what_alertmanager_refuses_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "am.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    arguments = ("--config.file=am.yml", "--storage.path=data", "--cluster.listen-address=")
    with (
        server("prometheus-alertmanager", tmp_path, *arguments) as url,
        pytest.raises(UpstreamError, match=r"Alertmanager at .* did not take it: 422"),
    ):
        post.deliver("Alertmanager", "POST", f"{url}/api/v2/alerts", b"[{}]", "application/json")
