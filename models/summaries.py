"""From thousands of columns to a few for each family of metrics: how odd, how many, for how long.

Fitted on quiet windows. What a supervised model learns from these holds for a metric it has never seen fail, and on a
cluster with other metrics.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.families import FAMILIES
from features.names import column
from models.layout import Layout
from models.persistence import run_length
from models.scorers import Place

_ODD = 2.0  # -log10: one quiet window in a hundred
_FLOOR = 1.3  # what one quiet window in twenty has is all the same: trees' few bins are for the tail
_MANY = 50  # metrics at most in higher criticism

_FAMILIES = tuple(name for name in FAMILIES if name not in {"phase", "history"})
_EACH = ("top", "second", "many", "held", "long")


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
                    np.maximum(top, _FLOOR),
                    np.maximum(best[:, 1:].mean(axis=1), _FLOOR) if best.shape[1] > 1 else np.zeros(len(odd)),
                    (own > _ODD).mean(axis=1),
                    np.maximum(lasting[:, family == name].max(axis=1), _FLOOR),
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
