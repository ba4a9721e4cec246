"""Detectors that need no failures: isolation forest and the residual of principal components."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._iforest import _average_path_length
from sklearn.utils.validation import _check_sample_weight

from models.score_kernels import owned, path_lengths
from models.scorers import Floats, Reason, Scorer, quiet_rows, squash, strongest


class Forest(Scorer):
    """Isolation forest (Liu, Ting and Zhou 2008) of quiet windows, kept as arrays.

    Parameters
    ----------
    trees, rows, seed
        Number of trees, quiet windows each is grown on, and the seed.
    """

    def __init__(self, *, trees: int = 200, rows: int = 512, seed: int = 0) -> None:
        self.trees = trees
        self.rows = rows
        self.seed = seed

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Grow on the quiet rows, or on all without labels; missing values are the column's median."""
        values = self.checked(X, fitting=True, rows=2)
        weight = _check_sample_weight(sample_weight, values)
        quiet = quiet_rows(y, len(values)) & (weight > 0)
        self.fill_ = np.nan_to_num(_nan_median(values[quiet])).astype(np.float32)
        grown = IsolationForest(
            n_estimators=self.trees, max_samples=min(self.rows, int(quiet.sum())), random_state=self.seed
        ).fit(self._filled(values[quiet]), sample_weight=weight[quiet])
        trees = [tree.tree_ for tree in grown.estimators_]
        first = np.cumsum([0, *(tree.node_count for tree in trees)])
        self.roots_ = first[:-1].astype(np.int64)
        self.left_ = np.concatenate([t.children_left + o for t, o in zip(trees, first[:-1], strict=True)])
        self.right_ = np.concatenate([t.children_right + o for t, o in zip(trees, first[:-1], strict=True)])
        self.column_ = np.concatenate([t.feature for t in trees]).astype(np.int64)
        self.threshold_ = np.concatenate([t.threshold for t in trees])
        leaf = self.column_ < 0
        self.left_[leaf] = self.right_[leaf] = np.flatnonzero(leaf)
        depth = np.concatenate([t.compute_node_depths() for t in trees]) - 1.0
        self.path_ = depth + _average_path_length(np.concatenate([t.n_node_samples for t in trees]))
        self.longest_ = float(max(t.max_depth for t in trees))
        self.expected_ = float(_average_path_length(np.array([grown.max_samples_]))[0])
        return self

    def _filled(self, values: NDArray[Any]) -> NDArray[np.float32]:
        single = values.astype(np.float32)
        return np.where(np.isnan(single), self.fill_, single)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """2 ** -(mean path / expected path), as in the paper."""
        return self._isolation(self._filled(self.checked(X)))

    def _isolation(self, values: NDArray[np.float32]) -> Floats:
        nodes = np.column_stack([self.left_, self.right_, np.maximum(self.column_, 0)]).astype(np.int64)
        lengths = (owned(self.threshold_, np.float64), owned(self.path_, np.float64), int(self.longest_))
        total = path_lengths(owned(values, np.float32), owned(self.roots_, np.int64), nodes, *lengths)
        if not self.expected_ > 0:
            return np.full(len(values), 0.5)
        return np.asarray(2.0 ** (-total / (len(self.roots_) * self.expected_)), dtype=np.float64)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by how much the score falls when their value is the median."""
        values = np.array(self._filled(self.checked(X)))
        whole = self._isolation(values)
        effects = np.zeros(values.shape)
        for column in range(values.shape[1]):
            kept = values[:, column].copy()
            values[:, column] = self.fill_[column]
            effects[:, column] = whole - self._isolation(values)
            values[:, column] = kept
        return strongest(effects, self.columns(), most)


class Residual(Scorer):
    """What principal components of quiet windows leave unexplained (Jackson and Mudholkar 1979).

    Parameters
    ----------
    explained
        Share of the variance the components hold.
    most
        Most components.
    """

    def __init__(self, *, explained: float = 0.9, most: int = 30) -> None:
        self.explained = explained
        self.most = most

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn from the quiet rows, or from all without labels; missing values are the mean."""
        values = self.checked(X, fitting=True, rows=2)
        _check_sample_weight(sample_weight, values)
        quiet = quiet_rows(y, len(values))
        known = values[quiet].astype(np.float64)
        count = np.maximum(np.count_nonzero(~np.isnan(known), axis=0), 1)
        self.mean_ = np.nansum(known, axis=0) / count
        away = np.nan_to_num(known - self.mean_)
        spread = np.sqrt(np.square(away).sum(axis=0) / count)
        self.scale_ = np.where(spread > 1e-9 * (1 + np.abs(self.mean_)), spread, 1.0)
        scaled = away / self.scale_
        variance, axes = np.linalg.eigh(scaled.T @ scaled / len(scaled))
        order = np.argsort(-variance)
        held = np.cumsum(np.maximum(variance[order], 0)) / max(np.maximum(variance, 0).sum(), 1e-12)
        number = min(int(np.searchsorted(held, self.explained)) + 1, self.most, max(1, values.shape[1] - 1))
        self.axes_ = axes[:, order[:number]]
        return self

    def _left(self, X: Any) -> Floats:
        scaled = np.nan_to_num(self.checked(X).astype(np.float64) - self.mean_) / self.scale_
        # Compressed: one column gone wild should not hide the rest
        scaled = np.sign(scaled) * np.log1p(np.abs(scaled))
        return np.asarray(np.square(scaled - (scaled @ self.axes_) @ self.axes_.T), dtype=np.float64)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The mean squared residual, squashed."""
        return squash(self._left(X).mean(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their squared residual."""
        left = self._left(X)
        return strongest(left / max(left.shape[1], 1), self.columns(), most)


def _nan_median(values: NDArray[Any]) -> NDArray[np.float64]:
    out = np.full(values.shape[1], np.nan)
    for column in range(values.shape[1]):
        known = values[:, column][~np.isnan(values[:, column])]
        if len(known):
            out[column] = np.median(known)
    return out
