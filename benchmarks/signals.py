"""The signals against their rivals and against the disk, in CPU-seconds: ``python -m benchmarks.signals --json``.

All get the same windows (20 minutes of a 30 s grid, one every 5 minutes) and, but for pycatch22, the same
columns: foreshock's default set for gauges. tsflex and pycatch22 are measured where they are installed.
The CPU time is that of the process and its children, so tsfresh's worker processes count.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from tsfresh import extract_features

from features import signals
from features.panel import clean
from features.settings import PanelSettings, SignalSettings
from features.tables import Panel, Series
from pipelines.grid import DAY_NS, Cells
from pipelines.panel_files import read_values, write_day

STEP_NS = 30_000_000_000
LENGTH, STRIDE = 40, 10  # cells: 20 minutes, every 5 minutes
DAY = DAY_NS // STEP_NS
SETS = SignalSettings()
Floats = NDArray[np.float64]
Found = dict[str, Any]


def main() -> None:
    """Print one line per contender, or all as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--windows", type=int, default=2000, help="windows given to the slow contenders")
    parser.add_argument("--series", type=int, default=1500, help="series of the node-day")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    result: Found = {
        "load_average": os.getloadavg()[0],
        "contenders": contenders(wanted.windows),
        "node_day": node_day(wanted.series),
    }
    if wanted.json:
        print(json.dumps(result, indent=2))
        return
    for name, found in result["contenders"].items():
        print(f"{name:24s} {found if isinstance(found, str) else _line(found)}")
    day = result["node_day"]
    print(f"node-day of {day['series']} series: read {day['read_seconds']:.3f} s, clean {day['clean_seconds']:.3f} s,")
    print(f"signals {day['signals_seconds']:.3f} s, {day['signals_over_read']:.2f} of the read")


def _line(found: Found) -> str:
    rate, times = found["windows_per_cpu_second"], found["foreshock_is"]
    return f"{rate:>12,.0f} windows a CPU-second, foreshock is {times:,.0f} times as fast"


def bounds(cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last cells of the windows within so many cells."""
    ends = np.arange(LENGTH, cells + 1, STRIDE, dtype=np.int64)
    return ends - LENGTH, ends


def cpu_seconds(work: Callable[[], Any]) -> float:
    """CPU time of the work, children included."""
    before = os.times()
    work()
    after = os.times()
    return sum(after[:4]) - sum(before[:4])


def best_cpu_seconds(work: Callable[[], Any], times: int = 7) -> float:
    """The least of several runs, by the clock that counts nanoseconds; a neighbour on the machine only adds."""
    found = []
    for _ in range(times):
        before = time.process_time_ns()
        work()
        found.append((time.process_time_ns() - before) / 1e9)
    return min(found)


def contenders(count: int) -> Found:
    """Windows a CPU-second of each, and how many times as fast foreshock is."""
    random = np.random.default_rng(0)
    starts, ends = bounds(DAY)
    values = random.normal(size=(256, DAY)).cumsum(axis=1)
    few = -(-count // len(ends))
    signals.columns(values[:1], starts, ends, SETS.gauge)  # compile
    ours = values.shape[0] * len(ends) / best_cpu_seconds(lambda: signals.columns(values, starts, ends, SETS.gauge))
    rivals: dict[str, Callable[[Floats], Any] | None] = {
        "tsfresh, n_jobs=0": lambda rows: run_tsfresh(rows, 0),
        "tsfresh, n_jobs=2": lambda rows: run_tsfresh(rows, 2),
        "tsflex": run_tsflex if importlib.util.find_spec("tsflex") else None,
        "pycatch22, its own 22": run_catch22 if importlib.util.find_spec("pycatch22") else None,
    }
    found: Found = {"foreshock": {"windows_per_cpu_second": ours, "foreshock_is": 1.0}}
    for name, run in rivals.items():
        if run is None:
            found[name] = "not installed"
            continue
        run(values[:1, : 3 * LENGTH])
        rate = few * len(ends) / cpu_seconds(lambda run=run: run(values[:few]))  # type: ignore[misc]  # bound now
        found[name] = {"windows_per_cpu_second": rate, "foreshock_is": ours / rate}
    return found


def _windows(rows: Floats) -> Floats:
    starts, _ = bounds(rows.shape[1])
    return np.stack([row[start : start + LENGTH] for row in rows for start in starts])


def run_tsfresh(rows: Floats, jobs: int) -> pd.DataFrame:
    """The loop of tsfresh, a window an id."""
    samples = _windows(rows)
    frame = pd.DataFrame({"id": np.repeat(np.arange(len(samples)), LENGTH), "value": samples.ravel()})
    found: pd.DataFrame = extract_features(
        frame, column_id="id", default_fc_parameters=SETS.gauge, n_jobs=jobs, disable_progressbar=True
    )
    return found


def run_tsflex(rows: Floats) -> None:
    """Strides of tsflex over each series, with tsfresh's calculators."""
    features = importlib.import_module("tsflex.features")
    wrap = importlib.import_module("tsflex.features.integrations").tsfresh_settings_wrapper
    step = pd.Timedelta(STEP_NS)
    collection = features.FeatureCollection(
        features.MultipleFeatureDescriptors(
            functions=wrap(SETS.gauge), series_names="value", windows=LENGTH * step, strides=STRIDE * step
        )
    )
    times = pd.date_range("2026-01-01", periods=rows.shape[1], freq=step)
    for row in rows:
        collection.calculate(pd.Series(row, times, name="value"), n_jobs=0, show_progress=False)


def run_catch22(rows: Floats) -> None:
    """catch22's own columns on the same windows."""
    everything = importlib.import_module("pycatch22").catch22_all
    for samples in _windows(rows):
        everything(samples.tolist())


def node_day(count: int) -> Found:
    """One node's day: reading its Parquet file from the page cache against computing its columns."""
    panel, half = made_up_day(count), count // 2
    cells = Cells(0, DAY_NS, STEP_NS)
    for series, row in zip(panel.series, panel.values, strict=True):
        cells.put(series, row, np.where(np.isnan(row), -1, panel.times))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "1970-01-01.parquet"
        path.write_bytes(write_day(cells, STEP_NS))
        size = path.stat().st_size
        read = best_cpu_seconds(lambda: read_values(path), times=5)
    settings = PanelSettings()
    starts, ends = bounds(DAY)

    def compute() -> None:
        signals.columns(panel.values[:half], starts, ends, SETS.gauge)
        signals.columns(panel.values[half:], starts, ends, SETS.counter)

    compute()
    computed = best_cpu_seconds(compute, times=5)
    return {
        "series": count,
        "windows": len(ends),
        "file_bytes": size,
        "read_seconds": read,
        "clean_seconds": best_cpu_seconds(lambda: clean(panel, settings), times=3),
        "signals_seconds": computed,
        "signals_over_read": computed / read,
    }


def made_up_day(count: int) -> Panel:
    """Half gauges to two decimals, half counters, one sample in a hundred missing."""
    random = np.random.default_rng(1)
    values = random.normal(size=(count, DAY)).cumsum(axis=1).round(2)
    values[count // 2 :] = random.integers(0, 10_000, (count - count // 2, DAY)).cumsum(axis=1)
    values[random.random(values.shape) < 0.01] = np.nan
    names = [f"gauge_{k:04d}" if k < count // 2 else f"requests_{k:04d}_total" for k in range(count)]
    times = np.arange(DAY, dtype=np.int64) * STEP_NS
    return Panel("node", times, tuple(Series(name) for name in names), values)


if __name__ == "__main__":
    main()
