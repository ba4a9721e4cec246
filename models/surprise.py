"""Calibrated surprise: one very odd metric counts as well as many that are a little odd."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.scorers import Floats, Reason, Scorer, quiet_rows, squash, strongest
from models.summaries import criticism
from models.tails import Tails


class Surprise(Scorer):
    """Reads what the last windows agree on of the metrics' surprises (-log10 p, a column a metric) and combines them.

    The largest, the mean of the largest three and Berk and Jones' statistic over all each get the tail they have in
    quiet time; the largest of the three tails is the score.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the statistics' quiet tails."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = quiet_rows(y, len(values))
        self.tails_ = Tails.fit(_statistics(values)[quiet], overlap=4.0)
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest tail, squashed."""
        values = self.checked(X)
        return squash(self.tails_.surprise(_statistics(values)).max(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their surprise."""
        return strongest(np.nan_to_num(self.checked(X)), self.columns(), most)

    def thaw(self, name: str, value: Any) -> Any:
        """The tails have arrays of their own."""
        return Tails.from_state(value) if name == "tails_" else super().thaw(name, value)


def _statistics(values: NDArray[Any]) -> Floats:
    odd = np.maximum(np.nan_to_num(values), 0).astype(np.float32)
    most = min(3, odd.shape[1])
    largest = np.partition(-odd, most - 1, axis=1)[:, :most]
    return np.column_stack([-largest.min(axis=1), -largest.mean(axis=1), criticism(odd)]).astype(np.float64)
