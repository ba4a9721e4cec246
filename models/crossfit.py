"""Every window scored by models that did not see it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import PREDICTIONS, InputError, conform
from features.windows import as_ns
from models.lineup import Lineup, label_free
from models.scorers import Place
from models.settings import ModelSettings
from models.splits import Fold, Folds, sample_quiet
from models.telling import MakeRows, Signs, Told, apart, of_matrix

Labels = NDArray[np.float32]


@dataclass(frozen=True)
class Crossfit:
    """What came out.

    Attributes
    ----------
    predictions
        `PREDICTIONS` of all models.
    skipped
        (fold, model) to why it gave no scores there; such a model is in no fold's predictions.
    seconds, telling_seconds
        Wall time of each fold, and of telling the windows before them.
    told, others
        What was told of the windows before any label was read, and of other clusters' with their labels.
    """

    predictions: pd.DataFrame
    skipped: dict[tuple[int, str], str]
    seconds: dict[int, float]
    told: Told
    others: Sequence[tuple[Signs, Labels]] = ()
    telling_seconds: float = 0.0


def run(
    folds: Folds,
    rows: MakeRows,
    windows: pd.DataFrame,
    label: NDArray[np.float32],
    names: tuple[str, ...],
    settings: ModelSettings,
    *,
    began: NDArray[np.bool_] | None = None,
    also: Sequence[tuple[pd.DataFrame, Labels]] = (),
    report: Callable[[Fold, Lineup], None] | None = None,
) -> Crossfit:
    """Tell each window by others, then fit the line-up in each fold and score the fold's test windows.

    Parameters
    ----------
    rows
        Called once for each block of `telling.blocks`, whose quiet rows to learn from are thinned to
        ``quiet_windows``.
    windows, label, began
        Aligned: `WINDOWS`, 1/0/NaN, and `rules.began`.
    also
        Rows and labels of other clusters, to learn from only.
    report
        Told of each fold when it is done.

    Raises
    ------
    InputError
        No model gave scores in every fold.
    """
    began_at = time.perf_counter()
    free = label_free(names, settings)
    told = apart(rows, place_of(windows), label == 0, *free, most=settings.quiet_windows)
    others = [(_told_of(X, y, names, settings).signs, y) for X, y in also]
    telling = time.perf_counter() - began_at
    table, skipped, seconds = over(
        folds, told, windows, label, names, settings, began=began, others=others, report=report
    )
    return Crossfit(table, skipped, seconds, told, others, telling)


def over(
    folds: Folds,
    told: Told,
    windows: pd.DataFrame,
    label: NDArray[np.float32],
    names: tuple[str, ...],
    settings: ModelSettings,
    *,
    began: NDArray[np.bool_] | None = None,
    others: Sequence[tuple[Signs, Labels]] = (),
    report: Callable[[Fold, Lineup], None] | None = None,
) -> tuple[pd.DataFrame, dict[tuple[int, str], str], dict[int, float]]:
    """`PREDICTIONS` by line-ups that learn in each fold from what is told, what was skipped, and the folds' seconds.

    Raises
    ------
    InputError
        No model gave scores in every fold.
    """
    parts: list[pd.DataFrame] = []
    skipped: dict[tuple[int, str], str] = {}
    seconds: dict[int, float] = {}
    for fold in folds:
        began_at = time.perf_counter()
        thin, weight = sample_quiet(fold, label, settings.quiet_windows, settings.seed)
        lineup = Lineup(names, settings).learn(told.signs.rows(thin.train), label[thin.train], weight, others)
        scores = lineup.judge(told.signs.rows(fold.test), None if began is None else began[fold.test])
        skipped |= {(fold.number, name): why for name, why in lineup.skipped.items() if name in names}
        parts.append(scores.reset_index(drop=True))
        seconds[fold.number] = time.perf_counter() - began_at
        if report is not None:
            report(fold, lineup)
    absent = {name for _, name in skipped}
    kept = [name for name in names if name not in absent and parts and name in parts[0].columns]
    if not kept:
        raise InputError(f"no model could be judged: {next(iter(skipped.values()), 'there was nothing to score')}")
    return _table(folds, parts, kept, windows), skipped, seconds


def _table(folds: Folds, parts: list[pd.DataFrame], names: list[str], windows: pd.DataFrame) -> pd.DataFrame:
    """`PREDICTIONS` of these models from each fold's scores, a model after the other."""
    about = windows[["window", "node", "end"]].iloc[np.concatenate([fold.test for fold in folds])]
    about = about.assign(fold=np.concatenate([np.full(len(fold.test), fold.number) for fold in folds]))
    made = pd.concat([about] * len(names), ignore_index=True)
    made["model"] = pd.Series(np.repeat(np.array(names, dtype=object), len(about)), dtype="str")
    made["score"] = np.concatenate([part[name].to_numpy() for name in names for part in parts])
    return conform(made, PREDICTIONS)[list(PREDICTIONS.columns)]


def place_of(windows: pd.DataFrame) -> Place:
    """Where the rows of these `WINDOWS` come from."""
    node, end = windows["node"].to_numpy(dtype=object), as_ns(windows["end"])
    return Place(node, end, np.lexsort((end, pd.factorize(node, sort=True)[0])).astype(np.int64))


def _told_of(X: pd.DataFrame, y: Labels, names: tuple[str, ...], settings: ModelSettings) -> Told:
    """What is told of another cluster's rows, each by others of that cluster."""
    windows = pd.DataFrame({"node": X.index.get_level_values(0), "end": X.index.get_level_values(1)})
    return apart(of_matrix(X), place_of(windows), y == 0, *label_free(names, settings))
