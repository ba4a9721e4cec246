"""Calibrated surprise: the metric that quiet time has least seen as odd as now."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from features.families import Role, family, role
from models.ranks import Ranks
from models.scorers import Floats, Place, Reason, Scorer, as_numbers, place, quiet_rows, squash, strongest

# What each role may spend of the false alarms, whatever the number of its metrics, before any failure is known. Error
# counters and log lines of accelerators are what the field's tools page on, and XIDs are errors of accelerators; what
# follows the job's work is odd whenever the job is.
SHARES: dict[Role, float] = {"fault": 0.42, "host": 0.18, "condition": 0.25, "work": 0.1, "presence": 0.05}
# Of what follows the work no more than one quiet node-hour in ten thousand can be told: work of a kind that was never
# seen before is nothing rarer, however long it goes on
_WORK_MOST = 4.0
_SHOWN = 3.0  # one quiet node-hour in a thousand: as odd a metric before a failure is taken for its sign
_TRUST = 0.5  # signs' worth of trust in the shares as they are
_APART = 3_600_000_000_000  # warnings of a node nearer than an hour are of one failure


def allowance(metrics: list[str]) -> Floats:
    """log10 of each metric's share of the false alarms, as a multiple of an equal share [M]."""
    roles = [role(metric) for metric in metrics]
    count = Counter(roles)
    whole = sum(SHARES[one] for one in count)
    return np.array([np.log10(SHARES[one] / whole * len(metrics) / count[one]) for one in roles])


def kinds(metrics: list[str]) -> NDArray[np.int64]:
    """Number of each metric's kind [M]: metrics of a family and role, or a class of log lines."""
    names = [(metric, "") if family(metric) == "logs" else (family(metric), role(metric)) for metric in metrics]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


class Surprise(Scorer):
    """Reads what lasts of the metrics' surprises (-log10 p, a column a metric).

    Each is ranked among its own in quiet time (see `ranks`) and weighed by what it may spend of the false alarms
    (`SHARES`), and the largest is the score: a failure to come that moves one counter is seen as well as one that moves
    many. Of failures that are known only this is learned: kinds of metrics that were odd before them may spend more,
    in the manner of an empirical Bayes estimate, drawn towards the shares by `_TRUST`.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn how often quiet hours are as odd, metric by metric, and what was odd before failures."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = np.flatnonzero(quiet_rows(y, len(values)))
        self.ranks_ = Ranks.fit(values[quiet], place(_rows(X, quiet)))
        self.allowance_ = allowance(self.columns())
        self.most_ = np.array([_WORK_MOST if role(metric) == "work" else np.inf for metric in self.columns()])
        warned = np.flatnonzero(as_numbers(y) == 1) if y is not None else np.zeros(0, dtype=np.int64)
        if len(warned):
            self.allowance_ = self._preceded(values[warned], place(_rows(X, warned)))
        return self

    def _preceded(self, values: NDArray[Any], where: Place) -> Floats:
        """The allowance, raised for kinds of metrics that were odd before failures more often than by chance."""
        node, end = where.node[where.order], where.end[where.order]
        begins = np.r_[True, (node[1:] != node[:-1]) | (np.diff(end) > _APART)]
        odd = self.ranks_.surprise(values)[where.order]
        before = np.maximum.reduceat(odd, np.flatnonzero(begins), axis=0) > _SHOWN  # [failures, M]
        kind = kinds(self.columns())
        share: Floats = np.power(10.0, self.allowance_)
        for one in range(kind.max() + 1):
            mine = kind == one
            chance = min(1.0, mine.sum() * 10**-_SHOWN)
            share[mine] *= (before[:, mine].any(axis=1).sum() + _TRUST) / (len(before) * chance + _TRUST)
        learned: Floats = np.log10(share * len(share) / share.sum())
        return learned

    def _weighed(self, X: Any) -> Floats:
        rank = np.minimum(self.ranks_.surprise(self.checked(X)), self.most_)
        weighed: Floats = np.maximum(rank + self.allowance_, 0.0)
        return weighed

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest, squashed."""
        return squash(self._weighed(X).max(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their weighed rank."""
        return strongest(self._weighed(X), self.columns(), most)

    def thaw(self, name: str, value: Any) -> Any:
        """The ranks have arrays of their own."""
        return Ranks.from_state(value) if name == "ranks_" else super().thaw(name, value)


def _rows(X: Any, wanted: NDArray[np.int64]) -> Any:
    return X.iloc[wanted] if hasattr(X, "iloc") else np.asarray(X)[wanted]
