"""Statistics over many metrics: the published study's kind, and the odd one out among peers."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.layout import Layout, read
from models.persistence import persist
from models.score_kernels import largest, owned
from models.scorers import Floats, Reason, Scorer, place, quiet_rows, squash, strongest

_MOST_ROWS = 4_000  # that medians are taken of
_ROWS_AT_ONCE = 1_000


def medians(values: NDArray[Any]) -> Floats:
    """Medians down the rows [C], NaN left out; NaN for a column of nothing else."""
    ordered = np.sort(values, axis=0)
    count = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    if not len(values):
        return np.full(values.shape[1], np.nan)
    high = np.minimum(high, len(values) - 1)
    return np.where(count > 0, (ordered[low, columns].astype(np.float64) + ordered[high, columns]) / 2, np.nan)


class RobustZ(Scorer):
    """Mean of the largest robust z over the peer columns, or over all where there are none (arXiv 2605.09370's kind).

    Parameters
    ----------
    largest
        How many of the z make the mean.
    """

    def __init__(self, *, largest: int = 10) -> None:
        self.largest = largest

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn each column's median and spread over the quiet rows."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight, columnwise=False)
        layout = read(self.columns())
        peers = [peer for metric in layout.metrics for _, peer in metric.pairs if peer >= 0]
        own = [column for metric in layout.metrics for column, _ in metric.pairs]
        self.used_ = np.array(sorted(peers or own), dtype=np.int64)
        rows = np.flatnonzero(quiet_rows(y, len(values)))
        known = values[rows[:: max(1, len(rows) // _MOST_ROWS)]][:, self.used_]
        self.centre_ = np.nan_to_num(medians(known))
        away = np.abs(known - self.centre_)
        spread = 1.4826 * np.nan_to_num(medians(away))
        # A column that stands still more often than not is measured by how far it goes when it moves
        count = np.maximum(np.count_nonzero(away > 0, axis=0), 1)
        mean = np.nan_to_num(np.nansum(away, axis=0) / count)
        self.scale_ = np.where(spread > 0, spread, np.where(mean > 0, mean, 1.0))
        return self

    def _z(self, X: Any) -> Floats:
        away = np.abs(self.checked(X)[:, self.used_] - self.centre_) / self.scale_
        return np.log1p(np.nan_to_num(away))

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The mean of the largest compressed z, squashed."""
        values = self.checked(X, columnwise=False)
        used, centre, scale = (owned(part, part.dtype) for part in (self.used_, self.centre_, self.scale_))
        most, out = min(self.largest, len(used)), np.empty(len(values))
        for low in range(0, len(values), _ROWS_AT_ONCE):
            part = slice(low, low + _ROWS_AT_ONCE)
            top = largest(owned(values[part], np.float64), used, centre, scale, most)
            out[part] = np.log1p(np.nan_to_num(top)).mean(axis=1)
        return squash(out)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Columns by their compressed z."""
        names = self.columns()
        return strongest(self._z(X), [names[column] for column in self.used_], most)


class OddOneOut(Scorer):
    """The machine that differs from its peers in the same metric for long enough (after Minder, arXiv 2411.01791).

    Parameters
    ----------
    windows
        In a row in which the same metric must be odd.
    """

    def __init__(self, *, windows: int = 6) -> None:
        self.windows = windows

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn how far quiet nodes are from their peers in each metric."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        quiet = quiet_rows(y, len(values))
        away = self._away(values)[quiet]
        count = max(len(away), 1)
        high = np.sort(away, axis=0)[min(int(0.99 * count), count - 1)] if len(away) else np.ones(away.shape[1])
        self.scale_ = np.where(high > 0, high, 1.0)
        return self

    @property
    def _layout(self) -> Layout:
        return read(self.columns())

    def _away(self, values: NDArray[Any]) -> Floats:
        parts = []
        for metric in self._layout.metrics:
            pairs = [peer for _, peer in metric.pairs if peer >= 0] or [own for own, _ in metric.pairs]
            parts.append(np.nan_to_num(np.abs(values[:, pairs])).max(axis=1))
        return np.column_stack(parts).astype(np.float64) if parts else np.zeros((len(values), 1))

    def _lasting(self, X: Any) -> Floats:
        return np.asarray(persist(np.log1p(self._away(self.checked(X)) / self.scale_), place(X), self.windows))

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest distance that lasts, squashed."""
        return squash(self._lasting(X).max(axis=1))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their lasting distance."""
        return strongest(self._lasting(X), [metric.name for metric in self._layout.metrics], most)
