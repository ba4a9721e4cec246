"""Calibrated surprise: the metric that quiet time has least seen as odd as now."""

from __future__ import annotations

from typing import Any, Self

from models.ranks import Ranks
from models.scorers import Floats, Reason, Scorer, quiet_rows, squash, strongest


class Surprise(Scorer):
    """Reads what the last windows agree on of the metrics' surprises (-log10 p, a column a metric).

    Each is ranked among its own in quiet time (see `ranks`), and the largest is the score: a failure to come that moves
    one counter is seen as well as one that moves many.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn how often quiet windows are as odd, metric by metric."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = quiet_rows(y, len(values))
        self.ranks_ = Ranks.fit(values[quiet])
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest rank, squashed."""
        return squash(self.ranks_.surprise(self.checked(X)).max(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their rank."""
        return strongest(self.ranks_.surprise(self.checked(X)), self.columns(), most)

    def thaw(self, name: str, value: Any) -> Any:
        """The ranks have arrays of their own."""
        return Ranks.from_state(value) if name == "ranks_" else super().thaw(name, value)
