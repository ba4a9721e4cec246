"""Records of jobs as schedulers write them: Slurm's accounting, Kubernetes' objects, JSON of others, CSV."""

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features.tables import SESSIONS, InputError, check
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.readers import hostlist
from pipelines.readers.context import LogContext
from pipelines.readers.sessions import read_sessions
from pipelines.readers.tally import Tally
from pipelines.retries import retries
from pipelines.store import Store

CONTEXT = LogContext(timezone="UTC")


def read(folder: Path, text: str | bytes, context: LogContext = CONTEXT) -> tuple[str, pd.DataFrame, Tally]:
    path = folder / "sessions"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    tally = Tally()
    kind, frame = read_sessions(path, context, tally)
    assert tally.read == tally.ok + sum(tally.rejected.values())
    return kind, check(frame, SESSIONS), tally


def starts(frame: pd.DataFrame) -> list[str]:
    return [f"{time:%d %H:%M}" for time in frame["started"]]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node[01-03,07]", ["node01", "node02", "node03", "node07"]),
        ("node[9-11]", ["node9", "node10", "node11"]),
        ("a,gpu-[1-2]-ib,b", ["a", "gpu-1-ib", "gpu-2-ib", "b"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("n1 n2;n3|n4", ["n1", "n2", "n3", "n4"]),
        ("None assigned", []),
        ("(null)", []),
        ("", []),
    ],
)
def test_a_host_list_names_all_its_hosts(text: str, names: list[str]) -> None:
    assert hostlist.expand(text) == names


@pytest.mark.parametrize(
    "text", ["node[1-", "node]1[", "n[[1]]", "n[3-1]", "n[1-999999999]", "n[1-400]x[1-400]", "n[a b]"]
)
def test_a_host_list_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="host"):
        hostlist.expand(text)


SACCT = """\
JobID|JobName|User|State|Start|End|NodeList
4101|llm-70b|ana|NODE_FAIL|2026-01-04T00:00:00|2026-01-04T06:00:00|gpu[01-03]
4101.batch|batch|ana|FAILED|2026-01-04T00:00:00|2026-01-04T06:00:00|gpu01
4102|llm-70b|ana|FAILED|2026-01-04T06:11:00|2026-01-04T06:20:00|gpu[01,03-04]
4103|llm-70b|ana|RUNNING|2026-01-04T06:31:00|Unknown|gpu[01,03-04]
4104|llm-70b|ben|COMPLETED|2026-01-04T01:00:00|2026-01-04T02:00:00|gpu09
4105|wrap|ana|CANCELLED by 1000|2026-01-04T01:00:00|2026-01-04T01:05:00|gpu08
4106|llm-70b|ana|PENDING|Unknown|Unknown|None assigned
"""


def test_sacct_gives_tries_by_user_and_name_and_counts_steps(tmp_path: Path) -> None:
    kind, frame, tally = read(tmp_path, SACCT)
    assert kind == "sacct"
    mine = frame[frame["job"] == "ana/llm-70b"]
    assert starts(mine) == ["04 00:00", "04 06:11", "04 06:31"]
    assert mine["nodes"].iloc[1] == ["gpu01", "gpu03", "gpu04"]
    assert mine["ended"].isna().tolist() == [False, False, True]
    assert set(frame["job"]) == {"ana/llm-70b", "ben/llm-70b", "ana/job-4105"}
    assert tally.rejected == {"step of a job": 1, "not started, or no time of it that can be read": 1}


def test_sacct_with_a_closing_bar_and_other_columns_is_read(tmp_path: Path) -> None:
    lines = ["JobID|Elapsed|State|Start|End|", "7|01:00:00|TIMEOUT|2026-01-04T00:00:00|2026-01-04T01:00:00|"]
    _, frame, _ = read(tmp_path, "\n".join(lines) + "\n")
    assert frame[["job", "outcome"]].to_numpy().tolist() == [["job-7", "TIMEOUT"]]
    assert frame["nodes"].iloc[0] == []


def test_times_of_sacct_are_in_the_zone_that_the_user_names(tmp_path: Path) -> None:
    _, frame, tally = read(tmp_path, SACCT, LogContext(timezone="Asia/Seoul"))
    assert f"{frame['started'].min():%d %H:%M}" == "03 15:00"
    assert not tally.hints
    _, _, unsaid = read(tmp_path, SACCT, LogContext())
    assert "--timezone" in unsaid.hints[0]


def test_parts_of_a_job_of_several_kinds_of_nodes_are_one_try(tmp_path: Path) -> None:
    lines = [
        SACCT.splitlines()[0],
        *(
            f"50+{k}|mix|ana|FAILED|2026-01-04T00:00:00|2026-01-04T06:00:00|{nodes}"
            for k, nodes in ((0, "a[1-2]"), (1, "b1"))
        ),
    ]
    _, frame, _ = read(tmp_path, "\n".join(lines))
    assert frame["nodes"].tolist() == [["a1", "a2", "b1"]]


def test_a_requeued_job_has_a_try_for_each_start_and_tasks_of_an_array_stay_apart(tmp_path: Path) -> None:
    lines = [
        SACCT.splitlines()[0],
        "60|pre|ana|REQUEUED|2026-01-04T00:00:00|2026-01-04T01:00:00|a1",
        "60|pre|ana|COMPLETED|2026-01-04T01:05:00|2026-01-04T02:00:00|a1",
        "61_1|arr|ana|COMPLETED|2026-01-04T00:00:00|2026-01-04T01:00:00|a2",
        "61_2|arr|ana|COMPLETED|2026-01-04T00:00:00|2026-01-04T01:00:00|a3",
    ]
    _, frame, _ = read(tmp_path, "\n".join(lines))
    assert frame["job"].value_counts().to_dict() == {"ana/pre": 2, "ana/arr_1": 1, "ana/arr_2": 1}


def test_a_host_list_that_is_none_costs_only_its_try(tmp_path: Path) -> None:
    _, frame, tally = read(tmp_path, SACCT.replace("gpu09", "gpu[09"))
    assert "ben/llm-70b" not in set(frame["job"])
    assert tally.rejected["host list that can't be read"] == 1
    assert "do not match" in tally.hints[0]


def test_a_second_export_of_sacct_completes_the_first(tmp_path: Path) -> None:
    (tmp_path / "one").write_text(SACCT)
    (tmp_path / "two").write_text(
        "JobID|JobName|User|State|Start|End|NodeList\n"
        "4103|llm-70b|ana|COMPLETED|2026-01-04T06:31:00|2026-01-05T00:00:00|gpu[01,03-04]\n"
    )
    for name in ("one", "two"):
        ingest(tmp_path / "store", Config(), sessions=tmp_path / name, timezone="UTC")
    told = retries(Store.open(tmp_path / "store"), Config())
    assert told["sessions"]["sessions"] == 5
    assert told["chains"]["list"][0]["attempts"] == 3
    assert told["chains"]["succeeded"]["count"] == 1
    assert told["intervals"]["all"]["median"] == 11


def test_json_of_a_scheduler_is_read_as_a_document_or_an_object_a_line(tmp_path: Path) -> None:
    first_try = {"start_time": 1767484800, "end_time": 1767506400, "state": "FAILED", "hosts": ["n1.dom", "n2"]}
    second = {"start_time": "2026-01-04T06:11:00Z", "state": "RUNNING", "hosts": "n[2-3]", "exclude": "n1"}
    rows = [{"job": "a", "attempt": number, **told} for number, told in ((1, first_try), (2, second))]
    texts = [
        json.dumps(rows),
        json.dumps({"sessions": rows}),
        "\n".join(map(json.dumps, rows)),
        json.dumps(rows, indent=1),
    ]
    frames = [read(tmp_path, text) for text in texts]
    assert {kind for kind, _, _ in frames} == {"sessions-json"}
    first = frames[0][1]
    assert starts(first) == ["04 00:00", "04 06:11"]
    assert first["nodes"].tolist() == [["n1", "n2"], ["n2", "n3"]]
    assert first["excluded"].tolist() == [[], ["n1"]]
    for _, frame, _ in frames[1:]:
        pd.testing.assert_frame_equal(frame, first)


def test_sacct_json_is_read(tmp_path: Path) -> None:
    job = {
        "job_id": 4101,
        "name": "llm",
        "state": {"current": ["NODE_FAIL"], "reason": "None"},
        "time": {"start": 1767484800, "end": {"set": True, "number": 1767506400}},
        "nodes": "gpu[01-02]",
        "restart_cnt": 0,
    }
    _, frame, _ = read(tmp_path, json.dumps({"meta": {}, "jobs": [job]}))
    row = frame.iloc[0]
    assert (row["job"], row["outcome"], row["nodes"], row["attempt"]) == ("llm", "NODE_FAIL", ["gpu01", "gpu02"], 0)
    assert row["ended"] - row["started"] == pd.Timedelta(hours=6)


@pytest.mark.parametrize("number", [1767484800, 1767484800000, 1767484800000000, 1767484800000000000, "1767484800.0"])
def test_a_number_is_a_time_in_the_unit_of_its_size(tmp_path: Path, number: object) -> None:
    _, frame, _ = read(tmp_path, json.dumps([{"job": "a", "start": number}]))
    assert starts(frame) == ["04 00:00"]


def event(kind: str, name: str, time: str, reason: str, message: str = "") -> dict[str, Any]:
    about = {"kind": kind, "namespace": "ml", "name": name}
    return {
        "kind": "Event",
        "metadata": {"name": f"{name}.{reason}"},
        "involvedObject": about,
        "lastTimestamp": f"2026-01-04T{time}:00Z",
        "reason": reason,
        "message": message,
    }


def placed(pod: str, time: str, node: str) -> dict[str, Any]:
    return event("Pod", pod, time, "Scheduled", f"Successfully assigned ml/{pod} to {node}")


EVENTS = [
    placed("llm-0-abcde", "00:00", "n1"),
    placed("llm-1-fghij", "00:01", "n2.dom"),
    event("Pod", "llm-0-abcde", "00:02", "Pulled", "Container image already present"),
    event("Pod", "llm-0-abcde", "06:00", "NodeNotReady"),
    placed("llm-0-klmno", "06:11", "n3"),
    placed("llm-1-pqrst", "06:11", "n2"),
    event("Job", "llm", "20:00", "Completed", "Job completed"),
]


@pytest.mark.parametrize("form", ["list", "lines", "watch"])
def test_events_of_kubernetes_give_tries_with_their_nodes_and_ends(tmp_path: Path, form: str) -> None:
    texts = {
        "list": json.dumps({"kind": "List", "items": EVENTS}),
        "lines": "\n".join(map(json.dumps, EVENTS)),
        "watch": "\n".join(json.dumps({"type": "ADDED", "object": item}) for item in EVENTS),
    }
    kind, frame, tally = read(tmp_path, texts[form])
    assert kind == "kubernetes-json"
    assert frame[["job", "outcome"]].to_numpy().tolist() == [["ml/llm", "failed"], ["ml/llm", "completed"]]
    assert frame["nodes"].tolist() == [["n1", "n2"], ["n3", "n2"]]
    assert (frame["ended"] - frame["started"]).tolist() == [pd.Timedelta(hours=6), pd.Timedelta(hours=13, minutes=49)]
    assert "event that neither begins nor ends a try (Pulled)" in tally.rejected


def test_a_pod_that_was_only_told_to_stop_did_not_fail(tmp_path: Path) -> None:
    for reason, outcome in (("Killing", "stopped"), ("OOMKilled", "failed")):
        events = [placed("llm-0-abcde", "00:00", "n1"), event("Pod", "llm-0-abcde", "00:30", "Killing")]
        items = [*events, event("Pod", "llm-0-abcde", "00:31", reason)]
        _, frame, _ = read(tmp_path, json.dumps({"kind": "List", "items": items}))
        assert frame["outcome"].tolist() == [outcome]


def test_events_that_name_no_job_are_counted_and_refused(tmp_path: Path) -> None:
    item = event("Pod", "", "00:00", "Started")
    with pytest.raises(InputError, match="event of another kind of object: 2"):
        read(tmp_path, json.dumps({"kind": "List", "items": [item, item]}))


def test_a_try_that_a_csv_tells_twice_is_one_and_counted(tmp_path: Path) -> None:
    rows = "a,1,2026-01-04T00:00:00Z,n1\na,2,2026-01-04T02:00:00Z,n1\na,1,2026-01-04T01:00:00Z,n2\n"
    _, frame, tally = read(tmp_path, "job,attempt,started,nodes\n" + rows)
    assert frame[["attempt", "nodes"]].to_numpy().tolist() == [[2, ["n1"]], [1, ["n2"]]]
    assert (tally.ok, tally.rejected["the same try told again"]) == (2, 1)


def test_jobs_and_pods_of_kubernetes_are_joined(tmp_path: Path) -> None:
    job = {
        "kind": "Job",
        "metadata": {"namespace": "ml", "name": "llm"},
        "status": {
            "startTime": "2026-01-04T00:00:00Z",
            "conditions": [{"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-04T01:00:00Z"}],
        },
    }
    pods = [
        {
            "kind": "Pod",
            "metadata": {"namespace": "ml", "name": f"llm-{k}-abcde", "labels": {"job-name": "llm"}},
            "spec": {"nodeName": f"n{k}"},
            "status": {"phase": "Running", "startTime": "2026-01-04T00:00:05Z"},
        }
        for k in (1, 2)
    ]
    _, frame, _ = read(tmp_path, json.dumps({"kind": "List", "items": [job, *pods]}))
    assert frame[["job", "outcome"]].to_numpy().tolist() == [["ml/llm", "failed"]]
    assert frame["nodes"].tolist() == [["n1", "n2"]]
    _, alone, _ = read(tmp_path, json.dumps(job))
    assert alone[["job", "outcome"]].to_numpy().tolist() == [["ml/llm", "failed"]]


def test_csv_is_read_as_before_and_packed_files_are_opened(tmp_path: Path) -> None:
    text = "job,attempt,started,nodes\na,1,2026-01-04T00:00:00Z,n1.dom;n2\n"
    kind, frame, tally = read(tmp_path, gzip.compress(text.encode()))
    assert (kind, tally.ok) == ("sessions-csv", 1)
    assert frame["nodes"].tolist() == [["n1", "n2"]]


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("", "CSV"),
        ("{", "line 1: neither one JSON document nor one a line"),
        ('[{"a": 1}]', "no try of a job in it can be used: no job's name: 1"),
        ("[]", "it is empty"),
        ('{"kind": "Event", "metadata": {}}', "event without a time: 1"),
        ("JobID|State|Start|End\n1|FAILED|Unknown|Unknown\n", "not started"),
        ("JobID|State|Start|End\n1|FAILED|31/01/2026 10:00:00|Unknown\n", "SLURM_TIME_FORMAT=standard"),
        ("job,attempt\na,1\n", "column started is missing"),
    ],
)
def test_what_is_no_record_is_refused_in_one_line(tmp_path: Path, text: str, cure: str) -> None:
    with pytest.raises(InputError, match=cure) as caught:
        read(tmp_path, text)
    assert "\n" not in str(caught.value)


def test_a_torn_archive_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="can't be read"):
        read(tmp_path, gzip.compress(SACCT.encode())[:-20])


def _spoilt(value: Any, rng: random.Random) -> Any:
    """JSON with some values of another kind."""
    if rng.random() < 0.1:
        return rng.choice([None, -1, 1e300, 99999999999, "", [], {}, True, [None], {"a": 1}, "9" * 30])
    if isinstance(value, dict):
        return {key: _spoilt(inner, rng) for key, inner in value.items()}
    return [_spoilt(inner, rng) for inner in value] if isinstance(value, list) else value


def test_a_spoilt_record_is_read_in_part_or_refused_and_never_breaks_the_reader(tmp_path: Path) -> None:
    rng = random.Random(3)  # noqa: S311  # no secret
    job = {"name": "a", "start_time": 1767484800, "state": {"current": ["FAILED"]}, "hosts": ["n1"], "time": {"end": 3}}
    refused = 0
    for number in range(100):
        if number % 2:
            whole = [job, job] if number % 4 == 1 else {"kind": "List", "items": EVENTS}
            text = json.dumps(_spoilt(whole, rng))
        else:
            letters = list(SACCT)
            for _ in range(4):
                letters[rng.randrange(len(letters))] = rng.choice(["", "|", "\n", "[", "]", ",", "9" * 20, "\0", "é"])
            text = "".join(letters)
        try:
            read(tmp_path, text)
        except InputError:
            refused += 1
    assert 0 < refused < 80
