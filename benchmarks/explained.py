"""Are alarms explained by what moved? One metric of quiet, held-out windows is moved, and the first reasons are read.

    python -m benchmarks.explained STORE [--models surprise,blend] [--times 300] [--size 6]

Where nobody labelled which metric was at fault, an excursion that was put there by hand is the one whose cause is
known. The line-up learns from the first three quarters of the time. In the last quarter a metric of one node is moved
for three windows by some of its own interquartile ranges, its columns against peers with it; then it is counted how
often the metric is among the first one, three and five columns that explain the node's last window, and how often
chance alone would name it.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import names
from features.windows import as_ns
from models.intervals import clopper_pearson
from models.lineup import LOOK_BACK, Lineup
from pipelines.config import Config
from pipelines.store import Store
from pipelines.train import logged, mine, recall

LEVELS = frozenset({"mean", "maximum", "minimum", "sum_values"})  # what moves when a metric's level moves
MOVED = 3  # windows
KS = (1, 3, 5)


class Planted(NamedTuple):
    """Rows around a window whose metric was moved, the window's place among them, and the metric."""

    X: pd.DataFrame
    at: int
    metric: str


def level_columns(columns: list[str]) -> dict[str, list[int]]:
    """Metrics to the places of their levels: of the node, of its highest and lowest GPU, and against peers."""
    out: dict[str, list[int]] = {}
    for place, column in enumerate(columns):
        metric, steps, calculator = names.split(column)
        if calculator in LEVELS and set(steps) <= {"peer", "gpu_max", "gpu_min"}:
            out.setdefault(metric, []).append(place)
    return out


def plant(X: pd.DataFrame, known: pd.DataFrame, rows: NDArray[np.int64], times: int, size: float) -> Iterator[Planted]:
    """Excursions of random metrics at random rows of X; their size is in interquartile ranges of the known rows."""
    random = np.random.default_rng(0)
    levels = level_columns([str(name) for name in X.columns])
    quartiles = known.quantile([0.25, 0.75]).to_numpy()
    spread = quartiles[1] - quartiles[0]
    moving = [metric for metric, places in levels.items() if (spread[places] > 0).all()]
    node, end = X.index.get_level_values(0).to_numpy(), as_ns(pd.DatetimeIndex(X.index.get_level_values(1)))
    moments = np.unique(end)
    for row in random.choice(rows, times):
        late = moments[np.searchsorted(moments, end[row]) - LOOK_BACK + 1 :][:LOOK_BACK]
        near = np.flatnonzero(np.isin(end, late))
        part = X.iloc[near].copy()
        values = part.to_numpy(copy=True)
        metric = moving[random.integers(len(moving))]
        places = levels[metric]
        own = (node[near] == node[row]) & np.isin(end[near], late[-MOVED:])
        values[np.ix_(own, places)] += (size * spread[places]).astype(values.dtype)
        part = pd.DataFrame(values, index=part.index, columns=part.columns)
        yield Planted(part, int(np.flatnonzero(near == row)[0]), metric)


def hits(lineup: Lineup, model: str, planted: Planted) -> list[bool]:
    """Whether the metric is among the first k columns, for each k."""
    reasons = lineup.explain(model, planted.X, most=max(KS))[planted.at]
    said = [names.split(column).metric for column, _ in reasons]
    return [planted.metric in said[:k] for k in KS]


def main() -> None:
    """Count, and print a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--models", default="surprise,blend")
    parser.add_argument("--times", type=int, default=300)
    parser.add_argument("--size", type=float, default=6.0)
    said = parser.parse_args()
    config = Config()
    history = recall(Store.open(said.store), config)
    end = as_ns(history.matrix.windows["end"])
    cut = int(np.quantile(end, 0.75))
    learn = np.flatnonzero((end < cut - 2 * 3_600_000_000_000) & ~np.isnan(history.label))
    held = np.flatnonzero(end >= cut)
    templates = mine(history, learn, config)
    known, X = logged(history, learn, templates), logged(history, held, templates)
    chosen = tuple(said.models.split(","))
    lineup = Lineup(chosen, config.models).fit(known, history.label[learn])
    quiet = np.flatnonzero((history.label[held] == 0) & (end[held] > cut + LOOK_BACK * 600_000_000_000))
    found = list(plant(X, known, quiet, said.times, said.size))
    metrics = len({names.split(str(column)).metric for column in X.columns})
    print(f"{said.store}: {said.times} excursions of {said.size:g} interquartile ranges, one metric of {metrics} each")
    for model in chosen:
        told = np.array([hits(lineup, model, one) for one in found])
        for k, count in zip(KS, told.sum(axis=0).tolist(), strict=True):
            low, high = clopper_pearson(count, len(found))
            chance = 100 * k / metrics
            print(
                f"  {model}: among the first {k} in {count} of {len(found)} ({100 * count / len(found):.0f} %, "
                f"{100 * low:.0f}-{100 * high:.0f} %); chance {chance:.0f} %"
            )


if __name__ == "__main__":
    main()
