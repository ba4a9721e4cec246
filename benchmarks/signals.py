"""The signals against their rivals and against the disk, in CPU-seconds: ``python -m benchmarks.signals --json``.

All get the same windows (20 minutes of a 30 s grid, one every 5 minutes) and, but for pycatch22, the same
columns: foreshock's default set for gauges. tsflex and pycatch22 (extra `bench`) are measured where they are installed.
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

from features import matrix, presence, signals
from features.matrix import cover
from features.panel import clean
from features.settings import SignalSettings
from pipelines import rows
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.ingest import ingest
from pipelines.panel_files import read_values
from pipelines.simulate import simulate
from pipelines.store import Store

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
    parser.add_argument("--store", type=Path, help="whose first node-day is measured; without it one is made up")
    wanted = parser.parse_args()
    warnings.simplefilter("ignore")
    result: Found = {
        "load_average": os.getloadavg()[0],
        "contenders": contenders(wanted.windows),
        "node_day": node_day(wanted.store),
    }
    if wanted.json:
        print(json.dumps(result, indent=2))
        return
    for name, found in result["contenders"].items():
        print(f"{name:24s} {found if isinstance(found, str) else _line(found)}")
    day = result["node_day"]
    print(f"node-day of {day['series']} series to {day['columns']} columns of {day['windows']} windows:")
    print("  ".join(f"{name.removesuffix('_seconds')} {day[name]:.3f} s" for name in day if name.endswith("_seconds")))
    print(f"rows take {day['rows_over_read']:.1f} times the read")


def _line(found: Found) -> str:
    rate, times = found["windows_per_cpu_second"], found["foreshock_is"]
    return f"{rate:>12,.0f} windows a CPU-second, foreshock is {times:,.0f} times as fast"


def bounds(cells: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last cells of the windows within so many cells."""
    ends = np.arange(LENGTH, cells + 1, STRIDE, dtype=np.int64)
    return ends - LENGTH, ends


def cpu_seconds(work: Callable[[], Any], times: int = 3) -> float:
    """CPU time of the work, children included: the least of several runs."""
    found = []
    for _ in range(times):
        before = os.times()
        work()
        found.append(sum(os.times()[:4]) - sum(before[:4]))
    return min(found)


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


def node_day(path: Path | None) -> Found:
    """One node's day of a store: reading its Parquet file from the page cache against making its rows.

    Without a store a made-up node-day at full width is taken in first.
    """
    with tempfile.TemporaryDirectory() as folder:
        if path is None:
            path = Path(folder) / "store"
            simulate(Path(folder) / "export", nodes=1, days=1, failures=0)
            ingest(path, Config(), metrics=[Path(folder) / "export" / "metrics"])
        store = Store.open(path)
        node = store.nodes()[0]
        day, settings = store.days(node)[0], Config().features
        ends = np.arange(1, 289, dtype=np.int64) * (DAY_NS // 288) + day * DAY_NS
        roster, low = presence.roster(store.gpus(), node), int(ends[0]) - matrix.reach(settings)
        read = best_cpu_seconds(lambda: read_values(store.panel_path(node, day)))
        raw = store.panel(node, low, int(ends[-1]))

        def compute() -> pd.DataFrame:
            return matrix.node_rows(raw, ends, settings, roster, step_ns=store.step_ns)

        made = compute()
        parts = {
            "clean": lambda: clean(cover(raw, low, int(ends[-1]), store.step_ns), settings.panel),
            "presence": lambda: presence.columns(raw, ends, settings, roster),
            "rows": compute,
            "write": lambda: rows.write(made, ends),
        }
        took = {f"{name}_seconds": best_cpu_seconds(work) for name, work in parts.items()}
        return {
            "series": len(raw.series),
            "windows": len(ends),
            "columns": made.shape[1],
            "file_bytes": store.panel_path(node, day).stat().st_size,
            "rows_bytes": len(rows.write(made, ends)),
            "read_seconds": read,
            **took,
            "rows_over_read": took["rows_seconds"] / read,
        }


if __name__ == "__main__":
    main()
