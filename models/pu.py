"""Learning from weak labels: which of the windows before a failure really show it is not known."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import _check_sample_weight

from models.scorers import Floats, Reason, Scorer, halves, place
from models.supervised import Boosted, binary


class WeakPositive(Scorer):
    """Windows before failures are weak positives, re-estimated in rounds (after PULL); the rest is unlabelled.

    In each round two models, each of one half of the days, say of the other half's windows before failures how much
    they look like a warning; that is their weight in the next round. Quiet windows that look more like a warning than
    most warnings lose half their weight: some are signs that healed.

    Parameters
    ----------
    rounds
        Re-estimations.
    seed, threads
        As in `Boosted`.
    """

    labelled = True

    def __init__(self, *, rounds: int = 2, seed: int = 0, threads: int = 0) -> None:
        self.rounds = rounds
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn in rounds.

        Raises
        ------
        InputError
            There is no warning or no quiet row.
        """
        self._fit(X, y, sample_weight)
        return self

    def fit_apart(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """Fit; the last round's halves have said what new rows would get."""
        seen = self._fit(X, y, sample_weight)
        return np.where(np.isnan(seen), self.score(X), seen)

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> Floats:
        values = self.checked(X, fitting=True, rows=2)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        label = binary(y, len(values))
        weight = _check_sample_weight(sample_weight, values, dtype=np.float64, copy=True)
        second = halves(place(X))
        trees = Boosted(seed=self.seed, threads=self.threads)
        seen = np.full(len(values), np.nan)
        for _ in range(self.rounds):
            for half in (False, True):
                learn, tell = second == half, second != half
                if tell.any() and (label[learn] == 1).any() and (label[learn] == 0).any():
                    seen[tell] = clone(trees).fit(values[learn], label[learn], weight[learn]).score(values[tell])
            weight = _weigh(label, seen, weight)
        self.trees_ = trees.fit(values, label, weight)
        return seen

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The last round's trees."""
        return self.trees_.score(self.checked(X))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their share of the margin."""
        names = dict(zip(self.trees_.columns(), self.columns(), strict=True))
        return [[(names[name], effect) for name, effect in row] for row in self.trees_.explain(self.checked(X), most)]

    def thaw(self, name: str, value: Any) -> Any:
        """The trees are a scorer of their own."""
        return Boosted.from_state(value) if name == "trees_" else super().thaw(name, value)


def _weigh(label: Floats, seen: Floats, weight: Floats) -> Floats:
    """New weights: of warnings by rank among the quiet, of quiet windows halved where they look like one."""
    told = ~np.isnan(seen)
    quiet, warning = told & (label == 0), told & (label == 1)
    if not quiet.any() or not warning.any():
        return weight
    usual = np.sort(seen[quiet])
    rank = np.searchsorted(usual, seen[warning]) / len(usual)
    out = weight.copy()
    out[warning] = 0.1 + 0.9 * np.square(rank)  # one that looks like any quiet window teaches little
    out[quiet & (seen > np.quantile(seen[warning], 0.75))] *= 0.5
    return out
