"""The made-up cluster: what its export holds, and that it stays hard without being perverse."""

import csv
import gzip
import hashlib
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pandas as pd
import pytest

from features import meaning
from features.settings import PanelSettings
from features.tables import UsageError
from pipelines.simulate import STUDY, Habits, benign, cluster, failures, jobs, simulate
from pipelines.simulate.catalogue import catalogue

SMALL: dict[str, Any] = {"nodes": 6, "gpus": 2, "days": 3.0, "failures": 12, "metrics": 60, "seed": 5}


@cache
def exported(path: Path) -> list[bytes]:
    with gzip.open(path) as stream:
        return stream.readlines()


def samples(out: Path, node: str = "", name: str = "") -> Iterator[tuple[dict[str, str], list[int], list[float]]]:
    start = b'{"metric":{"__name__":"' + name.encode() + (b'"' if name else b"")
    for path in sorted((out / "metrics").glob(f"{node}*.jsonl.gz")):
        for line in exported(path):
            if line.startswith(start):
                row = orjson.loads(line)
                yield row["metric"], row["timestamps"], row["values"]


def series(out: Path, name: str, node: str, **labels: str) -> pd.Series:
    """One series of a node over the whole export, by time."""
    times: list[int] = []
    values: list[float] = []
    for metric, stamps, numbers in samples(out, node, name):
        if labels.items() <= metric.items():
            times += stamps
            values += numbers
    return pd.Series(values, index=pd.to_datetime(times, unit="ms", utc=True), dtype=float).sort_index()


def lines(out: Path, node: str = "") -> list[dict[str, str]]:
    found = []
    for path in sorted((out / "logs").glob(f"{node}*.json.gz")):
        found += [orjson.loads(line) for line in exported(path)]
    return found


def first_gpus(out: Path) -> dict[str, str]:
    """The UUID of each node's GPU 0 at the start of the export."""
    first: dict[str, str] = {}
    for metric, _, _ in samples(out, "", "DCGM_FI_DEV_GPU_TEMP"):
        if metric["gpu"] == "0":
            first.setdefault(metric["Hostname"], metric["UUID"])
    return first


def digest(out: Path) -> dict[str, str]:
    paths = sorted(path for path in out.rglob("*") if path.is_file())
    return {str(path.relative_to(out)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("simulated") / "cluster"
    simulate(out, **SMALL)
    return out


@pytest.fixture(scope="module")
def truth(export: Path) -> dict[str, Any]:
    content: dict[str, Any] = orjson.loads((export / "truth.json").read_bytes())
    return content


@pytest.fixture(scope="module")
def sessions(export: Path) -> list[dict[str, str]]:
    with (export / "sessions.csv").open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wide") / "cluster"
    simulate(out, nodes=1, gpus=8, days=0.05, failures=0)
    return out


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(tmp_path: Path) -> None:
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        simulate(tmp_path / name, nodes=2, gpus=1, days=0.2, failures=1, metrics=12, seed=seed)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert digest(tmp_path / "a") != digest(tmp_path / "c")


def test_the_full_width_is_751_names_and_about_1500_series_a_node(wide: Path) -> None:
    found = {tuple(sorted(metric.items())) for metric, _, _ in samples(wide)}
    names = {dict(labels)["__name__"] for labels in found}
    distinct = {tuple(item for item in labels if item[0] not in {"pod", "namespace", "container"}) for labels in found}
    assert len(names) == 751
    assert 1400 <= len(distinct) <= 1700


def test_every_name_is_of_the_kind_that_its_name_tells() -> None:
    # exporters call clocks and flags gauges; here their steps are what counts
    stepping = {"node_time_seconds", "node_boot_time_seconds"}
    stepping |= {"DCGM_FI_DEV_ROW_REMAP_FAILURE", "DCGM_FI_DEV_ROW_REMAP_PENDING"}
    wrong = [one.name for one in catalogue() if meaning.kind(one.name, PanelSettings()) != one.kind]
    assert set(wrong) <= stepping


def test_memory_is_no_more_than_a_node_has(wide: Path) -> None:
    pages = ("node_vmstat_nr_", "node_zoneinfo_")
    for metric, _, values in samples(wide):
        name = metric["__name__"]
        if name.startswith(("node_memory_", *pages)) and not name.endswith("_total"):
            assert max(values) * (4096 if name.startswith(pages) else 1) < 4e12, name


def test_gpu_series_carry_the_labels_of_dcgm_exporter(wide: Path) -> None:
    metric = next(m for m, _, _ in samples(wide) if m["__name__"] == "DCGM_FI_DEV_GPU_TEMP" and m["gpu"] == "3")
    assert metric["UUID"].startswith("GPU-")
    assert metric["pci_bus_id"] == "00000000:5D:00.0"
    assert {"device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION", "job", "instance"} <= metric.keys()
    assert metric["device"] == "nvidia3"


def test_every_series_has_rising_times_and_as_many_values(wide: Path) -> None:
    for metric, times, values in samples(wide):
        assert len(times) == len(values), metric
        assert (np.diff(times) > 0).all(), metric


def test_a_narrow_export_keeps_the_first_names_which_cover_every_kind_of_failure() -> None:
    drivers = {metric.driver for metric in catalogue()[:60]}
    telling = {"temp", "sbe", "remap_cor", "crc_flit", "pcie_replay", "power_violation", "ib_err", "op_response", "xid"}
    assert telling <= drivers


def test_many_failures_are_of_at_least_eight_kinds(truth: dict[str, Any]) -> None:
    assert len(truth["failures"]) == 12
    assert len({failure["kind"] for failure in truth["failures"]}) >= 8


def test_a_quarter_of_the_failures_and_more_come_without_warning(truth: dict[str, Any]) -> None:
    silent = [failure for failure in truth["failures"] if failure["warning_start"] is None]
    assert len(silent) >= len(truth["failures"]) / 4
    assert all(not failure["signs"] and not failure["templates"] for failure in silent)


def test_warnings_vary_in_length_and_strength(truth: dict[str, Any]) -> None:
    minutes = [failure["warning_minutes"] for failure in truth["failures"] if failure["warning_minutes"]]
    strengths = {failure["strength"] for failure in truth["failures"] if failure["strength"]}
    assert max(minutes) > 2 * min(minutes)
    assert len(strengths) > 4


def test_a_failure_in_the_log_is_a_kernel_line_with_its_xid_at_its_time(export: Path, truth: dict[str, Any]) -> None:
    logged = [failure for failure in truth["failures"] if failure["in_log"]]
    assert logged
    for failure in logged:
        wanted = f"NVRM: Xid (PCI:{failure['pci']}): {failure['xid']},"
        found = [line for line in lines(export, failure["node"]) if line["MESSAGE"].startswith(wanted)]
        first = pd.Timestamp(int(found[0]["__REALTIME_TIMESTAMP"]), unit="us", tz="UTC")
        assert abs(first - pd.Timestamp(failure["time"])) < pd.Timedelta("2ms")
        assert found[0]["_TRANSPORT"] == "kernel"


def test_the_gauge_holds_a_code_after_a_failure_until_the_node_comes_up_again(
    export: Path, truth: dict[str, Any]
) -> None:
    failure = next(f for f in truth["failures"] if f["in_gauge"] and not f["vanishes"])
    gauge = series(export, "DCGM_FI_DEV_XID_ERRORS", failure["node"], UUID=failure["gpu"])
    after = gauge[pd.Timestamp(failure["time"]) + pd.Timedelta("1min") : pd.Timestamp(failure["rebooted"])]
    assert len(after) > 0
    assert set(after) <= set(map(float, failure["xids"]))
    assert gauge[pd.Timestamp(failure["rebooted"]) :].iloc[0] == 0


def test_the_series_of_a_lost_gpu_end_until_repair_while_its_siblings_go_on(
    export: Path, truth: dict[str, Any]
) -> None:
    lost = next(failure for failure in truth["failures"] if failure["vanishes"])
    gone = slice(pd.Timestamp(lost["time"]) + pd.Timedelta("33s"), pd.Timestamp(lost["repaired"]))
    own = series(export, "DCGM_FI_DEV_GPU_TEMP", lost["node"], UUID=lost["gpu"])
    node = series(export, "DCGM_FI_DEV_GPU_TEMP", lost["node"])
    assert own[gone].empty
    assert not node[gone].empty
    assert len(own[: gone.start]) > 0


def test_gpus_are_counted_anew_when_a_node_boots_without_one(export: Path, truth: dict[str, Any]) -> None:
    first = first_gpus(export)
    lost = [failure for failure in truth["failures"] if failure["vanishes"]]
    numbers: dict[str, set[str]] = {}
    for failure in lost:
        if failure["gpu"] != first[failure["node"]]:
            continue
        for metric, times, _ in samples(export, failure["node"], "DCGM_FI_DEV_GPU_TEMP"):
            start = pd.Timestamp(times[0], unit="ms", tz="UTC")
            if pd.Timestamp(failure["rebooted"]) < start < pd.Timestamp(failure["repaired"]):
                numbers.setdefault(failure["node"], set()).add(metric["gpu"])
    assert numbers
    assert all(found == {"0"} for found in numbers.values())


def test_raw_counters_restart_at_a_reboot(export: Path, truth: dict[str, Any]) -> None:
    failure = truth["failures"][0]
    counter = series(export, "node_context_switches_total", failure["node"])
    up = pd.Timestamp(failure["rebooted"])
    assert counter[up:].iloc[0] < counter[:up].iloc[-1] / 10
    assert (counter[: pd.Timestamp(failure["time"])].diff().dropna() >= 0).all()


def test_row_remaps_survive_a_reboot(export: Path, truth: dict[str, Any]) -> None:
    for failure in truth["failures"]:
        rows = series(export, "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", failure["node"], UUID=failure["gpu"])
        assert (rows.diff().dropna() >= 0).all()


def test_a_job_dies_with_its_node_and_comes_back_without_it(
    truth: dict[str, Any], sessions: list[dict[str, str]]
) -> None:
    gaps = []
    for failure in truth["failures"]:
        dead = [
            row
            for row in sessions
            if (row["job"], row["excluded"]) == (failure["job"], failure["node"])
            and failure["time"] < row["ended"] < failure["rebooted"]
        ]
        assert len(dead) == bool(failure["job"])
        for row in dead:
            again = [r for r in sessions if r["job"] == row["job"] and int(r["attempt"]) == int(row["attempt"]) + 1]
            for retry in again:
                assert failure["node"] not in retry["nodes"].split(";")
                gaps.append((pd.Timestamp(retry["started"]) - pd.Timestamp(row["ended"])).total_seconds() / 60)
    assert 9 <= np.median(gaps) <= 14


def test_no_node_works_for_two_jobs_at_once(sessions: list[dict[str, str]]) -> None:
    held = [(n, r["started"], r["ended"] or "9999") for r in sessions for n in r["nodes"].split(";")]
    for node in {node for node, _, _ in held}:
        spans = sorted((start, end) for name, start, end in held if name == node)
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))


def test_several_jobs_run_at_once(sessions: list[dict[str, str]]) -> None:
    middle = "2026-01-05T12:00:00Z"
    assert sum(row["started"] < middle < (row["ended"] or "9999") for row in sessions) >= 2


def test_sessions_and_logs_tell_the_same_starts(export: Path, sessions: list[dict[str, str]]) -> None:
    row = next(row for row in sessions if row["started"] > "2026-01-04T06")
    text = f"launch task StepId={row['job'].removeprefix('job-')}.{row['attempt']} "
    tellers = {line["_HOSTNAME"] for line in lines(export) if line["MESSAGE"].startswith(text)}
    assert tellers == set(row["nodes"].split(";"))


def test_the_pod_label_names_the_job_that_holds_the_gpu(export: Path, sessions: list[dict[str, str]]) -> None:
    row = next(row for row in sessions if row["started"] > "2026-01-04T06" and row["ended"])
    node = row["nodes"].split(";")[0]
    pods = [
        metric["pod"]
        for metric, times, _ in samples(export, node, "DCGM_FI_DEV_GPU_UTIL")
        if "pod" in metric
        and pd.Timestamp(row["started"]) <= pd.Timestamp(times[0], unit="ms", tz="UTC") < pd.Timestamp(row["ended"])
    ]
    assert {pod.rsplit("-worker-", 1)[0] for pod in pods} == {f"{row['job']}-{row['attempt']}"}


def test_gpus_rest_while_a_checkpoint_is_saved(export: Path, sessions: list[dict[str, str]]) -> None:
    saves = [line for line in lines(export) if line["MESSAGE"].startswith("saving checkpoint")]
    node = saves[0]["_HOSTNAME"]
    start = pd.Timestamp(int(saves[0]["__REALTIME_TIMESTAMP"]), unit="us", tz="UTC")
    busy = series(export, "DCGM_FI_DEV_GPU_UTIL", node, gpu="0")
    written = series(export, "node_mountstats_nfs_total_write_bytes_total", node).diff()
    assert busy[start : start + pd.Timedelta("40s")].max() < 50 < busy[: start - pd.Timedelta("2min")].iloc[-1]
    assert written[start + pd.Timedelta("20s") : start + pd.Timedelta("61s")].max() > 1e9
    assert sessions


def test_one_to_three_scrapes_in_a_hundred_are_missing(export: Path) -> None:
    up = series(export, "up", "gpunode01", job="node-exporter")
    expected = (up.index[-1] - up.index[0]) / pd.Timedelta("30s") + 1
    seen = series(export, "node_procs_running", "gpunode01")
    assert 0.002 < 1 - len(up) / expected < 0.03
    assert len(seen) == up.sum()


def test_the_truth_is_not_in_the_export(export: Path) -> None:
    names = {metric["__name__"] for metric, _, _ in samples(export, "gpunode01")}
    assert not {name for name in names if "fail" in name.lower()}
    words = ("warning", "benign", "healed", "precursor", "simulat")
    messages = "\n".join(line["MESSAGE"].lower() for line in lines(export))
    assert not [word for word in words if word in messages]


def test_user_errors_show_on_many_gpus_within_seconds(tmp_path: Path) -> None:
    simulate(tmp_path / "out", nodes=6, gpus=4, days=6, failures=0, metrics=1, step=timedelta(minutes=10), seed=3)
    found = [line for line in lines(tmp_path / "out") if "NVRM: Xid" in line["MESSAGE"]]
    codes = Counter(line["MESSAGE"].split("): ")[1].split(",")[0] for line in found)
    assert set(codes) <= {"13", "31", "43", "63", "94"}
    first = next(line for line in found if "): 63," not in line["MESSAGE"] and "): 94," not in line["MESSAGE"])
    near = [
        line
        for line in found
        if abs(int(line["__REALTIME_TIMESTAMP"]) - int(first["__REALTIME_TIMESTAMP"])) < 10_000_000
    ]
    assert len(near) > 3


def test_an_oracle_that_knows_the_metric_sees_the_strong_signs(export: Path, truth: dict[str, Any]) -> None:
    seen = total = 0
    for failure in truth["failures"]:
        for sign in failure["signs"]:
            if failure["strength"] < 0.6 or sign["driver"] not in {"pcie_replay", "crc_flit", "sbe", "ib_err"}:
                continue
            total += 1
            for name in sign["metrics"][:1]:
                labels = {"UUID": failure["gpu"]} if name.startswith("DCGM") else {}
                counter = series(export, name, failure["node"], **labels)
                start, end = pd.Timestamp(sign["start"]), pd.Timestamp(failure["time"])
                rise = counter[:end].iloc[-1] - counter[:start].iloc[-1]
                seen += rise > 0
    assert total
    assert seen >= 0.7 * total


def test_without_the_slot_limit_a_save_spends_its_time_in_the_server(tmp_path: Path) -> None:
    share = {}
    for slots in (128, 0):
        out = tmp_path / str(slots)
        simulate(out, nodes=1, gpus=1, days=0.2, failures=0, metrics=60, habits=Habits(rpc_slots=slots))
        prefix = "node_mountstats_nfs_operations_"
        queue = series(out, f"{prefix}queue_time_seconds_total", "gpunode01", operation="WRITE")
        whole = series(out, f"{prefix}request_time_seconds_total", "gpunode01", operation="WRITE")
        share[slots] = (queue.iloc[-1] - queue.iloc[0]) / (whole.iloc[-1] - whole.iloc[0])
    assert share[128] > 0.85
    assert share[0] < 0.2


def test_the_study_gives_its_counts_of_sessions_saves_and_exclusions() -> None:
    span = 55 * 86400.0
    nodes = cluster.build(63, 8, 30.0, STUDY, 1)
    plans = failures.plan(10, span, 1)
    aborts = benign.times(STUDY.user_errors * 63, span, 1, 1)
    told = jobs.schedule(nodes, span, plans, aborts, [], STUDY, 1)
    saves = sum(max(0, (min(a.ended, span) - a.started - a.profile.load) // a.profile.period) for a in told.attempts)
    excluded = Counter(node for attempt in told.attempts for node in attempt.excluded)
    assert 180 <= len(told.attempts) <= 290
    assert 450 <= saves <= 600
    assert sum(count for _, count in excluded.most_common(3)) > 0.45 * sum(excluded.values())


def test_another_width_changes_neither_failures_nor_sessions(tmp_path: Path) -> None:
    for metrics in (3, 40):
        simulate(tmp_path / str(metrics), nodes=3, gpus=1, days=1, failures=2, metrics=metrics)
    files = [(tmp_path / str(metrics) / "sessions.csv").read_bytes() for metrics in (3, 40)]
    times = [
        [failure["time"] for failure in orjson.loads((tmp_path / str(m) / "truth.json").read_bytes())["failures"]]
        for m in (3, 40)
    ]
    assert files[0] == files[1]
    assert times[0] == times[1]


@pytest.mark.parametrize("shape", [{"nodes": 1, "failures": 3}, {"nodes": 3, "failures": 0}, {"gpus": 0}, {"gpus": 1}])
def test_small_clusters_work(tmp_path: Path, shape: dict[str, int]) -> None:
    usual: dict[str, Any] = {"nodes": 2, "gpus": 2, "days": 1.0, "failures": 1, "metrics": 30}
    summary = simulate(tmp_path / "out", **(usual | shape))
    assert summary["samples"] > 0
    assert summary["failures"] == {1: 1, 3: 3, 0: 0}[shape.get("failures", 1)]
    assert (tmp_path / "out" / "sessions.csv").exists()


@pytest.mark.parametrize(
    ("wrong", "cure"),
    [
        ({"nodes": 0}, "--nodes"),
        ({"gpus": 99}, "--gpus"),
        ({"metrics": 800}, "751"),
        ({"step": timedelta(seconds=7)}, "30s"),
        ({"days": 0}, "--days"),
        ({"failures": -1}, "--failures"),
        ({"seed": -1}, "--seed"),
        ({"start": pd.Timestamp("2026-01-01")}, "2026-01-01T00:00:00Z"),
    ],
)
def test_a_wrong_argument_is_refused_with_the_cure(tmp_path: Path, wrong: dict[str, Any], cure: str) -> None:
    with pytest.raises(UsageError, match=cure):
        simulate(tmp_path / "out", **wrong)
    assert not (tmp_path / "out").exists()


def test_a_folder_with_an_export_is_not_written_over(tmp_path: Path) -> None:
    simulate(tmp_path, nodes=1, gpus=1, days=0.1, failures=0, metrics=2)
    with pytest.raises(UsageError, match="already"):
        simulate(tmp_path, nodes=1, gpus=1, days=0.1, failures=0, metrics=2)


def test_progress_counts_node_days(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    simulate(
        tmp_path / "out",
        nodes=2,
        gpus=1,
        days=1.5,
        failures=0,
        metrics=2,
        progress=lambda done, total: told.append((done, total)),
    )
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
