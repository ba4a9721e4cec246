"""Failures of a whole store: lines, gauge, vanished GPUs and tickets together, and why each event is or isn't one."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features.settings import LabelSettings
from features.tables import EVENTS, FAILURES, check
from pipelines import failures
from pipelines.config import Config, load
from pipelines.ingest import ingest
from pipelines.store import Store

T0 = 1_767_261_600_000  # 2026-01-01T10:00:00Z in milliseconds
GAUGE = "DCGM_FI_DEV_XID_ERRORS"
LOST = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=a, GPU has fallen off the bus."


def series(metric: str, values: list[float], first: int = T0, step: int = 15_000, **labels: str) -> str:
    """A line of VictoriaMetrics' export, of GPU-aaaa on n1 unless said otherwise."""
    named = {"__name__": metric, "Hostname": "n1", "UUID": "GPU-aaaa", "pci_bus_id": "00000000:4E:00.0", **labels}
    stamps = [first + number * step for number in range(len(values))]
    return json.dumps({"metric": named, "values": values, "timestamps": stamps}, separators=(",", ":")) + "\n"


def line(seconds: float, message: str, node: str = "n1") -> str:
    """A kernel line, so many seconds after ten."""
    time = pd.Timestamp(T0, unit="ms", tz="UTC") + pd.Timedelta(seconds=seconds)
    return f"{time:%Y-%m-%dT%H:%M:%S.%fZ} {node} kernel: {message}\n"


def stored(
    folder: Path, metrics: str = "", logs: str = "", incidents: str = "", config: Config | None = None
) -> tuple[Store, Config]:
    given: dict[str, Any] = {}
    for name, text in (("metrics", metrics), ("logs", logs)):
        if text:
            (folder / name).write_text(text)
            given[name] = [folder / name]
    if incidents:
        (folder / "incidents.csv").write_text(incidents)
        given["incidents"] = folder / "incidents.csv"
    config = config or Config()
    ingest(folder / "store", config, **given)
    return Store.open(folder / "store"), config


def found(store: Store, config: Config, preset: str | None = None) -> pd.DataFrame:
    return check(failures.failures(store, config, preset), FAILURES)


def labels(**settings: Any) -> Config:
    return Config().model_copy(update={"labels": LabelSettings(**settings)})


@pytest.mark.parametrize("step", [15_000, 7_000])
def test_a_code_that_only_the_gauge_shows_is_a_failure_even_in_the_first_cell(tmp_path: Path, step: int) -> None:
    """C20."""
    failure = found(*stored(tmp_path, series(GAUGE, [0, 79, 79], step=step)))
    assert failure[["xid", "origin", "gpu"]].to_numpy().tolist() == [[79, "gauge", "GPU-aaaa"]]
    assert (failure["time"] - pd.Timestamp(T0, unit="ms", tz="UTC")).dt.total_seconds().tolist() == [
        2 * step / 1000 if step == 7_000 else 15
    ]


def test_a_code_that_was_there_when_the_data_begin_is_no_failure(tmp_path: Path) -> None:
    assert found(*stored(tmp_path, series(GAUGE, [79, 79, 79]))).empty


def test_the_first_code_is_the_same_whichever_input_comes_first(tmp_path: Path) -> None:
    early, late = series(GAUGE, [0]), series(GAUGE, [79, 79], first=T0 + 15_000)
    for name, order in (("a", (early, late)), ("b", (late, early))):
        (tmp_path / name).mkdir()
        for text in order:
            store, config = stored(tmp_path / name, text)
        assert found(store, config)["xid"].tolist() == [79]
    assert len({Store.open(tmp_path / name / "store").digest() for name in "ab"}) == 1


def test_a_gauge_of_zeros_and_a_line_of_xid_0_are_no_events(tmp_path: Path) -> None:
    """C13."""
    store, config = stored(tmp_path, series(GAUGE, [0] * 240), line(5, "NVRM: Xid (PCI:0000:4e:00): 0, no error"))
    assert check(failures.events(store, config), EVENTS).empty


def test_line_and_gauge_of_one_code_are_one_failure_at_the_line_s_time(tmp_path: Path) -> None:
    """C20, C14: the GPU is gone from the metrics when its line comes, and keeps its name."""
    failure = found(*stored(tmp_path, series(GAUGE, [0, 0, 79]), line(29, LOST) + line(2000, "eth0: link up")))
    assert failure[["xid", "origin", "gpu"]].to_numpy().tolist() == [[79, "log+gauge", "GPU-aaaa"]]
    assert failure["time"].dt.second.tolist() == [29]


def test_errors_of_programs_are_no_failures_and_the_double_bit_error_is(tmp_path: Path) -> None:
    """C09, C10."""
    lines = (
        line(0, "NVRM: Xid (PCI:0000:1a:00): 31, pid=9, name=t, MMU Fault")
        + line(20, "NVRM: Xid (PCI:0000:1b:00): 31, pid=9, name=t, MMU Fault")
        + "".join(line(at, "NVRM: Xid (PCI:0000:1a:00): 45, pid=9, name=t, Ch 00000008") for at in (21, 22, 23))
        + line(9000, "NVRM: Xid (PCI:0000:1a:00): 48, pid=9, name=t, DBE")
    )
    store, config = stored(tmp_path, logs=lines)
    assert found(store, config)["xid"].tolist() == [48]
    *others, last = failures.explain(store, config)
    assert all("is no failure: it comes from a program or follows another error" in row["why"] for row in others)
    assert "is the first line of failure 20260101T123000Z-n1" in last["why"]


def test_a_repeat_told_by_syslog_counts_in_its_incident(tmp_path: Path) -> None:
    """C16."""
    message = "NVRM: Xid (PCI:0000:4e:00): 92, pid=1, name=a, High single-bit ECC rate"
    store, config = stored(tmp_path, logs=line(0, message) + line(30, f"message repeated 4 times: [ {message}]"))
    (event,) = failures.events(store, config).to_dict("records")
    assert (event["xid"], event["count"], event["kind"]) == (92, 5, "degradation")


def test_a_flood_is_one_failure_that_is_not_its_own_sign(tmp_path: Path) -> None:
    """C08."""
    flood = "".join(
        line(number / 10, "NVRM: Xid (PCI:0000:4e:00): 95, pid=77, name=t, Uncontained") for number in range(5000)
    )
    (failure,) = found(*stored(tmp_path, logs=flood)).to_dict("records")
    assert (failure["xid"], failure["count"]) == (95, 5000)
    assert (failure["end"] - failure["time"]).total_seconds() == pytest.approx(499.9)


def test_a_gpu_that_vanishes_beside_its_siblings_is_a_failure_without_a_code(tmp_path: Path) -> None:
    """C26 (a), E12."""
    metrics = series("DCGM_FI_DEV_GPU_TEMP", [40] * 60, step=30_000) + series(
        "DCGM_FI_DEV_GPU_TEMP", [40] * 120, step=30_000, UUID="GPU-bbbb", pci_bus_id="00000000:5E:00.0"
    )
    failure = found(*stored(tmp_path, metrics))
    assert failure[["gpu", "pci", "origin"]].to_numpy().tolist() == [["GPU-aaaa", "0000:4e:00", "absence"]]
    assert failure["xid"].isna().all()


TICKETS = "node,start,end,kind\nn1,2026-01-01T12:00:00Z,2026-01-01T13:00:00Z,cable\n"


def test_tickets_are_more_failures_beside_those_found(tmp_path: Path) -> None:
    failure = found(*stored(tmp_path, logs=line(0, LOST), incidents=TICKETS))
    assert failure["origin"].tolist() == ["log", "given"]


def test_tickets_may_be_the_only_failures(tmp_path: Path) -> None:
    store, config = stored(tmp_path, logs=line(0, LOST), incidents=TICKETS, config=labels(given="instead"))
    assert found(store, config)[["origin", "kind"]].to_numpy().tolist() == [["given", "cable"]]
    (said,) = failures.explain(store, config)
    assert said["why"].endswith("labels.given = 'instead' counts only incidents that were given")


def test_onsets_that_were_given_are_failures_in_either_way(tmp_path: Path) -> None:
    onsets = "time,node,gpu_index,xid\n2026-01-01T12:00:00Z,n1,3,79\n2026-01-01T12:30:00Z,n1,3,31\n"
    store, config = stored(tmp_path, logs=line(0, LOST), incidents=onsets, config=labels(given="instead"))
    assert found(store, config)["time"].dt.hour.tolist() == [12]


def test_an_unknown_code_is_kept_and_no_failure(tmp_path: Path) -> None:
    """C11."""
    store, config = stored(tmp_path, logs=line(0, "NVRM: Xid (PCI:0000:3b:00): 9999, something new"))
    assert failures.events(store, config)[["xid", "kind"]].to_numpy().tolist() == [[9999, "unknown"]]
    assert found(store, config).empty
    assert found(store, config, "all")["xid"].tolist() == [9999]


def test_the_user_s_catalogue_goes_before_ours(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text(
        "# ours\ncode,class,action,meaning\n9999,hardware,RESET_GPU,a new error\n79,application,,\n"
    )
    (tmp_path / "foreshock.toml").write_text('[labels]\ncatalogue = "codes.csv"\n')
    logs = line(0, "NVRM: Xid (PCI:0000:3b:00): 9999, something new") + line(900, LOST)
    store, config = stored(tmp_path, logs=logs, config=load(tmp_path / "foreshock.toml"))
    (failure,) = found(store, config).to_dict("records")
    assert (failure["xid"], failure["kind"], failure["recovery_action"]) == (9999, "hardware", "RESET_GPU")
    assert failures.explain(store, config)[0]["why"].startswith("XID 9999 (a new error) is the first line of failure")
    assert failures.events(store, config)["kind"].tolist() == ["hardware", "application"]


def test_what_came_of_a_failed_node_is_told_by_its_gpus(tmp_path: Path) -> None:
    # away from 10:30 to 11:00, the failure is at 10:29
    metrics = series("DCGM_FI_DEV_GPU_TEMP", [40] * 60, step=30_000) + series(
        "DCGM_FI_DEV_GPU_TEMP", [40] * 400, step=30_000, first=T0 + 3_600_000
    )
    store, config = stored(tmp_path, metrics, line(1740, LOST))
    (failure,) = failures.with_repairs(store, config, found(store, config)).to_dict("records")
    assert failure["repaired"] == pd.Timestamp("2026-01-01T11:00:00Z")
    assert failure["repair_minutes"] == 31
    assert (failure["left_censored"], failure["right_censored"]) == (True, False)


@pytest.mark.parametrize("hours_away", [7, 55])
def test_a_node_that_is_down_at_midnight_is_repaired_on_a_later_day(tmp_path: Path, hours_away: int) -> None:
    """The failure comes at 22:00; until the node is up again there is no sample."""
    temperatures = [
        series("DCGM_FI_DEV_GPU_TEMP", [40] * 480, first=T0 + after * 3_600_000, step=30_000)
        for after in (8, 12 + hours_away)
    ]
    store, config = stored(tmp_path, "".join(temperatures), line(12 * 3600, LOST))
    (failure,) = failures.with_repairs(store, config, found(store, config)).to_dict("records")
    assert failure["repair_minutes"] == hours_away * 60
    assert not failure["right_censored"]


def test_a_node_that_does_not_come_back_is_censored(tmp_path: Path) -> None:
    store, config = stored(tmp_path, series("DCGM_FI_DEV_GPU_TEMP", [40] * 600, step=30_000), line(17_900, LOST))
    (failure,) = failures.with_repairs(store, config, found(store, config)).to_dict("records")
    assert pd.isna(failure["repaired"])
    assert (failure["left_censored"], failure["right_censored"]) == (False, True)


def test_a_node_that_is_said_to_be_down_until_the_data_end_is_censored(tmp_path: Path) -> None:
    """Its GPUs go five minutes after the failure at 11:00; its target is down until 15:00."""
    metrics = series("DCGM_FI_DEV_GPU_TEMP", [40] * 130, step=30_000) + json.dumps(
        {
            "metric": {"__name__": "up", "job": "dcgm", "Hostname": "n1"},
            "values": [1] * 130 + [0] * 470,
            "timestamps": [T0 + 30_000 * number for number in range(600)],
        }
    )
    store, config = stored(tmp_path, metrics, line(3600, LOST))
    (failure,) = failures.with_repairs(store, config, found(store, config)).to_dict("records")
    assert pd.isna(failure["repaired"])
    assert failure["right_censored"]


def test_a_failure_whose_gpus_never_left_has_no_repair_time(tmp_path: Path) -> None:
    store, config = stored(tmp_path, series("DCGM_FI_DEV_GPU_TEMP", [40] * 900, step=30_000), line(18_000, LOST))
    (failure,) = failures.with_repairs(store, config, found(store, config)).to_dict("records")
    assert pd.isna(failure["repair_minutes"])
    assert (failure["left_censored"], failure["right_censored"]) == (False, False)


def test_what_makes_the_events_doubtful_is_said(tmp_path: Path) -> None:
    lines = (
        line(420, LOST) + line(9000, "NVRM: Xid (PCI:zz:3b:00): 79,") + line(9001, "NVRM: Xid (PCI:0000:4e:00): 0, x")
    )
    store, config = stored(tmp_path, series(GAUGE, [0.0, 0.0] + [79.0] * 60), lines)
    counts: Counter[str] = Counter()
    clock, *unread = reversed(failures.doubts(failures.events(store, config, counts), counts))
    assert clock.startswith("n1: its log tells an XID 6 minutes after its metrics do; if its clocks are apart")
    assert unread == [
        "lines that speak of an XID and gave no event, as XID 0 is no error: 1",
        "lines that speak of an XID and gave no event, as they are cut or garbled: 1",
    ]


@pytest.mark.parametrize(("away", "count"), [(True, 1), (False, 0)], ids=["node rebooted", "node went on"])
def test_an_nvlink_error_on_the_gauge_alone_counts_when_the_node_went_away(
    tmp_path: Path, away: bool, count: int
) -> None:
    codes = [0.0] * 41 + [149.0] * 39
    back = T0 + (80 + 40 * away) * 15_000  # ten minutes later, or at once
    metrics = series(GAUGE, codes) + series(GAUGE, [0.0] * 40, first=back)
    store, config = stored(tmp_path, metrics)
    table = found(store, config)
    assert len(table) == count
    counts: Counter[str] = Counter()
    events = failures.events(store, config, counts)
    doubts = failures.doubts(events, counts)
    if away:
        assert table["time"].item() == pd.Timestamp(T0 + 41 * 15_000, unit="ms", tz="UTC")
        assert "GPUs of the node went away" in failures.explain(store, config)[0]["why"]
        assert not doubts
    else:
        assert "labels.hardware = [149]" in doubts[0]
