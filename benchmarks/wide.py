"""What judging and freezing cost on a matrix of many windows and columns, by stage.

    python -m benchmarks.wide --windows 1000000 --columns 3000 [--failures 10] [--folder DIR]

The matrix is made up and lies in a file: noise about each node's own level, with one metric moved for 40 minutes
before each failure. Windows are of 63 nodes, one every five minutes. What is measured is what `foreshock train` does
with a matrix: `crossfit.run` with the models it trains by default and all baselines (quiet windows thinned with
weights, all windows scored), `evaluation.judge` of each, the scores' table, the line-up fitted on everything, and the
other protocols. Making the matrix, log templates and explanations are not part of it.
"""

from __future__ import annotations

import argparse
import re
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import names, presence
from features.labels import label
from features.settings import LabelSettings, WindowSettings
from features.tables import FAILURES, conform
from features.windows import make
from models import crossfit, evaluation, protocols, splits
from models.lineup import BASELINES, NAMES, Lineup
from models.settings import EvaluationSettings, ModelSettings
from models.splits import Fold
from models.telling import Told
from pipelines import experiment
from pipelines.frozen import Usual

NODES = 63
START = pd.Timestamp("2026-01-01T00:00Z")
CALCULATORS = ("mean", "maximum", "minimum", "standard_deviation", 'linear_trend__attr_"slope"')
ROWS = 20_000
_PEAK = [0]  # MiB


def windows_of(count: int) -> pd.DataFrame:
    """About so many windows, of all nodes."""
    length = 1_200_000_000_000 + count // NODES * 300_000_000_000
    return make([f"node{number:02d}" for number in range(NODES)], START.value, START.value + length, WindowSettings())


def failures_of(count: int, windows: pd.DataFrame) -> pd.DataFrame:
    """Failures spread over the time, of five codes, each on another node."""
    first, last = windows["end"].min(), windows["end"].max()
    times = [first + (last - first) * (number + 0.5) / count for number in range(count)]
    frame = pd.DataFrame({"failure": [f"f{number}" for number in range(count)], "time": times, "end": times})
    frame["node"] = [f"node{number * 7 % NODES:02d}" for number in range(count)]
    frame["nodes"] = [[node] for node in frame["node"]]
    frame["xid"] = pd.array([(79, 48, 119, 95, 74)[number % 5] for number in range(count)], dtype="Int64")
    frame["xids"] = [[int(code)] for code in frame["xid"]]
    return conform(frame, FAILURES)


def columns_of(count: int) -> list[str]:
    """Columns of metrics and the same against peers, and those that rules read."""
    metrics = max(1, (count - len(presence.COLUMNS) - 3) // (2 * len(CALCULATORS)))
    out = [
        names.column(f"metric_{number}", *step, calculator=calculator)
        for number in range(metrics)
        for step in ((), ("peer",))
        for calculator in CALCULATORS
    ]
    return [*out, *presence.COLUMNS, "logs.unknown__value", "phase.group__value", "history.since_incident__value"]


def fill(path: Path, windows: pd.DataFrame, failures: pd.DataFrame, columns: list[str]) -> NDArray[np.float32]:
    """The matrix in a file, made a portion of rows at a time."""
    random = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(len(windows), len(columns)))
    own = random.standard_normal((NODES, len(columns))).astype(np.float32)
    node = pd.factorize(windows["node"], sort=True)[0]
    rules = len(columns) - len(presence.COLUMNS) - 3
    for low in range(0, len(windows), ROWS):
        part = random.standard_normal((len(windows[low : low + ROWS]), len(columns)), dtype=np.float32)
        part += own[node[low : low + ROWS]]
        part[:, rules:-3] = 0.0  # nothing is missing
        part[:, -3:] = (0.0, 3.0, 13.3)
        X[low : low + ROWS] = part
    end = windows["end"]
    for number, (time_of, name) in enumerate(zip(failures["time"], failures["node"], strict=True)):
        lead = (time_of - end).dt.total_seconds().to_numpy() / 60
        rows = np.flatnonzero((windows["node"] == name).to_numpy() & (lead > 0) & (lead <= 40))
        X[rows, number * 20 % rules : number * 20 % rules + 10] += 8
    X.flush()
    return X


def main() -> None:
    """Measure, and print a line for each stage."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--windows", type=int, default=62_500)
    parser.add_argument("--columns", type=int, default=3000)
    parser.add_argument("--failures", type=int, default=10)
    parser.add_argument("--folder", type=Path, default=None)
    said = parser.parse_args()
    threading.Thread(target=_watch, daemon=True).start()
    with tempfile.TemporaryDirectory(dir=said.folder) as folder:
        measure(said, Path(folder))


def measure(said: Any, folder: Path) -> None:
    """The stages, one after another."""
    windows = windows_of(said.windows)
    failures, columns = failures_of(said.failures, windows), columns_of(said.columns)
    labels, settings, models = LabelSettings(), EvaluationSettings(), ModelSettings()
    X = fill(folder / "X.npy", windows, failures, columns)
    index = pd.MultiIndex.from_arrays([windows["node"], windows["end"]], names=["node", "end"])
    y = label(windows, failures, labels)["label"].to_numpy(dtype=np.float32)
    print(
        f"{len(windows)} windows of {len(columns)} columns, {len(failures)} failures; {_memory()} MiB before",
        flush=True,
    )

    def ask(rows: NDArray[np.int64]) -> pd.DataFrame:
        block = np.empty((len(rows), len(columns)), dtype=np.float32)
        for low in range(0, len(rows), ROWS):
            block[low : low + ROWS] = X[rows[low : low + ROWS]]
        return pd.DataFrame(block, index=index[rows], columns=columns, copy=False)

    def rows(learn: NDArray[np.int64]) -> tuple[pd.DataFrame, Callable[[NDArray[np.int64]], pd.DataFrame]]:
        return ask(learn), ask

    baselines = tuple(name for name in NAMES if name in BASELINES)
    began = _clock()
    folds = splits.leave_one_failure_out(windows, failures, labels, settings)
    fitted = crossfit.run(folds, rows, windows, y, (*models.names, *baselines), models)
    told, fold_seconds = fitted.telling_seconds, sum(fitted.seconds.values())
    began = _tell(f"telling ({told:.0f} s) and {len(folds)} folds ({fold_seconds:.0f} s)", began)
    judged = {
        str(name): evaluation.judge(part, failures, windows, labels, settings)
        for name, part in fitted.predictions.groupby("model", sort=False)
    }
    began = _tell(f"judging {len(judged)} models", began)
    experiment.scores(fitted.predictions)
    began = _tell("scores as Parquet", began)
    everything = Fold(0, "all", np.arange(len(y)), np.empty(0, dtype=np.int64))
    fold, weight = splits.sample_quiet(everything, y, models.quiet_windows, models.seed)
    known = ask(fold.train)
    Usual.of(known[y[fold.train] == 0])
    held = Told(fitted.told.signs.rows(fold.train), fitted.told.tails)
    Lineup(("blend",), models).fit(known, y[fold.train], weight, held)
    del known
    began = _tell("freezing", began)
    never = np.zeros(len(y), dtype=bool)
    asked = protocols.Ask(("blend", *baselines), windows, failures, y, never, fitted.told, rows)
    for name in settings.protocols:
        done = protocols.judge(name, asked, labels, settings, models)
        began = _tell(f"protocol {name}, {done['folds']} folds", began)
    found = judged["blend"]
    print(f"  blend caught {found['before']} of {len(failures)} before, at {found['false_alarms_per_day']:.2f} a day")


def _clock() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _tell(what: str, began: tuple[float, float]) -> tuple[float, float]:
    wall, cpu = _clock()
    print(
        f"  {what}: {wall - began[0]:.0f} s, {cpu - began[1]:.0f} s of processor; {_memory()} MiB at most", flush=True
    )
    return wall, cpu


def _watch() -> None:
    """Keep the most memory of its own that the process held; the file's pages, which the system may drop, are none."""
    while True:
        found = re.search(r"RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
        _PEAK[0] = max(_PEAK[0], int(found[1]) // 1024 if found else 0)
        time.sleep(0.1)


def _memory() -> int:
    return _PEAK[0]


if __name__ == "__main__":
    main()
