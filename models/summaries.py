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
from models.parallel import in_parts
from models.persistence import run_length
from models.scorers import Place

_ODD = 2.0  # -log10: one quiet window in a hundred
_FLOOR = 1.3  # what one quiet window in twenty has is all the same: trees' few bins are for the tail
_MANY = 50  # metrics at most in higher criticism
_ROWS_AT_ONCE = 8_000

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
    out = np.empty((len(odd), len(_FAMILIES) * len(_EACH) + 4), dtype=np.float32)
    hot = np.zeros((len(odd), len(_FAMILIES)), dtype=bool)

    def some(low: int, high: int) -> None:
        _summarise(odd[low:high], lasting[low:high], family, out[low:high], hot[low:high])

    in_parts(len(odd), some, _ROWS_AT_ONCE)
    for number, name in enumerate(_FAMILIES):
        if (family == name).any():
            out[:, number * len(_EACH) + _EACH.index("long")] = run_length(hot[:, number], where)
    return out


def _summarise(
    odd: NDArray[np.float32],
    lasting: NDArray[np.float32],
    family: NDArray[Any],
    out: NDArray[np.float32],
    hot: NDArray[np.bool_],
) -> None:
    """Fill all of the summaries but for how long, and whether each family is odd [n, F]."""
    for number, name in enumerate(_FAMILIES):
        into, held = out[:, number * len(_EACH) :], family == name
        own = odd[:, held]
        if not own.shape[1]:
            into[:, : len(_EACH)] = np.nan
            continue
        best = -np.sort(-own, axis=1)[:, :3] if own.shape[1] > 1 else own
        hot[:, number] = best[:, 0] > _ODD
        into[:, 0] = np.maximum(best[:, 0], _FLOOR)
        into[:, 1] = np.maximum(best[:, 1:].mean(axis=1), _FLOOR) if best.shape[1] > 1 else 0.0
        into[:, 2] = (own > _ODD).mean(axis=1)
        into[:, 3] = np.maximum(lasting[:, held].max(axis=1), _FLOOR)
    out[:, -4] = odd.max(axis=1, initial=0.0)
    out[:, -3] = lasting.max(axis=1, initial=0.0)
    out[:, -2] = criticism(odd)
    out[:, -1] = (odd > _ODD).mean(axis=1) if odd.shape[1] else out[:, -4]


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
