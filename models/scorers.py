"""The contract of a model: ``fit(X, y=None, sample_weight=None)``, then ``score(X)`` in [0, 1], higher is worse.

``X`` is a frame indexed by (node, end), one row per window, or a plain array, which is taken as one node's windows in
order. ``y`` is 1 for a warning, 0 for quiet, NaN for neither. A score is ``1 - 2 ** -surprise`` where a model thinks in
surprises (-log10 of a probability). A fitted model goes to the bundle as ``to_state()``, arrays, text and JSON only,
and comes back by ``from_state()`` with the same scores to the last bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from features.tables import InputError
from features.windows import as_ns

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Reason = tuple[str, float]  # column, and how much of the score it carries


class Place(NamedTuple):
    """Where rows come from: node names, alarm times in nanoseconds, and the order by node and time."""

    node: NDArray[Any]
    end: Ints
    order: Ints


def place(X: Any) -> Place:
    """Read the rows' node and time from the index; rows of a plain array are one node's, in order."""
    count = X.shape[0] if hasattr(X, "shape") else len(np.asarray(X))
    if isinstance(X, pd.DataFrame) and isinstance(X.index, pd.MultiIndex) and X.index.nlevels == 2:
        node = X.index.get_level_values(0).to_numpy(dtype=object)
        end = as_ns(pd.DatetimeIndex(X.index.get_level_values(1)))
        codes = pd.factorize(node, sort=True)[0]
        return Place(node, end, np.lexsort((end, codes)).astype(np.int64))
    return Place(np.full(count, "", dtype=object), np.arange(count, dtype=np.int64), np.arange(count, dtype=np.int64))


def squash(surprise: NDArray[Any]) -> Floats:
    """A surprise (>= 0) as a score in [0, 1)."""
    return np.asarray(1 - np.exp2(-np.asarray(surprise, dtype=np.float64)), dtype=np.float64)


def unsquash(score: NDArray[Any]) -> Floats:
    """The surprise that `squash` was given; a score of 1 comes back as 50."""
    return np.asarray(-np.log2(np.maximum(1 - np.asarray(score, dtype=np.float64), 2.0**-50)), dtype=np.float64)


def align(X: pd.DataFrame, columns: list[str], most_missing: float = 0.2) -> tuple[pd.DataFrame, list[str]]:
    """The frame with exactly these columns in this order, those it lacks as NaN, and their names.

    Raises
    ------
    InputError
        More than the given share of the columns is missing.
    """
    missing = [name for name in columns if name not in X.columns]
    if len(missing) > most_missing * len(columns):
        raise InputError(
            f"{len(missing)} of the model's {len(columns)} columns are missing, the first is {missing[0]}; "
            "train again on what is exported now"
        )
    return X.reindex(columns=columns), missing


class Scorer(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """What all models share; see the module."""

    labelled = False  # fit needs both warnings and quiet rows

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.target_tags.required = self.labelled
        return tags

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn; returns the scorer itself."""
        raise NotImplementedError

    def score(self, X: Any, y: Any = None) -> Floats:
        """Scores [n] in [0, 1], higher is worse."""
        raise NotImplementedError

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """For each row the few columns that drove its score, the strongest first."""
        raise NotImplementedError

    def fit_apart(self, X: pd.DataFrame, y: Any, sample_weight: Any = None) -> Floats:
        """Fit, and the scores of the very rows by models of the other half of the days: what new rows would get.

        Where a half holds nothing to learn from, the model's own scores have to do.
        """
        self.fit(X, y, sample_weight)
        second, label = halves(place(X)), np.zeros(len(X)) if y is None else np.asarray(y, dtype=np.float64)
        needed = (0, 1) if self.labelled else (0,)
        told = np.zeros(len(X))
        for half in (False, True):
            learn, tell = np.flatnonzero(second == half), np.flatnonzero(second != half)
            if not len(tell) or any(not (label[learn] == one).any() for one in needed):
                return self.score(X)
            other = type(self)(**self.get_params())
            other.fit(X.iloc[learn], label[learn], None if sample_weight is None else sample_weight[learn])
            told[tell] = other.score(X.iloc[tell])
        return told

    def to_state(self) -> dict[str, Any]:
        """What was learned, as arrays, text and JSON: every attribute that ends in an underscore."""
        check_is_fitted(self)
        learned = {name: value for name, value in vars(self).items() if name.endswith("_") and not name.startswith("_")}
        return {"params": self.get_params(deep=False), "learned": {k: _frozen(v) for k, v in learned.items()}}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """The fitted scorer that `to_state` was called on."""
        scorer = cls(**state["params"])
        for name, value in state["learned"].items():
            setattr(scorer, name, scorer.thaw(name, value))
        return scorer

    def thaw(self, name: str, value: Any) -> Any:
        """One learned attribute from its state; a model with parts of its own says how they come back."""
        return np.asarray(value, dtype=object) if name == "feature_names_in_" else value

    def checked(
        self, X: Any, *, fitting: bool = False, rows: int = 1, weight: Any = None, columnwise: bool = True
    ) -> NDArray[Any]:
        """The values of X, column-wise in memory unless that is not needed; infinite becomes NaN.

        Remembers (or compares) the columns.
        """
        if not fitting:
            check_is_fitted(self)
        values = validate_data(
            self, X, reset=fitting, dtype=[np.float32, np.float64], ensure_all_finite=False, ensure_min_samples=rows
        )
        if fitting:
            _check_sample_weight(weight, values)
        infinite = np.isinf(values)
        if infinite.any():
            values = np.where(infinite, values.dtype.type(np.nan), values)
        return np.asfortranarray(values) if columnwise else values

    def columns(self) -> list[str]:
        """The names of the columns the scorer was fitted on; x0, x1... for a plain array."""
        names = getattr(self, "feature_names_in_", None)
        return [f"x{number}" for number in range(self.n_features_in_)] if names is None else [str(n) for n in names]


def _frozen(value: Any) -> Any:
    if hasattr(value, "to_state"):
        return value.to_state()
    if isinstance(value, np.ndarray) and value.dtype.hasobject:
        return [str(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    return value


def quiet_rows(y: Any, count: int) -> NDArray[np.bool_]:
    """Rows to learn the usual from: those labelled quiet, or all when there are no labels.

    Labels that hold no quiet row at all are no labels (a clustering's, say): then all rows.
    """
    if y is None:
        return np.ones(count, dtype=bool)
    label = as_numbers(y)
    if len(label) != count:
        raise ValueError(f"y has {len(label)} rows, X has {count}")
    quiet = label == 0
    return quiet if quiet.any() else np.ones(count, dtype=bool)


def as_numbers(y: Any) -> Floats:
    """Labels [n]; NaN where one is no number (a clustering's, say)."""
    return np.asarray(pd.to_numeric(pd.Series(np.asarray(y).ravel()), errors="coerce"), dtype=np.float64)


def halves(where: Place) -> NDArray[np.bool_]:
    """Two halves by days of a node, so that what is learned on one can be tried on the other.

    Rows of a plain array are halved in the middle.
    """
    names = np.unique(where.node)
    if len(names) == 1 and names[0] == "":
        return np.arange(len(where.node)) >= len(where.node) / 2
    code = np.searchsorted(names, where.node)
    return np.asarray((where.end // 86_400_000_000_000 + code) % 2 == 1, dtype=bool)


def strongest(effects: NDArray[Any], names: list[str], most: int) -> list[list[Reason]]:
    """For each row the names of its largest positive effects [n, C]."""
    out = []
    for row in np.asarray(effects, dtype=np.float64):
        best = np.argsort(-row, kind="stable")[:most]
        out.append([(names[column], float(row[column])) for column in best if row[column] > 0])
    return out
