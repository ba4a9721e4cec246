"""A node against the nodes that do the same work at the same moment.

Robust z of each column: the distance from the median of the node's group (the rows that share the moment and the
phase's group) in units of 1.4826 MAD, which is the standard deviation for normal data (Rousseeuw and Croux 1993).
Where more than half of the group agree to a hair, a hundredth of the median is the unit, and where that is 0 as well
(rare counts) 0.01. Values are compressed as ``sign(z) log(1 + |z|)``: clipping would make ties of the worst.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import phase, siblings
from features.compiling import compiled
from features.settings import PeerSettings

_OWN_FAMILIES = ("presence.", "phase.", "logs.", "history.")  # judged by their own rules
_RELATIVE_FLOOR = 0.01
_ABSOLUTE_FLOOR = 0.01
_NO_SCALE = 1e-12
_COLUMNS_AT_ONCE = 256  # of the matrix, turned so that a group's values lie side by side


def names_of(columns: pd.Index) -> list[str]:
    """The columns that are compared with peers: those that come from a metric and are not a comparison already."""
    return [name for name in columns if not name.startswith(_OWN_FAMILIES) and not siblings.is_own(name)]


def peer_name(column: str) -> str:
    """``metric.gpu_max__mean`` becomes ``metric.gpu_max.peer__mean``."""
    kind, _, calculator = column.partition("__")
    return f"{kind}.peer__{calculator}"


def columns(rows: pd.DataFrame, settings: PeerSettings) -> pd.DataFrame:
    """Peer columns of stateless rows.

    Parameters
    ----------
    rows
        Float32, indexed by (node, end); every node of a moment must be there, in any order.

    Returns
    -------
    DataFrame
        float32, the same rows; NaN where the value is unknown or it has fewer than ``least`` peers with one.
    """
    compared = names_of(rows.columns)
    values = rows[compared].to_numpy(dtype=np.float32)
    moments = pd.DatetimeIndex(rows.index.get_level_values("end")).asi8
    groups = rows[phase.GROUP].to_numpy() if phase.GROUP in rows else np.zeros(len(rows), dtype=np.float32)
    order = np.lexsort((groups, moments))
    same = (np.diff(moments[order]) == 0) & (np.diff(groups[order]) == 0)
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1, [len(order)])) if len(order) else np.zeros(1)
    out = np.empty(values.shape, dtype=np.float32)
    for low in range(0, len(compared), _COLUMNS_AT_ONCE):
        some = slice(low, low + _COLUMNS_AT_ONCE)
        grouped = np.ascontiguousarray(values[order, some].T)
        robust_z(grouped, starts.astype(np.int64), settings.least + 1)
        out[order, some] = grouped.T
    return pd.DataFrame(out, index=rows.index, columns=[peer_name(name) for name in compared])


@compiled
def robust_z(values: NDArray[np.float32], starts: NDArray[np.int64], least: int) -> None:
    """Put its compressed robust z in the place of every value.

    Parameters
    ----------
    values
        float32 [C, N], a row for each column of the matrix, the rows of a group side by side.
    starts
        Group ``g`` is ``values[:, starts[g] : starts[g + 1]]``.
    least
        Groups with fewer known values than this, the value's own among them, give NaN.
    """
    known = np.empty(values.shape[1], dtype=np.float64)
    for column in range(values.shape[0]):
        for group in range(len(starts) - 1):
            count = 0
            for at in range(starts[group], starts[group + 1]):
                if not np.isnan(values[column, at]):
                    known[count] = values[column, at]
                    count += 1
            if count < least:
                values[column, starts[group] : starts[group + 1]] = np.nan
                continue
            some = known[:count]
            some.sort()
            centre = 0.5 * (some[(count - 1) // 2] + some[count // 2])
            unit = max(1.4826 * _deviation(some, centre), _RELATIVE_FLOOR * abs(centre))
            if unit < _NO_SCALE:
                unit = _ABSOLUTE_FLOOR
            for at in range(starts[group], starts[group + 1]):
                away = (values[column, at] - centre) / unit
                values[column, at] = np.sign(away) * np.log1p(abs(away))


@compiled
def _deviation(ascending: NDArray[np.float64], centre: float) -> float:
    """Median of the distances from ``centre``: taken outwards from it, so that nothing need be sorted again."""
    count = len(ascending)
    right = np.searchsorted(ascending, centre)
    left = right - 1
    before = 0.0
    last = 0.0
    for _ in range(count // 2 + 1):
        before = last
        if right >= count or (left >= 0 and centre - ascending[left] <= ascending[right] - centre):
            last = centre - ascending[left]
            left -= 1
        else:
            last = ascending[right] - centre
            right += 1
    return last if count % 2 else 0.5 * (before + last)
