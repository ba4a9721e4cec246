"""Gradient boosting on known failures; the only file that imports LightGBM."""

from __future__ import annotations

from typing import Any, Self

import lightgbm
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import _check_sample_weight

from features.tables import InputError
from models.scorers import Floats, Reason, Scorer, strongest


class Boosted(Scorer):
    """LightGBM on few columns with small leaves: a failure with 25 minutes of warning is five windows.

    Parameters
    ----------
    trees, learning_rate, leaves, least
        Number of trees, step, most leaves of a tree, fewest windows in a leaf.
    share
        Of the total weight that the warnings carry together, however few they are.
    most_quiet
        Quiet rows to learn from, evenly spaced; more cost time and teach little.
    seed, threads
        Scores do not depend on ``threads`` (0: all cores).
    """

    labelled = True

    def __init__(
        self,
        *,
        trees: int = 60,
        learning_rate: float = 0.1,
        leaves: int = 8,
        least: int = 4,
        share: float = 0.02,
        most_quiet: int = 10_000,
        seed: int = 0,
        threads: int = 0,
    ) -> None:
        self.trees = trees
        self.learning_rate = learning_rate
        self.leaves = leaves
        self.least = least
        self.share = share
        self.most_quiet = most_quiet
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from rows whose label is known.

        Raises
        ------
        InputError
            There is no warning or no quiet row.
        """
        values = self.checked(X, fitting=True, rows=2)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        label = binary(y, len(values))
        weight = _check_sample_weight(sample_weight, values, dtype=np.float64, copy=True)
        known = ~np.isnan(label)
        positive = label[known] > 0
        if not positive.any() or positive.all():
            raise InputError(
                f"{int(positive.sum())} of {int(known.sum())} labelled windows are warnings: two failures or more "
                "and quiet time are needed to learn from labels"
            )
        weight = weight[known]
        total = weight[~positive].sum() or 1.0
        if weight[positive].sum() < self.share * total:
            weight[positive] *= self.share * total / max(weight[positive].sum(), 1e-12)
        kept = np.flatnonzero(known)
        quiet = np.flatnonzero(~positive)
        step = max(1, len(quiet) // self.most_quiet)
        if step > 1:
            chosen = np.sort(np.concatenate([quiet[::step], np.flatnonzero(positive)]))
            weight = np.where(positive, weight, weight * step)[chosen]
            kept, positive = kept[chosen], positive[chosen]
        weight *= len(kept) / weight.sum()
        data = lightgbm.Dataset(values[kept], positive.astype(np.float64), weight=weight, free_raw_data=True)
        self.model_ = lightgbm.train(self._settings(), data, num_boost_round=self.trees).model_to_string()
        self._booster = lightgbm.Booster(model_str=self.model_)
        return self

    def _settings(self) -> dict[str, Any]:
        return {
            "objective": "binary",
            "learning_rate": self.learning_rate,
            "num_leaves": self.leaves,
            "min_data_in_leaf": self.least,
            "min_sum_hessian_in_leaf": 1e-3,
            "feature_fraction": 0.7,
            "bagging_fraction": 0.8,
            "bagging_freq": 1,
            "lambda_l2": 5.0,
            "seed": self.seed,
            "num_threads": self.threads,
            "deterministic": True,
            "force_row_wise": True,
            "max_bin": 127,
            "verbosity": -1,
        }

    def booster(self) -> lightgbm.Booster:
        """The trees, built from their text when the scorer came from a bundle."""
        if getattr(self, "_booster", None) is None:
            self._booster = lightgbm.Booster(model_str=self.model_)
        return self._booster

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The trees' probability; weighted as training was, so calibrate before it is called one."""
        values = self.checked(X)
        return np.asarray(self.booster().predict(values, num_threads=self.threads), dtype=np.float64)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their share of the margin (TreeSHAP)."""
        values = self.checked(X)
        effects = np.asarray(self.booster().predict(values, pred_contrib=True, num_threads=self.threads))
        return strongest(effects[:, :-1], self.columns(), most)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_booster"}


def binary(y: Any, count: int) -> NDArray[np.float64]:
    """Labels as 1, 0 and NaN; anything above 0 is a warning. Without a 0 among several labels the least is quiet.

    Raises
    ------
    ValueError
        The labels do not fit the rows.
    """
    label = pd.Series(np.asarray(y).ravel())
    if len(label) != count:
        raise ValueError(f"y has {len(label)} rows, X has {count}")
    numbers = pd.to_numeric(label, errors="coerce")
    if numbers.isna().all() and label.notna().any():
        numbers = pd.Series(pd.factorize(label, sort=True)[0])
    if np.isinf(numbers.to_numpy(dtype=np.float64)).any():
        raise ValueError("y holds infinity")
    quiet = 0.0 if (numbers == 0).any() or numbers.nunique() < 2 else float(numbers.min())
    return np.where(numbers.isna(), np.nan, (numbers > quiet).astype(np.float64))
