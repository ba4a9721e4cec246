"""From sessions in a store to what can be said of retries, by the study's own figures and by broken records."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
import pytest

from features.tables import InputError, Series, to_ns
from models.intervals import poisson_rate
from pipelines import analysis, cli, retries_report
from pipelines.config import Config
from pipelines.grid import DAY_NS, Cells
from pipelines.ingest import ingest
from pipelines.retries import retries
from pipelines.simulate import STUDY, run
from pipelines.store import Store

CONFIG = Config()
HEAD = "job,attempt,started,ended,outcome,nodes,excluded"


def line(job: str, attempt: int, start: str, end: str, outcome: str, nodes: str = "n1;n2", excluded: str = "") -> str:
    moments = [f"2026-01-{text}:00Z" if text else "" for text in (start, end)]
    return f"{job},{attempt},{moments[0]},{moments[1]},{outcome},{nodes},{excluded}"


PLAIN = (
    line("a", 1, "01T00:00", "01T06:00", "failed", "n1;n2", "n1"),
    line("a", 2, "01T06:11", "01T06:21", "failed", "n2;n3", "n3"),
    line("a", 3, "01T07:51", "01T20:00", "completed", "n2;n4"),
    line("b", 1, "02T00:00", "02T09:00", "completed", "n1;n3"),
)


def stored(folder: Path, *lines: str, head: str = HEAD, incidents: str = "") -> Store:
    (folder / "sessions.csv").write_text("\n".join([head, *lines]) + "\n")
    given = None
    if incidents:
        given = folder / "incidents.csv"
        given.write_text(incidents)
    ingest(folder / "store", CONFIG, sessions=folder / "sessions.csv", incidents=given)
    return Store.open(folder / "store")


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Sessions of a made-up cluster with the study's habits: 63 nodes, 55 days; no metrics are needed."""
    folder = tmp_path_factory.mktemp("study")
    setting = run._checked(folder / "out", 63, 8, 55.0, 10, 3, timedelta(seconds=30), 0, None, STUDY)
    machines, schedule, _ = run._world(setting, 63, 8, 10)
    setting.out.mkdir()
    run._write_sessions(setting, machines, schedule)
    ingest(folder / "store", CONFIG, sessions=setting.out / "sessions.csv")
    return retries(Store.open(folder / "store"), CONFIG)


@pytest.mark.parametrize(
    ("of", "wanted"), [(("sessions", "sessions"), 224), (("chains", "chains"), 12), (("chains", "attempts"), 73)]
)
def test_the_studys_counts_lie_within_the_counts_intervals(
    study: dict[str, Any], of: tuple[str, str], wanted: int
) -> None:
    low, high = poisson_rate(study[of[0]][of[1]], 1.0)
    assert low <= wanted <= high


def test_a_third_of_chains_succeeding_lies_within_the_interval(study: dict[str, Any]) -> None:
    low, high = study["chains"]["succeeded"]["interval"]
    assert low <= 4 / 12 <= high


def test_retries_come_after_eleven_minutes(study: dict[str, Any]) -> None:
    found = study["intervals"]["automatic"]
    assert found["median"] == pytest.approx(11, abs=0.5)
    assert 10 <= found["q1"] <= found["q3"] <= 11.5
    assert study["attempts"]["automatic"]["of"] > 5 * study["attempts"]["manual"]["of"]


def test_three_nodes_take_over_half_of_the_exclusions_and_not_by_chance(study: dict[str, Any]) -> None:
    told = study["troubles"]["exclusions"]["concentration"]
    top = next(row for row in told["top"] if row["k"] == 3)
    assert top["share"] > 0.5
    assert top["p"] < 0.01
    assert told["nodes"] == 63


def test_what_is_missing_is_said_and_the_rest_is_told(study: dict[str, Any]) -> None:
    assert any("preset hardware" in line for line in study["cannot_say"])
    assert any(line.startswith("The top 3 of 63 nodes took") for line in study["sentences"])


def test_figures_of_a_small_record_are_exact(tmp_path: Path) -> None:
    told = retries(stored(tmp_path, *PLAIN), CONFIG)
    assert told["source"] == "given"
    assert told["sessions"] == {"sessions": 4, "jobs": 2, "outcomes": {"failure": 2, "success": 2}}
    assert told["chains"]["succeeded"]["count"] == told["chains"]["chains"] == 1
    assert [(row["place"], row["count"], row["of"]) for row in told["attempts"]["by_place"]] == [
        (1, 1, 2),
        (2, 0, 1),
        (3, 1, 1),
    ]
    assert told["intervals"]["automatic"]["median"] == 11
    assert told["intervals"]["manual"]["median"] == 90
    assert told["recovery"]["median"] == 111
    assert told["lost"]["node_hours"]["at_most"] == 12
    dense = told["troubles"]["exclusions"]["concentration"]
    assert [row["node"] for row in dense["by_node"]] == ["n1", "n3"]


def test_the_studys_third_against_an_eighth_is_told_as_not_significant(tmp_path: Path) -> None:
    def chain(job: str, again: str, outcome: str) -> tuple[str, str]:
        first = line(job, 1, "01T00:00", "01T02:00", "failed")
        return first, line(job, 2, f"01T{again}", "01T09:00", outcome)

    ends = ["completed"] * 4 + ["failed"] * 8
    rows = [row for k, end in enumerate(ends) for row in chain(f"auto{k}", "02:11", end)]
    rows += [row for k, end in enumerate(["completed"] + ["failed"] * 7) for row in chain(f"hand{k}", "03:30", end)]
    told = retries(stored(tmp_path, *rows), CONFIG)
    assert (
        "33.3 % (4 of 12) of automatic chains succeed against 12.5 % (1 of 8) of chains by hand; the difference does "
        "not reach significance (Fisher's exact p = 0.60): so few tries can't tell the two apart."
    ) in told["sentences"]


def test_gpu_hours_follow_from_the_gpus_of_a_node(tmp_path: Path) -> None:
    store = stored(tmp_path, *PLAIN)
    settings = CONFIG.model_copy(update={"retries": CONFIG.retries.model_copy(update={"gpus_per_node": 8})})
    lost = retries(store, settings)["lost"]
    assert lost["gpu_hours"]["at_most"] == 8 * lost["node_hours"]["at_most"]


def test_an_exclusion_costs_what_its_try_lost(tmp_path: Path) -> None:
    rows = [line("a", k, f"01T0{k}:00", f"01T0{k}:20", "failed", f"n1;n{k + 1}", "n1") for k in (1, 3, 5)]
    told = retries(stored(tmp_path, *rows), CONFIG)
    rule = told["troubles"]["exclusions"]["policies"][0]
    assert rule["avoided"]["count"] == 2
    assert rule["node_hours_saved"] == pytest.approx(2 * (20 + 100) / 60 + 2 * 20 / 60)


@pytest.mark.parametrize(
    ("rows", "head", "said"),
    [
        ((line("a", 1, "01T00:00", "", "failed"), PLAIN[3]), HEAD, "1 of 2 tries comes without an end"),
        (
            (PLAIN[0], line("a", 2, "01T05:00", "01T07:00", "failed")),
            HEAD,
            "1 of 2 tries begins before the job's try before has ended: the interval",
        ),
        (
            (line("a", 1, "01T03:00", "01T02:00", "failed"),),
            HEAD,
            "1 of 1 tries ends before it starts: the end was set aside",
        ),
        (
            ("a,1,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,failed",),
            "job,attempt,started,ended,outcome",
            "The sessions name no nodes: lost hours",
        ),
        (
            ("a,1,2026-01-01T00:00:00Z,2026-01-01T01:00:00Z,failed",),
            "job,attempt,started,ended,outcome",
            "The sessions name no excluded nodes",
        ),
        (PLAIN, HEAD, "How many GPUs a node has is not known"),
    ],
)
def test_what_a_record_leaves_open_is_one_clear_line(
    tmp_path: Path, rows: tuple[str, ...], head: str, said: str
) -> None:
    told = retries(stored(tmp_path, *rows, head=head), CONFIG)
    assert [said in text for text in told["cannot_say"]].count(True) == 1
    assert told["sentences"]


def test_nodes_dropped_by_a_retry_stand_in_for_exclusions_and_it_is_said(tmp_path: Path) -> None:
    told = retries(stored(tmp_path, *(row.rsplit(",", 1)[0] for row in PLAIN), head=HEAD.rsplit(",", 1)[0]), CONFIG)
    assert [row["node"] for row in told["troubles"]["exclusions"]["concentration"]["by_node"]] == ["n1", "n3"]
    assert any(line.startswith("The sessions name no excluded nodes: whether") for line in told["cannot_say"])


def test_words_for_an_ending_that_nobody_knows_are_told_and_count_as_failures(tmp_path: Path) -> None:
    store = stored(
        tmp_path, line("a", 1, "01T00:00", "01T01:00", "FEHLGESCHLAGEN"), line("a", 2, "01T01:11", "", "???")
    )
    told = retries(store, CONFIG)
    assert told["sessions"]["outcomes"] == {"failure": 2}
    (said,) = [text for text in told["cannot_say"] if "how a try ended is not known" in text]
    assert "'FEHLGESCHLAGEN' (1), '???' (1)" in said


def test_without_a_single_end_no_hours_are_told_as_lost(tmp_path: Path) -> None:
    told = retries(stored(tmp_path, line("a", 1, "01T00:00", "", "failed")), CONFIG)
    assert told["lost"]["node_hours"] is None
    assert not any("cost" in sentence for sentence in told["sentences"])
    assert any("No try has both a start and an end" in text for text in told["cannot_say"])


def test_one_node_has_no_top_and_no_spare(tmp_path: Path) -> None:
    rows = [line("a", k, f"0{k}T00:00", f"0{k}T01:00", "failed", "n1", "n1") for k in (1, 2, 3)]
    told = retries(stored(tmp_path, *rows), CONFIG)
    assert told["troubles"]["exclusions"]["policies"] == []
    assert not any("of 1 nodes" in sentence for sentence in told["sentences"])
    assert any("1 node(s): no rule" in text for text in told["cannot_say"])


def test_more_than_a_thousand_tries_are_told_as_one_is(tmp_path: Path) -> None:
    moments = pd.date_range("2026-01-01T00:00Z", periods=1500, freq="10min").strftime("%dT%H:%M")
    rows = [
        line(f"j{k // 2}", k % 2 + 1, moments[k], moments[k], "failed" if k % 2 == 0 else "ok") for k in range(1200)
    ]
    told = retries(stored(tmp_path, *rows), CONFIG)
    assert (told["sessions"]["sessions"], told["chains"]["chains"]) == (1200, 600)
    assert told["chains"]["succeeded"]["count"] == 600


def test_clocks_that_are_hours_apart_are_noticed(tmp_path: Path) -> None:
    rows = [line("a", k, f"0{k}T00:00", f"0{k}T10:00", "failed") for k in (1, 3, 5, 7)]
    tickets = "node,start,end,kind\n" + "".join(
        f"n1,2026-01-0{k}T02:00:00Z,2026-01-0{k}T02:30:00Z,x\n" for k in (1, 3, 5, 7)
    )
    told = retries(stored(tmp_path, *rows, incidents=tickets), CONFIG)
    assert any(line.startswith("Clocks seem apart: moved by +8 h, 4 of 4 failures") for line in told["cannot_say"])


def test_clocks_that_agree_are_not_complained_about(tmp_path: Path) -> None:
    rows = [line("a", k, f"0{k}T00:00", f"0{k}T10:00", "failed") for k in (1, 3, 5, 7)]
    tickets = "node,start,end,kind\n" + "".join(
        f"n1,2026-01-0{k}T09:58:00Z,2026-01-0{k}T11:00:00Z,x\n" for k in (1, 3, 5, 7)
    )
    told = retries(stored(tmp_path, *rows, incidents=tickets), CONFIG)
    assert not any("Clocks" in line for line in told["cannot_say"])
    assert told["troubles"]["failures"]["concentration"]["by_node"][0]["count"] == 4


def test_what_cannot_be_said_names_the_preset_that_was_asked_for(tmp_path: Path) -> None:
    told = retries(stored(tmp_path, *PLAIN), CONFIG, "paper")
    assert any(text.startswith("There is no failure of preset paper on few nodes") for text in told["cannot_say"])


def test_an_empty_store_is_refused_with_the_cure(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="ingest --sessions, --metrics or --logs"):
        retries(Store.create(tmp_path / "store"), CONFIG)


def with_work(store: Store, node: str, *spans: tuple[str, str]) -> None:
    """A GPU of the node at full use in these spans of the first day, and idle else."""
    day = to_ns("2026-01-01T00:00:00Z") // DAY_NS
    cells = Cells(day * DAY_NS, (day + 1) * DAY_NS, store.step_ns)
    use = np.zeros(len(cells.times))
    for start, end in spans:
        low, high = (to_ns(f"2026-01-01T{text}:00Z") for text in (start, end))
        use[(cells.times >= low) & (cells.times < high)] = 98.0
    cells.add(Series("DCGM_FI_DEV_GPU_UTIL", f"GPU-{node}"), cells.times, use)
    store.merge_day(node, day, cells)


def test_without_a_schedulers_record_tries_are_told_from_gpu_activity(tmp_path: Path) -> None:
    (tmp_path / "incidents.csv").write_text("node,start,end,kind\nn1,2026-01-01T05:58:00Z,2026-01-01T07:00:00Z,x\n")
    ingest(tmp_path / "store", CONFIG, incidents=tmp_path / "incidents.csv")
    store = Store.open(tmp_path / "store")
    with_work(store, "n1", ("01:00", "06:00"))
    with_work(store, "n2", ("01:01", "03:00"), ("03:02", "06:02"), ("06:20", "12:00"))
    with_work(store, "n3", ("01:00", "06:02"), ("06:20", "12:00"))
    with_work(store, "n4", ("02:00", "12:00"))
    told = retries(store, CONFIG)
    assert told["source"] == "derived"
    assert told["sessions"] == {"sessions": 3, "jobs": 2, "outcomes": {"unknown": 2, "failure": 1}}
    assert (told["chains"]["chains"], told["chains"]["attempts"]) == (1, 2)
    assert told["intervals"]["all"]["median"] == 18
    assert [row["node"] for row in told["troubles"]["exclusions"]["concentration"]["by_node"]] == ["n1"]
    assert "told from GPU activity" in told["sentences"][0]
    assert told["attempts"]["first"]["of"] == told["chains"]["succeeded"]["of"] == 0
    assert not any("succeed" in sentence for sentence in told["sentences"])


def test_public_onsets_without_sessions_give_recurrence_and_concentration(tmp_path: Path, real_data: Path) -> None:
    ingest(tmp_path / "store", CONFIG, incidents=real_data / "kalos" / "kalos_xid_onsets.csv")
    told = retries(Store.open(tmp_path / "store"), CONFIG)
    assert told["source"] == "none"
    nodes = told["troubles"]["any_xid"]
    assert nodes["wide_incidents"] == 9
    assert nodes["concentration"]["events"] == 26
    assert nodes["concentration"]["by_node"][0] == {
        **nodes["concentration"]["by_node"][0],
        "node": "172.31.15.49",
        "count": 4,
    }
    assert (nodes["recurrence"]["count"], nodes["recurrence"]["of"]) == (4, 20)
    assert all(rule["node_hours_saved"] is None for rule in nodes["policies"])
    assert any("named anywhere (142)" in line for line in told["cannot_say"])


def test_the_report_section_shows_names_as_text(tmp_path: Path) -> None:
    rows = [line("a", k, f"01T0{k}:00", f"01T0{k}:20", "failed", "<b>$x;n2", "<b>$x") for k in (1, 3)]
    page = retries_report.section(retries(stored(tmp_path, *rows), CONFIG))
    assert page.count("data:image/png;base64,") >= 2
    assert "&lt;b&gt;$x" in page
    assert "<b>" not in page


class FakeRun:
    """What `track` asks of a run, kept."""

    run_id = "r1"

    def __init__(self) -> None:
        self.metrics: dict[str, float | None] = {}
        self.names: set[str] = set()

    def log(self, *, params: object, metrics: dict[str, float | None]) -> None:
        assert params
        self.metrics = metrics

    def files(self, content: dict[str, bytes]) -> None:
        self.names |= set(content)

    def table(self, frame: pd.DataFrame, path: str) -> None:
        assert len(frame)
        self.names.add(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def test_a_run_of_its_own_holds_shares_with_bounds_the_page_and_the_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = FakeRun()
    asked = []

    class FakeTracker:
        def __init__(self, *_: object) -> None: ...

        def start(self, experiment: str, *_: object, **__: object) -> FakeRun:
            asked.append(experiment)
            return made

    monkeypatch.setattr(analysis, "Tracker", FakeTracker)
    store = stored(tmp_path, *PLAIN)
    assert retries_report.track(retries(store, CONFIG), CONFIG, store, "foreshock-retries") == "r1"
    assert asked == ["foreshock-retries"]
    assert made.metrics["chains"] == made.metrics["chains_succeeded"] == 1
    assert made.metrics["chains_succeeded_low"] == pytest.approx(0.025)
    assert {"retries.json", "retries.html", "chains.json", "figures/success_by_try.png"} <= made.names


def test_the_command_prints_json_and_logs_a_run_only_when_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, *PLAIN)
    with pytest.raises(SystemExit) as ended:
        cli.main(["retries", str(tmp_path / "store"), "--json"])
    told = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert {"chains", "attempts", "intervals", "lost", "troubles", "sentences", "cannot_say"} <= told.keys()
    assert "run_id" not in told


def test_the_command_prints_sentences_tables_and_what_is_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(tmp_path, *PLAIN)
    with pytest.raises(SystemExit):
        cli.main(["retries", str(tmp_path / "store")])
    text = capsys.readouterr().out
    assert text.startswith("4 tries of 2 jobs on 4 nodes in 1 day; 1 chain of two tries or more with 3 of them.")
    assert "Success by try\ntry  succeeded" in text
    assert "What can't be said:\n- How many GPUs" in text
