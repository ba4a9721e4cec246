import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from features.tables import BusyError, InputError, Series, UsageError
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.store import Store

CONFIG = Config()
T0 = 1_767_225_600_000  # 2026-01-01T00:00:00Z in milliseconds
NS = 1_000_000
JOURNAL = (
    '{"__REALTIME_TIMESTAMP":"1767225600123456","_HOSTNAME":"n1.example.net","SYSLOG_IDENTIFIER":"kernel",'
    '"_TRANSPORT":"kernel","MESSAGE":"NVRM: Xid (PCI:0000:4e:00): 79, GPU has fallen off the bus."}\n'
)


def line(values: list[Any], first: int = T0, step: int = 15_000, **labels: str) -> str:
    metric = {"__name__": "m", "node": "n1", **labels}
    stamps = [first + number * step for number in range(len(values))]
    return json.dumps({"metric": metric, "values": values, "timestamps": stamps}, separators=(",", ":")) + "\n"


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if path.suffix == ".gz" else text.encode())
    return path


def panel(store: Path, node: str = "n1", cells: int = 2) -> Any:
    return Store.open(store).panel(node, T0 * NS, T0 * NS + cells * 30_000 * NS)


def test_samples_and_lines_go_in_and_are_counted(tmp_path: Path) -> None:
    report = ingest(
        tmp_path / "s",
        CONFIG,
        metrics=[put(tmp_path / "m.gz", line([1, 2, 3, None]))],
        logs=[put(tmp_path / "j", JOURNAL)],
    )
    metrics, logs = report["inputs"]
    assert (metrics["format"], metrics["read"], metrics["ok"], metrics["rejected"]) == ("victoria", 4, 3, {"null": 1})
    assert (logs["format"], logs["read"], logs["ok"]) == ("journald", 1, 1)
    assert {name: report[name] for name in ("nodes", "series", "samples", "log_lines", "start", "end")} == {
        "nodes": 1,
        "series": 1,
        "samples": 2,
        "log_lines": 1,
        "start": "2026-01-01T00:00:00+00:00",
        "end": "2026-01-01T00:01:00+00:00",
    }
    np.testing.assert_array_equal(panel(tmp_path / "s").values, [[2, 3]])
    assert Store.open(tmp_path / "s").logs(T0 * NS, (T0 + 1000) * NS)["node"].tolist() == ["n1"]


def test_a_second_run_over_the_same_input_adds_nothing(tmp_path: Path) -> None:
    metrics, logs = put(tmp_path / "m", line([1, 2])), put(tmp_path / "j", JOURNAL)
    first = ingest(tmp_path / "s", CONFIG, metrics=[metrics], logs=[logs])
    before = Store.open(tmp_path / "s").digest()
    again = ingest(tmp_path / "s", CONFIG, metrics=[metrics.rename(tmp_path / "other")], logs=[logs])
    assert Store.open(tmp_path / "s").digest() == before
    assert again["log_lines"] == first["log_lines"] == 1
    assert [item["already"] for item in again["inputs"]][1]


def test_the_order_of_files_does_not_matter(tmp_path: Path) -> None:
    early = put(tmp_path / "a", line([1, 2, 3], UUID="GPU-a", pci_bus_id="00000000:4E:00.0"))
    late = put(tmp_path / "b", line([9, 8], first=T0 + 7_000, UUID="GPU-a", pci_bus_id="00000000:5E:00.0"))
    ingest(tmp_path / "1", CONFIG, metrics=[early, late])
    ingest(tmp_path / "2", CONFIG, metrics=[late, early])
    ingest(tmp_path / "3", CONFIG, metrics=[late])
    ingest(tmp_path / "3", CONFIG, metrics=[early])
    assert len({Store.open(tmp_path / name).digest() for name in "123"}) == 1
    np.testing.assert_array_equal(panel(tmp_path / "1").values, [[8, 3]])


def test_little_memory_gives_the_same_store(tmp_path: Path) -> None:
    text = "".join(line([number, 2, 3], UUID=f"GPU-{number}") for number in range(5))
    metrics, logs = put(tmp_path / "m", text), put(tmp_path / "j", JOURNAL * 3)
    ingest(tmp_path / "1", CONFIG, metrics=[metrics], logs=[logs])
    ingest(tmp_path / "2", small_memory(), metrics=[metrics], logs=[logs])
    assert Store.open(tmp_path / "1").digest() == Store.open(tmp_path / "2").digest()


def small_memory() -> Config:
    section = CONFIG.ingest.model_copy(update={"memory_bytes": 1})  # every chunk is a part of its own
    return CONFIG.model_copy(update={"ingest": section})


def test_a_repeated_line_counts_and_the_same_line_from_two_exports_does_not(tmp_path: Path) -> None:
    other = JOURNAL.replace('"_TRANSPORT":"kernel",', '"_TRANSPORT":"kernel","PRIORITY":"2",')
    ingest(tmp_path / "s", CONFIG, logs=[put(tmp_path / "a", JOURNAL * 2), put(tmp_path / "b", other)])
    assert Store.open(tmp_path / "s").logs(0, T0 * 2 * NS)["count"].tolist() == [2]


def test_it_is_told_which_of_how_many_files_is_read_and_what_is_written(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"2026-01-01T00:00:00Z n1 app: {name}\n")
    told: list[str] = []
    ingest(tmp_path / "store", Config(), logs=[tmp_path / "a", tmp_path / "b"], progress=told.append)
    assert told == [
        f"reading logs file 1 of 2, {tmp_path / 'a'}",
        f"reading logs file 1 of 2, {tmp_path / 'a'}: 1 records so far",
        f"reading logs file 2 of 2, {tmp_path / 'b'}",
        f"reading logs file 2 of 2, {tmp_path / 'b'}: 1 records so far",
        "writing lines of n1 (1 of 1 node-days)",
    ]


def test_folders_are_walked_and_what_is_no_export_is_named(tmp_path: Path) -> None:
    put(tmp_path / "in" / "deep" / "m.gz", line([1]))
    put(tmp_path / "in" / "thesis.txt", "once upon a time\n")
    report = ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "in"])
    assert [item["ok"] for item in report["inputs"]] == [1]
    assert len(report["errors"]) == 1
    assert "thesis.txt: no metric format foreshock knows" in report["errors"][0]


def test_a_log_given_as_metrics_is_told_its_option(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this is journald; give it to --logs"):
        ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "j", JOURNAL)])


def test_json_logs_with_a_host_and_a_message_are_no_metrics(tmp_path: Path) -> None:
    text = '{"timestamp":"2026-01-01T00:00:00Z","host":"n1","source":"server","message":"hello"}\n'
    report = ingest(tmp_path / "s", CONFIG, logs=[put(tmp_path / "l", text)])
    assert report["inputs"][0]["format"] == "json-lines"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "the file is empty"),
        (b"\x1f\x8b\x08\x00broken", "can't be read"),
        (b"PAR1" + b"\0" * 50, "cut or damaged"),
        (b"once upon a time\n", "no metric format"),
        (line(["NaN", None]).encode(), "nothing in it can be used: null: 1, nan: 1"),
        (line([1], first=T0 * 2).encode(), "time in the future: 1"),
        (line([1], node="").encode(), "no node in the labels: 1"),
        (b'{"status":"error","errorType":"bad_data","error":"too long"}', "error response"),
    ],
    ids=["empty", "no gzip", "cut Parquet", "prose", "all NaN", "future", "no node", "error answer"],
)
def test_unusable_input_is_one_clear_line_and_good_input_beside_it_is_kept(
    tmp_path: Path, content: bytes, said: str
) -> None:
    bad = tmp_path / "bad"
    bad.write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        ingest(tmp_path / "alone", CONFIG, metrics=[bad])
    assert "\n" not in str(caught.value)
    report = ingest(tmp_path / "s", CONFIG, metrics=[bad, put(tmp_path / "good", line([1, 2]))])
    assert (report["samples"], len(report["errors"])) == (1, 1)


def test_a_torn_gzip_keeps_what_came_before(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    text = "".join(line(rng.random(200).tolist(), UUID=f"GPU-{number}") for number in range(40))
    whole = put(tmp_path / "whole.gz", text).read_bytes()
    (tmp_path / "torn").write_bytes(whole[: len(whole) // 2])
    report = ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "torn"])
    (item,) = report["inputs"]
    assert item["rejected"]["torn file"] == 1
    assert item["ok"] > 1000
    assert item["read"] == item["ok"] + sum(item["rejected"].values())


def test_nothing_named_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to ingest"):
        ingest(tmp_path / "s", CONFIG)


def test_an_unknown_zone_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unknown zone"):
        ingest(tmp_path / "s", CONFIG, metrics=[tmp_path], timezone="Mars/Base")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "absent"])


def test_a_store_that_is_being_written_is_busy(tmp_path: Path) -> None:
    store = Store.create(tmp_path / "s")
    with store.writing(), pytest.raises(BusyError):
        ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", line([1]))])


def test_the_last_known_address_of_a_gpu_outlives_its_series(tmp_path: Path) -> None:
    gone = put(tmp_path / "a", line([1, 2], UUID="GPU-a", pci_bus_id="00000000:4E:00.0"))
    later = put(tmp_path / "b", line([1, 2], first=T0 + 86_400_000, UUID="GPU-b", pci_bus_id="00000000:5E:00.0"))
    ingest(tmp_path / "s", CONFIG, metrics=[gone])
    ingest(tmp_path / "s", CONFIG, metrics=[later])
    gpus = Store.open(tmp_path / "s").gpus()
    assert gpus[["node", "gpu", "pci"]].to_numpy().tolist() == [
        ["n1", "GPU-a", "0000:4e:00"],
        ["n1", "GPU-b", "0000:5e:00"],
    ]


def test_pod_labels_of_one_gpu_are_one_series_and_a_contradiction_is_counted(tmp_path: Path) -> None:
    text = line([1, 2], step=30_000, UUID="GPU-a", pod="") + line([1, 3], step=30_000, UUID="GPU-a", pod="job-1")
    report = ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", text)])
    assert report["series"] == 1
    np.testing.assert_array_equal(panel(tmp_path / "s").values, [[1, 3]])
    assert report["conflicts"] == 1


@pytest.mark.parametrize("order", [("a", "b"), ("b", "a")])
def test_an_address_becomes_the_node_that_another_exporter_names_there(tmp_path: Path, order: tuple[str, str]) -> None:
    put(tmp_path / "a", line([5], node="", instance="10.0.0.7:9100", __name__="node_load1"))
    put(tmp_path / "b", line([1], node="", Hostname="n7", instance="10.0.0.7:9400", UUID="GPU-a"))
    for name in order:
        ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / name])
    assert Store.open(tmp_path / "s").nodes() == ["n7"]
    assert panel(tmp_path / "s", "n7").series == (Series("m", "GPU-a"), Series("node_load1"))


def test_sessions_and_incidents_are_taken_in(tmp_path: Path) -> None:
    sessions = put(
        tmp_path / "sessions.csv",
        "job,attempt,started,ended,outcome,nodes,excluded\n"
        "j1,2,2026-01-01T00:00:00Z,,running,n1;n2,n3\nj1,1,2026-01-01T00:00:00+08:00,2026-01-01T01:00:00Z,failed,n1,\n",
    )
    incidents = put(tmp_path / "i.csv", "node,start,end\nn1,2026-01-01T00:00:00Z,2026-01-01T00:03:00Z\n")
    for _ in range(2):
        report = ingest(tmp_path / "s", CONFIG, sessions=sessions, incidents=incidents)
    store = Store.open(tmp_path / "s")
    assert store.sessions()["attempt"].tolist() == [1, 2]
    assert store.sessions()["nodes"].tolist() == [["n1"], ["n1", "n2"]]
    assert store.sessions()["ended"].isna().tolist() == [False, True]
    assert store.incidents().loc[0, "end"] == pd.Timestamp("2026-01-01T00:03:00Z")
    assert len(store.incidents()) == 1
    assert [item["ok"] for item in report["inputs"]] == [2, 1]


def test_an_incident_s_node_that_the_store_does_not_know_is_named(tmp_path: Path) -> None:
    incidents = put(
        tmp_path / "i.csv", "node,start,end\nn1.example.net,2026-01-01T00:00:00Z,\nm9,2026-01-01T00:00:00Z,\n"
    )
    report = ingest(tmp_path / "s", CONFIG, logs=[put(tmp_path / "j", JOURNAL)], incidents=incidents)
    (hint,) = report["inputs"][-1]["hints"]
    assert "no data of m9: " in hint


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("node,begin\nn1,x\n", "column start is missing; wanted node,start,end, found node,begin"),
        ("node,start,end\nn1,2026-01-01T00:00:00,2026-01-01T00:00:00Z\n", "line 2: start is '2026-01-01T00:00:00'"),
        ("node,start,end\nn1,yesterday,\n", "line 2: start is 'yesterday'"),
        ("node,start,end\n,2026-01-01T00:00:00Z,\n", "line 2: node is empty"),
        ("node,start,end\nn1,2026-01-02T00:00:00Z,2026-01-01T00:00:00Z\n", "line 2: end is before start"),
        ("", "no CSV"),
    ],
)
def test_a_table_kept_by_hand_that_is_wrong_is_told_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        ingest(tmp_path / "s", CONFIG, incidents=put(tmp_path / "i.csv", text))


def exports(folder: Path) -> dict[str, Any]:
    """Two nodes over midnight, in two files, with logs."""
    midnight = T0 + 86_400_000 - 60_000
    for number in range(2):
        text = "".join(
            line([1, 2, 3, 4, 5, 6, 7, 8], first=midnight, node=node, UUID=f"GPU-{number}") for node in ("n1", "n2")
        )
        put(folder / "metrics" / f"{number}.gz", text)
    put(folder / "logs" / "j", JOURNAL * 2)
    return {"metrics": [folder / "metrics"], "logs": [folder / "logs"]}


class KilledError(BaseException):
    """Stands for the end of the process: nothing catches it."""


def test_a_run_that_ends_at_any_write_is_completed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = exports(tmp_path / "in")
    ingest(tmp_path / "whole", CONFIG, **given)
    wanted = Store.open(tmp_path / "whole").digest()
    real, left = os.fsync, [0]

    def fsync(handle: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KilledError
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    ended = point = 0
    while not ended:
        point += 1
        store = tmp_path / str(point)
        left[0] = point
        try:
            ingest(store, CONFIG, **given)
            ended = point
        except KilledError:
            left[0] = 0
            ingest(store, CONFIG, **given)
        assert Store.open(store).digest() == wanted, f"killed at write {point}"
        assert not any((store / "staging").iterdir())
    assert ended > 20


RUN = (
    "import sys, pathlib; from pipelines.config import Config; from pipelines.ingest import ingest\n"
    "folder = pathlib.Path(sys.argv[1])\n"
    "print('ready', flush=True)\n"
    "ingest(pathlib.Path(sys.argv[2]), Config(), metrics=[folder / 'metrics'], logs=[folder / 'logs'])\n"
)


@pytest.mark.parametrize("seed", range(int(os.environ.get("FORESHOCK_KILLS", "2"))))
def test_a_run_killed_by_the_system_is_completed_by_the_next(tmp_path: Path, seed: int) -> None:
    """Killed at a random moment; FORESHOCK_KILLS says how many."""
    given = exports(tmp_path / "in")
    began = time.monotonic()
    ingest(tmp_path / "whole", CONFIG, **given)
    moment = random.Random(seed).uniform(0, time.monotonic() - began)  # noqa: S311  # any moment will do
    store = tmp_path / "s"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(tmp_path / "in"), str(store)], stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(moment)
        process.send_signal(signal.SIGKILL)
    ingest(store, CONFIG, **given)
    assert Store.open(store).digest() == Store.open(tmp_path / "whole").digest()


def test_exporters_scraped_one_after_another_are_not_taken_for_one_scraped_twice_as_often(tmp_path: Path) -> None:
    minutes = line([1.0] * 20, step=60_000) + line([1.0] * 20, first=T0 + 30_000, step=60_000, __name__="b")
    assert ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", minutes)])["scrape_seconds"] == 60.0


def test_another_step_gives_another_grid(tmp_path: Path) -> None:
    ingest(tmp_path / "s", CONFIG, metrics=[put(tmp_path / "m", line([1, 2]))], step=timedelta(seconds=15))
    assert Store.open(tmp_path / "s").panel("n1", T0 * NS, (T0 + 30_000) * NS).values.tolist() == [[1, 2]]


def test_the_real_servers_come_in_whole(tmp_path: Path, real_data: Path) -> None:
    report = ingest(
        tmp_path / "s",
        CONFIG,
        metrics=[real_data / "smd" / "metrics" / "machine-2-2.parquet"],
        incidents=real_data / "smd" / "incidents.csv",
    )
    item = report["inputs"][0]
    assert (item["read"], item["rejected"], report["series"]) == (item["ok"], {}, 38)
    assert len(Store.open(tmp_path / "s").incidents()) == 122


def test_the_real_pods_come_in_whole(tmp_path: Path, real_data: Path) -> None:
    report = ingest(tmp_path / "s", CONFIG, metrics=[real_data / "nezha" / "metrics"], incidents=None)
    assert (report["nodes"], report["errors"]) == (47, [])
    assert all(item["read"] == item["ok"] + sum(item["rejected"].values()) for item in report["inputs"])


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    put(tmp_path / "logs" / "journal", JOURNAL)
    pipe = tmp_path / "logs" / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError, match="no regular file; save what it gives to a file"):
        ingest(tmp_path / "s", CONFIG, logs=[pipe])
    with pytest.raises(InputError, match="no regular file"):
        ingest(tmp_path / "s", CONFIG, sessions=pipe)
    report = ingest(tmp_path / "s", CONFIG, logs=[tmp_path / "logs"])
    assert (report["log_lines"], len(report["errors"])) == (1, 1)


def test_utf_16_is_named_and_its_cure(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes("time,a\n2026-01-01T00:00:00Z,1\n".encode("utf-16"))
    with pytest.raises(InputError, match="this is UTF-16 text; save it as UTF-8"):
        ingest(tmp_path / "s", CONFIG, metrics=[tmp_path / "m.csv"])
