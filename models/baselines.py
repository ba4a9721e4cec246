"""What a model has to beat: guesses, names, clocks, and the rules of thumb of the field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Self

import numpy as np
import pandas as pd

from models.layout import parts
from models.persistence import persist
from models.scorers import Floats, Reason, Scorer, place, squash, strongest
from models.supervised import Boosted, binary


class Guess(Scorer):
    """A number drawn from the node's name and the time: random, and yet the same in every run."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  # nothing is learned from y
        """Learn nothing."""
        self.checked(X, fitting=True, weight=sample_weight)
        self.fitted_ = True
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """Uniform on [0, 1)."""
        self.checked(X)
        where = place(X)
        keys = pd.util.hash_array(where.node.astype(str).astype(object), categorize=True)
        mixed = pd.util.hash_array(where.end.astype(np.uint64) * np.uint64(2654435761) ^ keys)
        return np.asarray((mixed >> np.uint64(11)).astype(np.float64) / 2.0**53, dtype=np.float64)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:  # noqa: ARG002  # a guess has no reasons
        """Nothing."""
        return [[] for _ in self.checked(X)]


class WorstNode(Scorer):
    """Always the node that failed most."""

    labelled = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Count the warnings of each node."""
        values = self.checked(X, fitting=True, weight=sample_weight)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        warned = pd.Series(binary(y, len(values)) == 1).groupby(place(X).node.astype(str)).sum()
        self.nodes_ = [str(name) for name in warned.index]
        self.warned_ = warned.to_numpy(dtype=np.float64) / max(float(warned.max()), 1.0)
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """Warnings of the node against those of the worst."""
        self.checked(X)
        known = dict(zip(self.nodes_, self.warned_, strict=True))
        return np.array([known.get(str(name), 0.0) for name in place(X).node], dtype=np.float64)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:  # noqa: ARG002  # there is one reason
        """The node."""
        return [[("node", float(value))] for value in self.score(X)]


class Clock(Scorer):
    """LightGBM that sees hour, minute, weekday and the node's name, and nothing else."""

    labelled = True

    def __init__(self, *, seed: int = 0, threads: int = 0) -> None:
        self.seed = seed
        self.threads = threads

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn when and where warnings were."""
        self.checked(X, fitting=True, weight=sample_weight, rows=2)
        self.nodes_ = sorted({str(name) for name in place(X).node})
        self.trees_ = Boosted(seed=self.seed, threads=self.threads).fit(self._clock(X), y, sample_weight)
        return self

    def _clock(self, X: Any) -> Floats:
        where = place(X)
        codes = {name: float(code) for code, name in enumerate(self.nodes_)}
        minute = where.end // 60_000_000_000
        node = [codes.get(str(name), np.nan) for name in where.node]
        return np.column_stack([minute // 60 % 24, minute % 60, minute // 1440 % 7, node]).astype(np.float64)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The trees' probability."""
        self.checked(X)
        return self.trees_.score(self._clock(X))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Clock and node."""
        self.checked(X)
        names = dict(zip(self.trees_.columns(), ("hour", "minute", "weekday", "node"), strict=True))
        return [[(names[name], effect) for name, effect in row] for row in self.trees_.explain(self._clock(X), most)]

    def thaw(self, name: str, value: Any) -> Any:
        """The trees are a scorer of their own."""
        return Boosted.from_state(value) if name == "trees_" else super().thaw(name, value)


class BestMetric(Scorer):
    """The one metric that stood out most before the failures; reads surprises, a column a metric."""

    labelled = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the column."""
        values = self.checked(X, fitting=True, weight=sample_weight, rows=2)
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        warned = binary(y, len(values)) == 1
        # The mean over warnings, of a tail that ends at 1 in 1000: many windows, not one
        merit = np.clip(np.nan_to_num(values[warned]), 0.0, 3.0).sum(axis=0)
        self.column_ = int(np.argmax(merit))
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """Its surprise, squashed."""
        return squash(np.clip(np.nan_to_num(self.checked(X)[:, self.column_]), 0, 50))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:  # noqa: ARG002  # there is one reason
        """The column."""
        return [[(self.columns()[self.column_], float(value))] for value in self.score(X)]


class Columns(Scorer):
    """A sum of a few columns told by name, squashed; nothing is learned.

    Parameters
    ----------
    weights
        Beginnings of pseudo-kinds as ``presence.silent_seconds``, and what one unit of each is worth.
    """

    def __init__(self, *, weights: dict[str, float] | None = None) -> None:
        self.weights = weights

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  # nothing is learned from y
        """Find the columns."""
        self.checked(X, fitting=True, weight=sample_weight)
        wanted = self.weights or {}
        self.worth_ = np.array([wanted.get(parts(name)[0], 0.0) for name in self.columns()], dtype=np.float64)
        return self

    def _effects(self, X: Any) -> Floats:
        return np.asarray(np.nan_to_num(self.checked(X)) * self.worth_, dtype=np.float64)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The weighted sum, squashed."""
        return squash(np.maximum(self._effects(X).sum(axis=1), 0))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their part of the sum."""
        return strongest(self._effects(X), self.columns(), most)


def staleness() -> Columns:
    """Silence and lost GPUs: one for each minute of silence, five for a lost GPU."""
    return Columns(
        weights={
            "presence.silent_seconds": 1 / 60,
            "presence.gpu_gap_seconds": 1 / 60,
            "presence.gpu_missing": 5.0,
            "presence.node_down": 5.0,
            "presence.frozen": 2.0,
        }
    )


def new_template() -> Columns:
    """Log lines of a form not seen in training, or not on this node."""
    return Columns(weights={"logs.unknown": 1.0, "logs.node_new": 0.5})


class LastXid(Scorer):
    """The node that failed last fails next: the shorter ago, the higher."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  # nothing is learned from y
        """Find the column."""
        self.checked(X, fitting=True, weight=sample_weight)
        names = [parts(name)[0] for name in self.columns()]
        self.column_ = names.index("history.since_incident") if "history.since_incident" in names else -1
        return self

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """1 / (1 + time since), 0 for a node that never failed."""
        values = self.checked(X)
        if self.column_ < 0:
            return np.zeros(len(values))
        since = values[:, self.column_].astype(np.float64)
        return np.where(np.isnan(since), 0.0, 1 / (1 + np.maximum(since, 0)))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:  # noqa: ARG002  # there is one reason
        """The column."""
        name = self.columns()[self.column_] if self.column_ >= 0 else "history"
        return [[(name, float(value))] if value else [] for value in self.score(X)]


_HAND_READS = (
    (r"node_intr_total", ("sum_values", "mean")),
    (r"node_procs_running", ("mean", "maximum")),
    (r"node_vmstat_pgpgout", ("sum_values", "mean")),
    (r"(?i).*nfs.*(latency|response|duration|request_time).*seconds.*", ("mean", "maximum")),
    (r"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", ("sum_values", "maximum")),
)


class HandRules(Scorer):
    """The rules of Algalon as the field writes them by hand, on whichever of their metrics exist.

    Interrupts below half the cluster's median, running processes below 2 where the median is above 10, page-outs over
    four times the median, an NFS operation over 100 ms, eight row remaps in a day; the first and the fourth for ten
    minutes. The score is the share of the rules that hold, nearly: one rule is already 0.5.

    Parameters
    ----------
    overlap
        How many windows tell one increase: their length by their stride.
    """

    RULES = ("interrupts", "processes", "pageouts", "nfs", "remaps")

    def __init__(self, *, overlap: float = 1.0) -> None:
        self.overlap = overlap

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  # nothing is learned from y
        """Find the columns."""
        self.checked(X, fitting=True, weight=sample_weight)
        self.columns_ = [_find(self.columns(), *read) for read in _HAND_READS]
        return self

    def _held(self, X: Any) -> Floats:
        values = self.checked(X).astype(np.float64)
        where = place(X)
        held = np.zeros((len(values), len(self.RULES)))
        columns = [values[:, c] if c >= 0 else np.full(len(values), np.nan) for c in self.columns_]
        median = [pd.Series(column).groupby(where.end).transform("median").to_numpy() for column in columns[:3]]
        held[:, 0] = columns[0] < 0.5 * median[0]
        held[:, 1] = (columns[1] < 2) & (median[1] > 10)
        held[:, 2] = columns[2] > 4 * median[2]
        held[:, 3] = columns[3] > 0.1
        for column in (0, 3):
            held[:, column] = persist(held[:, column], where, 2) >= 1
        ordered = pd.Series(np.nan_to_num(columns[4])[where.order])
        day = ordered.groupby(where.node[where.order]).rolling(288, min_periods=1).sum().to_numpy() / self.overlap
        held[where.order, 4] = day >= 8
        return held

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """1 - 2 ** -(rules that hold)."""
        return squash(self._held(X).sum(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """The rules that hold."""
        return strongest(self._held(X), list(self.RULES), most)


def _find(names: Sequence[str], metric: str, calculators: Sequence[str]) -> int:
    """The first column of a metric by the calculators' order of preference, not against peers; -1 without."""
    for calculator in calculators:
        for number, name in enumerate(names):
            found, steps, part = parts(name)
            if part == calculator and "peer" not in steps and re.fullmatch(metric, found.partition("{")[0]):
                return number
    return -1


@lru_cache(maxsize=8)
def read_by_rules(names: tuple[str, ...]) -> frozenset[str]:
    """The columns that the baselines of this room read: few of thousands."""
    found = {_find(names, *read) for read in _HAND_READS} - {-1}
    told = {name for name in names if parts(name)[0].partition(".")[0] in {"presence", "logs", "phase", "history"}}
    return frozenset(told | {names[number] for number in found})
