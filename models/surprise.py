"""Calibrated surprise: the metric that quiet time has least seen as odd as now."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

import numpy as np

from features.families import Role, role
from models.ranks import Ranks
from models.scorers import Floats, Reason, Scorer, place, quiet_rows, squash, strongest

# What each role may spend of the false alarms, whatever the number of its metrics. Error counters and new log lines
# are what the field's tools page on; what follows the job's work is odd whenever the job is.
SHARES: dict[Role, float] = {"fault": 0.6, "condition": 0.25, "work": 0.1, "presence": 0.05}


def allowance(metrics: list[str]) -> Floats:
    """log10 of each metric's share of the false alarms, as a multiple of an equal share [M]."""
    roles = [role(metric) for metric in metrics]
    count = Counter(roles)
    whole = sum(SHARES[one] for one in count)
    return np.array([np.log10(SHARES[one] / whole * len(metrics) / count[one]) for one in roles])


class Surprise(Scorer):
    """Reads what lasts of the metrics' surprises (-log10 p, a column a metric).

    Each is ranked among its own in quiet time (see `ranks`) and weighed by what it may spend of the false alarms
    (`SHARES`), and the largest is the score: a failure to come that moves one counter is seen as well as one that moves
    many.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn how often quiet hours are as odd, metric by metric."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = np.flatnonzero(quiet_rows(y, len(values)))
        where = place(X.iloc[quiet] if hasattr(X, "iloc") else values[quiet])
        self.ranks_ = Ranks.fit(values[quiet], where)
        self.allowance_ = allowance(self.columns())
        return self

    def _weighed(self, X: Any) -> Floats:
        return np.maximum(self.ranks_.surprise(self.checked(X)) + self.allowance_, 0.0)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest, squashed."""
        return squash(self._weighed(X).max(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their weighed rank."""
        return strongest(self._weighed(X), self.columns(), most)

    def thaw(self, name: str, value: Any) -> Any:
        """The ranks have arrays of their own."""
        return Ranks.from_state(value) if name == "ranks_" else super().thaw(name, value)
