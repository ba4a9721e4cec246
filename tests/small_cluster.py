"""A cluster small enough to look at: five nodes of two GPUs, three hours over midnight, with all usual trouble."""

from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import EVENTS, FAILURES, GPUS, LOGS, Panel, Series, conform, to_ns, to_time
from pipelines.grid import DAY_NS, Cells
from pipelines.store import Store, frame_bytes, replace_file

STEP = 30_000_000_000
START, END = to_ns("2026-01-01T22:30:00Z"), to_ns("2026-01-02T01:30:00Z")
NODES = ("n1", "n2", "n3", "n4", "n5")
TIMES: NDArray[np.int64] = np.arange(START, END, STEP, dtype=np.int64)
NAN = float("nan")


def at(text: str) -> int:
    """The cell of a time such as 23:15 (the first day) or 00:15 (the second)."""
    day = "2026-01-01" if text >= "12:00" else "2026-01-02"
    return (to_ns(f"{day}T{text}:00Z") - START) // STEP


def panel(node: str) -> Panel:
    """Raw values: n2 is down for a while, a GPU of n3 goes, n4 reboots, an exporter of n5 stops."""
    rng = np.random.default_rng(NODES.index(node))
    cells = len(TIMES)
    rows: dict[Series, NDArray[np.float64]] = {
        Series("node_load1"): rng.normal(40, 2, cells),
        Series("node_intr_total"): np.cumsum(rng.integers(250_000, 300_000, cells)).astype(float),
        Series('node_cpu_seconds_total{cpu="0"}'): np.cumsum(rng.integers(20, 30, cells)).astype(float),
        Series('node_cpu_seconds_total{cpu="1"}'): np.cumsum(rng.integers(20, 30, cells)).astype(float),
        Series("node_mountstats_nfs_total_write_bytes_total"): np.cumsum(rng.integers(0, 9, cells) * 1e9),
        Series('up{job="dcgm"}'): np.ones(cells),
    }
    for gpu in (f"GPU-{node}a", f"GPU-{node}b"):
        rows[Series("DCGM_FI_DEV_GPU_TEMP", gpu)] = rng.normal(60, 3, cells).round()
        rows[Series("DCGM_FI_DEV_GPU_UTIL", gpu)] = np.where(np.arange(cells) > at("23:30"), 97.0, 2.0)
        rows[Series("DCGM_FI_DEV_POWER_USAGE", gpu)] = rng.normal(600, 20, cells)
        rows[Series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", gpu)] = np.cumsum(rng.random(cells) < 0.02).astype(float)
        rows[Series("DCGM_FI_DEV_XID_ERRORS", gpu)] = np.zeros(cells)
    mount = '{mountaddr="10.0.0.1",operation="WRITE"}'
    for what, most in (("response", 30), ("queue", 90)):
        name = f"node_mountstats_nfs_operations_{what}_time_seconds_total{mount}"
        rows[Series(name)] = np.cumsum(rng.random(cells) * most)
    values = np.array(list(rows.values()))
    values[:, rng.random(cells) < 0.02] = NAN
    values[rng.random(values.shape) < 0.01] = NAN
    of_gpu = np.array([bool(series.gpu) for series in rows])
    if node == "n2":
        values[:, at("23:40") : at("23:59")] = NAN
    if node == "n3":
        values[[series.gpu == "GPU-n3b" for series in rows], at("00:30") :] = NAN
    if node == "n4":
        values[1:5, at("00:10") :] -= values[1:5, at("00:10"), None]
        values[1:5] = np.maximum(values[1:5], 0)
    if node == "n5":
        values[of_gpu, at("00:50") :] = NAN
        values[5, at("00:50") :] = 0
    return Panel(node, TIMES, tuple(rows), values)


def gpus() -> pd.DataFrame:
    """`GPUS` of the cluster."""
    first = to_time(START)
    rows = [
        {
            "node": node,
            "gpu": f"GPU-{node}{gpu}",
            "pci": f"0000:{pci}:00",
            "first": first,
            "last": to_time(END),
        }
        for node in NODES
        for gpu, pci in (("a", "1b"), ("b", "4e"))
    ]
    return conform(pd.DataFrame(rows), GPUS)


def logs() -> pd.DataFrame:
    """A few lines a minute on every node."""
    rng = np.random.default_rng(9)
    rows = [
        {
            "node": node,
            "time": to_time(int(time)),
            "source": "kernel",
            "severity": "info",
            "message": f"nfs: server s{rng.integers(9)} not responding, timed out" if rng.random() < 0.1 else "link up",
            "kernel": True,
            "count": 1,
        }
        for node in NODES
        for time in np.sort(rng.integers(START, END, 200))
    ]
    return conform(pd.DataFrame(rows), LOGS)


def failures() -> pd.DataFrame:
    """One incident: n3 at 00:30."""
    time = pd.Timestamp("2026-01-02T00:30:00Z")
    row = {"failure": "f", "time": time, "end": time, "node": "n3", "nodes": ["n3"], "gpu": "GPU-n3b", "xid": 79}
    return conform(pd.DataFrame([row]), FAILURES)


def events() -> pd.DataFrame:
    """A remap on n3 before its failure, and the failure's line."""
    rows = [
        {"node": "n3", "time": pd.Timestamp(time), "last": pd.Timestamp(time), "xid": xid, "kind": kind, "count": 1}
        for time, xid, kind in (("2026-01-01T23:50:00Z", 63, "degradation"), ("2026-01-02T00:30:00Z", 79, "hardware"))
    ]
    return conform(pd.DataFrame(rows), EVENTS)


def store(path: Path) -> Store:
    """The cluster in a store of its own."""
    made = Store.create(path, STEP)
    for node in NODES:
        whole = panel(node)
        for day in (START // DAY_NS, END // DAY_NS):
            cells = Cells(day * DAY_NS, (day + 1) * DAY_NS, STEP)
            for series, values in zip(whole.series, whole.values, strict=True):
                known = ~np.isnan(values)
                cells.add(series, TIMES[known], values[known])
            made.merge_day(node, day, cells)
    replace_file(made.path / "gpus.parquet", frame_bytes(gpus()))
    lines = logs()
    days = lines["time"].astype("int64") // DAY_NS
    for node in NODES:
        for day in days.unique().tolist():
            replace_file(made.logs_path(node, day), frame_bytes(lines[(lines["node"] == node) & (days == day)]))
    return made
