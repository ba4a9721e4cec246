"""From thousands of columns to a few for each family of metrics: how odd, how many, for how long.

Fitted on quiet windows. What a supervised model learns from these holds for a metric it has never seen fail, and on a
cluster with other metrics.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from features.families import FAMILIES
from features.names import column
from models.layout import Layout, read
from models.oddness import Oddness
from models.persistence import persist, run_length
from models.scorers import Floats, Place, Reason, Scorer, place, quiet_rows, squash, strongest

_ODD = 2.0  # -log10: one quiet window in a hundred
_WINDOWS = 3  # that must agree on a metric
_MANY = 50  # metrics at most in higher criticism

_FAMILIES = tuple(name for name in FAMILIES if name not in {"phase", "history"})
_EACH = ("top", "second", "many", "held", "long")


class Signs(NamedTuple):
    """What models read: a frame of the metrics' surprises, a frame of family summaries, and what rows are."""

    metrics: pd.DataFrame  # [n, M]
    lasting: pd.DataFrame  # [n, M], what of it the last windows agree on, metric by metric
    summary: pd.DataFrame
    where: Place
    changing: NDArray[np.bool_]


class Summaries(Scorer):
    """The signs of a matrix's rows, for the models that read them.

    No scikit-learn transformer: the rows of the fit get other signs than new rows would, by design. As a model of
    its own it is the plainest one: the largest surprise that lasts.
    """

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn what is usual."""
        self.signs_of_fit(X, y, sample_weight)
        return self

    def signs_of_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Signs:
        """Fit, and the signs of the very rows, each by what was learned on other days."""
        values = self.checked(X, fitting=True, rows=2, weight=sample_weight)
        self._layout = read(self.columns())
        where = place(X)
        self.oddness_, odd = Oddness.fit(values, where, quiet_rows(y, len(values)), self._layout)
        return self._signs(values, where, odd, X)

    @property
    def layout(self) -> Layout:
        """The columns' meaning."""
        if getattr(self, "_layout", None) is None:
            self._layout = read(self.columns())
        return self._layout

    def signs(self, X: Any) -> Signs:
        """What models read, of rows that the fit did not see."""
        values = self.checked(X)
        where = place(X)
        return self._signs(values, where, self.oddness_.metrics(values, where, self.layout)[0], X)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The largest surprise that lasts, squashed."""
        return squash(self.signs(X).lasting.to_numpy().max(axis=1, initial=0.0))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Metrics by their lasting surprise."""
        lasting = self.signs(X).lasting
        return strongest(lasting.to_numpy(), [str(name) for name in lasting.columns], most)

    def worst_columns(self, X: Any) -> NDArray[np.int32]:
        """For each row and metric [n, M] the column its surprise comes from."""
        check_is_fitted(self)
        return self.oddness_.columns.metrics(self.checked(X), place(X).node, self.layout)[1]

    def _signs(self, values: NDArray[Any], where: Place, odd: NDArray[np.float32], X: Any) -> Signs:
        index = X.index if isinstance(X, pd.DataFrame) else pd.RangeIndex(len(values))
        names = [metric.name for metric in self.layout.metrics]
        states = list(self.layout.states)
        lasting = persist(odd, where, _WINDOWS)
        table = np.hstack([summarise(odd, lasting, self.layout, where), values[:, states].astype(np.float32)])
        columns = [*summary_columns(), *(self.columns()[number] for number in states)]
        change = self.layout.changing
        changing = values[:, change] > 0 if change >= 0 else np.zeros(len(values), dtype=bool)
        return Signs(
            pd.DataFrame(odd, index=index, columns=names),
            pd.DataFrame(lasting, index=index, columns=names),
            pd.DataFrame(table, index=index, columns=columns),
            where,
            np.asarray(changing, dtype=bool),
        )

    def thaw(self, name: str, value: Any) -> Any:
        """The oddness has parts of its own."""
        return Oddness.from_state(value) if name == "oddness_" else super().thaw(name, value)


def summary_columns() -> list[str]:
    """The names of the summaries, always the same whatever metrics there are."""
    each = [column("family", name, what) for name in _FAMILIES for what in _EACH]
    return [*each, *(column("family", "all", what) for what in ("top", "held", "criticism", "many"))]


def summarise(
    odd: NDArray[np.float32], lasting: NDArray[np.float32], layout: Layout, where: Place
) -> NDArray[np.float32]:
    """Summaries [n, K] of metrics' surprises [n, M] and what of them lasts; a family without metrics is NaN."""
    family = np.array([FAMILIES[metric.family] for metric in layout.metrics], dtype=object)
    parts: list[NDArray[Any]] = []
    for name in _FAMILIES:
        own = odd[:, family == name]
        if not own.shape[1]:
            parts.append(np.full((len(odd), len(_EACH)), np.nan))
            continue
        best = -np.sort(-own, axis=1)[:, :3] if own.shape[1] > 1 else own
        top = best[:, 0]
        parts.append(
            np.column_stack(
                [
                    top,
                    best[:, 1:].mean(axis=1) if best.shape[1] > 1 else np.zeros(len(odd)),
                    (own > _ODD).mean(axis=1),
                    lasting[:, family == name].max(axis=1),
                    run_length(top > _ODD, where),
                ]
            )
        )
    top = odd.max(axis=1, initial=0.0)
    parts.append(
        np.column_stack(
            [top, lasting.max(axis=1, initial=0.0), criticism(odd), (odd > _ODD).mean(axis=1) if odd.shape[1] else top]
        )
    )
    return np.hstack(parts).astype(np.float32)


def criticism(odd: NDArray[np.float32]) -> NDArray[np.float64]:
    """Whether many metrics are a little odd at once: Berk and Jones' statistic (1979) over the smallest p [n].

    The largest over k >= 2 of ``k log(k / (M p_k)) - (k - M p_k)`` with the k-th smallest of M p-values.
    """
    count = odd.shape[1]
    if count < 2:
        return np.zeros(len(odd))
    most = min(_MANY, count)
    least = -odd if most == count else np.partition(-odd, most - 1, axis=1)[:, :most]
    best = -np.sort(least, axis=1)
    expected = count * 10.0 ** -best.astype(np.float64)
    k = np.arange(1, most + 1, dtype=np.float64)
    value = np.where(expected < k, k * np.log(k / np.maximum(expected, 1e-300)) - (k - expected), 0.0)
    return np.asarray(value[:, 1:].max(axis=1), dtype=np.float64)
