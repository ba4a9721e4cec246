"""Every window scored by models that did not see it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import PREDICTIONS, InputError, conform
from models.lineup import Lineup
from models.settings import ModelSettings
from models.splits import Fold, Folds, sample_quiet

# Rows to learn from and rows to score, with everything that is fitted (templates, rates) fitted on the former.
MakeRows = Callable[[Fold], tuple[pd.DataFrame, pd.DataFrame]]


@dataclass(frozen=True)
class Crossfit:
    """What came out.

    Attributes
    ----------
    predictions
        `PREDICTIONS` of all models.
    skipped
        (fold, model) to why it gave no scores there; such a model is in no fold's predictions.
    seconds
        Wall time of each fold.
    """

    predictions: pd.DataFrame
    skipped: dict[tuple[int, str], str]
    seconds: dict[int, float]


def of_matrix(X: pd.DataFrame) -> MakeRows:
    """Rows of a matrix in which nothing is fitted."""
    return lambda fold: (X.iloc[fold.train], X.iloc[fold.test])


def run(
    folds: Folds,
    rows: MakeRows,
    windows: pd.DataFrame,
    label: NDArray[np.float32],
    names: tuple[str, ...],
    settings: ModelSettings,
    *,
    began: NDArray[np.bool_] | None = None,
    also: tuple[pd.DataFrame, NDArray[np.float32]] | None = None,
    report: Callable[[Fold, Lineup], None] | None = None,
) -> Crossfit:
    """Fit the line-up in each fold and score the fold's test windows.

    Parameters
    ----------
    rows
        Called once a fold; the fold's ``train`` is already thinned to ``quiet_windows`` quiet rows.
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
    parts: list[pd.DataFrame] = []
    skipped: dict[tuple[int, str], str] = {}
    seconds: dict[int, float] = {}
    for fold in folds:
        began_at = time.perf_counter()
        thin, weight = sample_quiet(fold, label, settings.quiet_windows, settings.seed)
        train, test = rows(thin)
        y = label[thin.train]
        if also is not None:
            train, y, weight = _with_others(train, y, weight, also)
        lineup = Lineup(names, settings).fit(train, y, weight)
        scores = lineup.score(test, None if began is None else began[fold.test])
        skipped |= {(fold.number, name): why for name, why in lineup.skipped.items() if name in names}
        about = windows.iloc[fold.test]
        parts += [about.assign(model=name, fold=fold.number, score=scores[name].to_numpy()) for name in scores.columns]
        seconds[fold.number] = time.perf_counter() - began_at
        if report is not None:
            report(fold, lineup)
    absent = {name for _, name in skipped}
    kept = [part for part in parts if part["model"].iloc[0] not in absent]
    if not kept:
        raise InputError(f"no model could be judged: {next(iter(skipped.values()), 'there was nothing to score')}")
    table = conform(pd.concat(kept, ignore_index=True), PREDICTIONS)[list(PREDICTIONS.columns)]
    return Crossfit(table, skipped, seconds)


def _with_others(
    train: pd.DataFrame,
    y: NDArray[np.float32],
    weight: NDArray[np.float64],
    also: tuple[pd.DataFrame, NDArray[np.float32]],
) -> tuple[pd.DataFrame, NDArray[np.float32], NDArray[np.float64]]:
    """Training rows with another cluster's behind them; its columns are matched by name."""
    other, labels = also
    both = pd.concat([train, other.reindex(columns=train.columns)])
    return both, np.concatenate([y, labels]), np.concatenate([weight, np.ones(len(other))])
