"""From exports to what bound each save: clusters of the study's habits, and stores with something missing."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest

from features.settings import CheckpointSettings
from features.tables import SESSIONS, InputError, Series, conform
from pipelines import analysis, checkpoints_report
from pipelines import checkpoints as verb
from pipelines.checkpoint_limits import overlapping
from pipelines.checkpoints import checkpoints
from pipelines.commands.analyses import describe_checkpoints
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.ingest import ingest
from pipelines.simulate import STUDY, simulate
from pipelines.store import Store, frame_bytes, replace_file

DAY = 20457  # 2026-01-04
STEP = 30_000_000_000
CELLS = 240
NFS = "node_mountstats_nfs_"
MOUNT = 'export="nfs:/c",mountaddr="10.0.0.9",protocol="tcp"'
WRITTEN = f"{NFS}total_write_bytes_total{{{MOUNT}}}"
CONFIG = Config()
Saves = Mapping[str, list[tuple[int, int]]]
Change = Callable[[str, dict[str, Any]], None]


def operation(measure: str) -> str:
    return f'{NFS}operations_{measure}_total{{export="nfs:/c",mountaddr="10.0.0.9",operation="WRITE",protocol="tcp"}}'


def made(path: Path, saves: Saves, change: Change = lambda _node, _rows: None) -> Store:
    """A store of nodes that save in these cells (first, end) at 1 GB/s with every slot full."""
    store = Store.create(path, STEP)
    for node, spans in saves.items():
        busy = np.zeros(CELLS)
        for first, end in spans:
            busy[first:end] = 1.0
        gain = {WRITTEN: 1e9, operation("requests"): 1000, operation("response_time_seconds"): 127}
        gain |= {operation("queue_time_seconds"): 1651, 'node_cpu_seconds_total{cpu="0",mode="idle"}': -0.3}
        gain |= {'node_network_transmit_bytes_total{device="eth0"}': 1e9}
        rows: dict[str, Any] = {
            name: 1e6 + np.cumsum(30 * (rate * busy + (1.0 if rate < 0 else 0.001 * rate * (1 - busy))))
            for name, rate in gain.items()
        }
        rows[f'{NFS}transport_maximum_rpc_slots{{{MOUNT},transport="0"}}'] = np.full(CELLS, 128.0)
        rows["DCGM_FI_DEV_GPU_UTIL"] = 95.0 - 90 * busy
        change(node, rows)
        cells = store.day_cells(node, DAY)
        times = DAY * DAY_NS + np.arange(CELLS) * STEP + 7
        for name, values in rows.items():
            known = ~np.isnan(values)
            gpu = "GPU-a" if name.startswith("DCGM") else ""
            cells.add(Series(name, gpu), times[known], values[known])
        store.merge_day(node, DAY, cells)
    return store


FOUR: Saves = {node: [(20, 26), (120, 126)] for node in "abcd"}


def told(store: Store, config: Config = CONFIG) -> dict[str, Any]:
    return checkpoints(store.path, config, workers=1)


def without(*names: str) -> Change:
    def change(_: str, rows: dict[str, Any]) -> None:
        for name in [name for name in rows if any(part in name for part in names)]:
            del rows[name]

    return change


def limits(result: Mapping[str, Any], *words: str) -> list[str]:
    return [line for line in result["cannot_say"] if all(word in line for word in words)]


def test_a_full_slot_table_is_found_measured_and_told(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", FOUR))
    assert [event["verdict"] for event in result["events"]] == ["rpc-slot-bound"] * 2
    first = result["events"][0]
    assert (first["nodes"], first["duration_seconds"], first["slots_in_use"]) == (4, 180.0, pytest.approx(127))
    assert first["queue_share"] == pytest.approx(1651 / 1778)
    assert first["cpu_share"] == pytest.approx(0.3)
    assert "2 of 2 saves are rpc-slot-bound (16% to 100%)." in result["sentences"]


@pytest.mark.parametrize("days", [1, 4])
def test_an_event_at_midnight_is_one_however_many_days_a_piece_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    monkeypatch.setattr(verb, "_DAYS", days)
    store = Store.create(tmp_path / "s", STEP)
    for day in (DAY, DAY + 1):
        cells = store.day_cells("a", day)
        count = np.arange(2880) + 2880 * (day - DAY)
        values = 1e6 + 30e9 * np.clip(count - 2876, 0, 8)
        cells.add(Series(WRITTEN), day * DAY_NS + np.arange(2880) * STEP, values.astype(float))
        store.merge_day("a", day, cells)
    (event,) = told(store)["events"]
    assert (str(event["start"]), event["duration_seconds"]) == ("2026-01-04 23:58:30+00:00", 240.0)
    assert event["bytes"] == pytest.approx(8 * 30e9)
    assert event["by_node"][0]["bytes_per_second"] == pytest.approx(1e9)


def test_without_the_collector_the_network_stands_in_and_that_is_said(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", FOUR, without(NFS)))
    assert [event["verdict"] for event in result["events"]] == ["unknown"] * 2
    assert result["events"][0]["bytes"] == pytest.approx(4 * 6 * 30e9)
    assert limits(result, "4 of 4 nodes", "no mountstats", "--collector.mountstats")
    assert limits(result, "queue's share", "WRITE")


def test_without_any_counter_of_bytes_nothing_is_found_and_why_is_said(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", FOUR, without(NFS, "network")))
    assert result["events"] == []
    assert limits(result, "saves of 4 of 4 nodes", "neither mountstats nor network counters")
    assert result["sentences"][:2] == ["No save was found.", "No load was found."]


def test_missing_operations_take_the_queue_away_and_leave_the_rest(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", FOUR, without("operations_queue")))
    assert np.isnan(result["events"][0]["queue_share"])
    assert result["events"][0]["slots_in_use"] == pytest.approx(127)
    assert limits(result, "RPC slots bind", "no queue counter of WRITE is exported by a, b, c, d")


def test_a_counter_that_restarts_in_a_save_is_named(tmp_path: Path) -> None:
    def remount(node: str, rows: dict[str, Any]) -> None:
        if node == "b":
            rows[WRITTEN] = np.where(np.arange(CELLS) >= 23, rows[WRITTEN] - rows[WRITTEN][22], rows[WRITTEN])

    result = told(made(tmp_path / "s", FOUR, remount))
    assert limits(result, "all bytes of 1 events", "counters of b began anew")
    assert result["events"][0]["restarts"] == ["b"]
    assert result["events"][0]["bytes"] == pytest.approx(4 * 6 * 30e9, rel=0.01)


def with_sessions(store: Store, *rows: tuple[str, list[str]]) -> Store:
    frame = pd.DataFrame(
        [
            {
                "job": job,
                "attempt": 1,
                "started": pd.Timestamp("2026-01-04T00:00:00Z"),
                "ended": pd.Timestamp("2026-01-05T00:00:00Z"),
                "outcome": "",
                "nodes": nodes,
                "excluded": [],
            }
            for job, nodes in rows
        ]
    )
    replace_file(store.path / "sessions.parquet", frame_bytes(conform(frame, SESSIONS)))
    return store


def test_overlapping_saves_of_two_jobs_are_two_events_and_named(tmp_path: Path) -> None:
    saves = {"a": [(20, 26)], "b": [(20, 26)], "c": [(23, 29)], "d": [(23, 29)]}
    store = made(tmp_path / "s", saves)
    merged = told(store)
    assert len(merged["events"]) == 1
    assert limits(merged, "saves of two jobs at once count as one", "1 look like two", "no sessions")
    apart = told(with_sessions(store, ("x", ["a", "b"]), ("y", ["c", "d"])))
    assert [event["job"] for event in apart["events"]] == ["x", "y"]
    assert limits(apart, "1 pairs of saves", "overlap in time")
    assert not limits(apart, "no sessions")


def test_events_that_follow_one_another_do_not_overlap() -> None:
    hour = pd.Timestamp("2026-01-04T00:00:00Z") + pd.to_timedelta(np.arange(4), unit="h")
    events = [{"event": str(k), "start": hour[k], "end": hour[k + 1]} for k in range(3)]
    assert overlapping(events) == []
    events[0]["end"] = hour[3]
    assert overlapping(events) == [("0", "1"), ("0", "2")]


def test_a_clock_apart_is_named_and_its_node_is_no_straggler(tmp_path: Path) -> None:
    spans = [(20 + 30 * k, 26 + 30 * k) for k in range(6)]
    late = [(first + 3, end + 3) for first, end in spans]
    result = told(made(tmp_path / "s", {"a": spans, "b": spans, "c": spans, "d": late}))
    assert limits(result, "1 nodes are stragglers", "d by +90 s")
    assert {name for event in result["events"] for name in event["stragglers"]} == set()


def test_a_store_without_metrics_is_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mountstats collector"):
        told(Store.create(tmp_path / "s", STEP))


def test_the_result_is_printed_as_tables_and_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from pipelines import cli  # noqa: PLC0415  # the parser is needed here only

    store = made(tmp_path / "s", FOUR)
    with pytest.raises(SystemExit) as ended:
        cli.main(["checkpoints", str(store.path), "--json", "--quiet", "--workers", "1"])
    assert ended.value.code == 0
    printed = json.loads(capsys.readouterr().out)
    assert [event["verdict"] for event in printed["events"]] == ["rpc-slot-bound"] * 2
    text = describe_checkpoints(told(store))
    assert "What can't be said:" in text
    assert "save-20260104T001000Z  180" in text


def test_the_section_of_the_report_holds_figures_verdicts_and_limits(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", FOUR))
    text = checkpoints_report.section(result)
    assert text.count("data:image/png;base64,") == 4
    assert "127 of 128 RPC slots in use" in text
    assert "What cannot be said" in text
    assert checkpoints_report.section(result) == text


def test_a_section_without_events_has_no_figures(tmp_path: Path) -> None:
    text = checkpoints_report.section(told(made(tmp_path / "s", FOUR, without(NFS, "network"))))
    assert "<img" not in text
    assert "No save was found." in text


def test_a_name_that_looks_like_html_is_shown_as_text(tmp_path: Path) -> None:
    store = with_sessions(made(tmp_path / "s", FOUR), ("<b>x</b>", list("abcd")))
    assert "<b>x" not in checkpoints_report.section(told(store))


def test_the_kernels_own_text_taken_twice_tells_what_moved_between(tmp_path: Path, real_data: Path) -> None:
    text = (real_data / "kernel" / "proc_mountstats.txt").read_text()
    later = text.replace(" 1210214218 ", f" {1210214218 + 30 * 10**9} ").replace(
        "READ: 1298 1298 0 207680 1210292152 6 79386", "READ: 31298 31298 0 207680 1210292152 1500006 3719386"
    )
    for content, moment in ((text, "00:00:00"), (later, "00:00:30")):
        path = tmp_path / f"{moment[-2:]}.txt"
        path.write_text(content)
        when = pd.Timestamp(f"2026-01-04T{moment}Z")
        ingest(tmp_path / "s", CONFIG, metrics=[path], node="n1", reference_time=when)
    result = checkpoints(tmp_path / "s", CONFIG, workers=1)
    (event,) = result["events"]
    assert (event["kind"], event["bytes_per_second"]) == ("load", pytest.approx(1e9))
    assert event["slots_in_use"] == pytest.approx(3640 / 30)
    assert event["queue_share"] == pytest.approx(1500 / (1500 + 3640))
    assert limits(result, "1 of 1 loads lasted")
    assert limits(result, "whether GPUs were idle")


def test_a_page_of_node_exporter_alone_says_that_nothing_is_known_to_have_moved(
    tmp_path: Path, real_data: Path
) -> None:
    page = real_data / "exposition" / "node_exporter.metrics"
    ingest(tmp_path / "s", CONFIG, metrics=[page], node="n1", reference_time=pd.Timestamp("2026-01-04T00:00:00Z"))
    result = checkpoints(tmp_path / "s", CONFIG, workers=1)
    assert result["events"] == []
    assert limits(result, "anything of", "(n1)", "two samples")
    assert result["since_mount"]["load"] == {
        "nodes": 1,
        "requests": 2596.0,  # the page has the mount over TCP and over UDP
        "queue_milliseconds": pytest.approx(1000 * 0.006 / 1298),
        "response_milliseconds": pytest.approx(1000 * 79.386 / 1298),
    }
    assert not limits(result, "n1", "neither mountstats")


class Book:
    """Stands where MLflow does and keeps what it is told."""

    run_id = "r1"

    def __init__(self, *told: object) -> None:
        self.told: dict[str, Any] = {"tracker": told}

    def start(self, experiment: str, name: str, **more: object) -> Self:
        self.told |= {"experiment": experiment, "name": name, **more}
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def log(self, **told: object) -> None:
        self.told |= told

    def files(self, content: dict[str, bytes]) -> None:
        self.told["files"] = content

    def table(self, frame: pd.DataFrame, path: str) -> None:
        self.told[path] = frame


def test_a_run_of_its_own_experiment_holds_figures_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = Book()
    monkeypatch.setattr(analysis, "Tracker", lambda *_: book)
    store = made(tmp_path / "s", FOUR)
    assert checkpoints_report.track(told(store), CONFIG, store, "storage", "sqlite:///x.db") == "r1"
    kept = book.told
    assert kept["experiment"] == "storage"
    assert (kept["metrics"]["saves/events"], kept["metrics"]["saves/rpc-slot-bound"]) == (2, 1.0)
    assert kept["params"]["slot_table"] == 128
    assert kept["datasets"][0].digest == store.digest()
    assert {"checkpoints.json", "checkpoints.html", "figures/saves_by_nodes.png"} <= set(kept["files"])
    assert len(kept["events.json"]) == 2


@pytest.fixture(scope="module")
def studies(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[dict[str, Any], Path]]:
    """Results of two small clusters of the study's habits, with 128 RPC slots and without a limit.

    Slots fill in jobs of four nodes and more, as the study's do at 60 and not at two to four.
    """
    out = {}
    for slots in (128, 0):
        folder = tmp_path_factory.mktemp(f"slots{slots}")
        habits = replace(STUDY, rpc_slots=slots, slots_fill_at=4, checkpoint_minutes=(25.0, 35.0))
        simulate(folder / "out", nodes=6, gpus=1, days=0.35, failures=0, metrics=42, seed=8, habits=habits)
        logs = [folder / "out" / "logs"] if slots else []
        metrics, sessions = [folder / "out" / "metrics"], folder / "out" / "sessions.csv"
        ingest(folder / "store", CONFIG, metrics=metrics, logs=logs, sessions=sessions)
        out[slots] = (checkpoints(folder / "store", CONFIG, workers=1), folder / "out")
    return out


Studies = dict[int, tuple[dict[str, Any], Path]]


def test_every_save_that_the_programs_log_is_found_in_the_metrics(studies: Studies) -> None:
    result, _ = studies[128]
    saves = [event for event in result["events"] if event["kind"] == "save"]
    assert result["log"]["unseen"] == {"save": 0, "load": 0}
    assert len(saves) >= 8
    assert all(event["logged_nodes"] == event["nodes"] == event["job_nodes"] for event in saves)


def test_the_study_s_cluster_is_bound_by_its_slots_at_the_study_s_figures(studies: Studies) -> None:
    large = [event for event in studies[128][0]["events"] if event["nodes"] >= 4]
    assert {event["verdict"] for event in large} == {"rpc-slot-bound"}
    queue = np.median([event["queue_share"] for event in large if event["kind"] == "save"])
    assert queue == pytest.approx(0.931, abs=0.01)
    assert np.median([event["slots_in_use"] for event in large]) == pytest.approx(128, rel=0.05)
    assert all(0.014 <= event["link_share"] <= 0.11 for event in large)


def test_a_few_nodes_are_not_bound_by_their_slots_and_the_rate_falls_with_size(studies: Studies) -> None:
    events = studies[128][0]["events"]
    assert {event["verdict"] for event in events if event["nodes"] < 4} == {"unknown"}
    for kind, alone, half in (("save", STUDY.save_rate, STUDY.save_half), ("load", STUDY.load_rate, STUDY.load_half)):
        for nodes in {event["nodes"] for event in events if event["kind"] == kind}:
            rates = [e["node_bytes_per_second"] for e in events if e["kind"] == kind and e["nodes"] == nodes]
            assert np.median(rates) == pytest.approx(alone / (1 + nodes / half), rel=0.12)


def test_without_the_limit_the_verdict_is_another(studies: Studies) -> None:
    result, out = studies[0]
    saves = result["summary"]["saves"]
    assert "rpc-slot-bound" not in saves["verdicts"]
    assert saves["spread"]["queue_share"]["most"] < 0.2
    assert (out / "sessions.csv").read_bytes() == (studies[128][1] / "sessions.csv").read_bytes()


def test_a_storage_of_the_clusters_size_is_then_what_binds(studies: Studies) -> None:
    settings = CheckpointSettings(storage_write_bytes_per_second=250e9 * 6 / 63)
    store = studies[0][1].parent / "store"
    result = checkpoints(store, CONFIG.model_copy(update={"checkpoints": settings}), workers=1)
    large = {event["verdict"] for event in result["events"] if event["kind"] == "save" and event["nodes"] >= 4}
    assert large == {"server-bound"}
