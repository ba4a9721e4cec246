"""A node against the nodes that do the same work at the same moment.

Robust z of each column: the distance from the median of the node's group (the rows that share the moment and the
phase's group) in units of 1.4826 MAD, which is the standard deviation for normal data (Rousseeuw and Croux 1993).
Where more than half of the group agree to a hair, a hundredth of the median is the unit, and where that is 0 as well
(rare counts) 0.01. Values are compressed as ``sign(z) log(1 + |z|)``: clipping would make ties of the worst.
"""

from __future__ import annotations

import numba
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import phase
from features.settings import PeerSettings

_OWN_FAMILIES = ("presence.", "phase.", "logs.", "history.")  # judged by their own rules
_RELATIVE_FLOOR = 0.01
_ABSOLUTE_FLOOR = 0.01
_NO_SCALE = 1e-12


def names_of(columns: pd.Index) -> list[str]:
    """The columns that are compared with peers: those that come from a metric."""
    return [name for name in columns if not name.startswith(_OWN_FAMILIES)]


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
    starts = np.concatenate(([0], np.flatnonzero(~same) + 1, [len(order)])) if len(order) else np.zeros(1, dtype=int)
    out = robust_z(values, order.astype(np.int64), starts.astype(np.int64), settings.least + 1)
    return pd.DataFrame(out, index=rows.index, columns=[peer_name(name) for name in compared])


@numba.njit(cache=True)
def robust_z(
    values: NDArray[np.float32], order: NDArray[np.int64], starts: NDArray[np.int64], least: int
) -> NDArray[np.float32]:
    """Compressed robust z of every value within its group.

    Parameters
    ----------
    values
        float32 [N, C].
    order, starts
        Rows of group ``g`` are ``order[starts[g] : starts[g + 1]]``.
    least
        Groups with fewer known values than this, the value's own among them, give NaN.

    Returns
    -------
    ndarray
        float32 [N, C].
    """
    rows, width = values.shape
    out = np.full((rows, width), np.nan, dtype=np.float32)
    most = 0
    for group in range(len(starts) - 1):
        most = max(most, starts[group + 1] - starts[group])
    known = np.empty(most, dtype=np.float64)
    for group in range(len(starts) - 1):
        members = order[starts[group] : starts[group + 1]]
        if len(members) < least:
            continue
        for column in range(width):
            count = 0
            for member in members:
                value = values[member, column]
                if not np.isnan(value):
                    known[count] = value
                    count += 1
            if count < least:
                continue
            centre = np.median(known[:count])
            spread = 1.4826 * np.median(np.abs(known[:count] - centre))
            unit = max(spread, _RELATIVE_FLOOR * abs(centre))
            if unit < _NO_SCALE:
                unit = _ABSOLUTE_FLOOR
            for member in members:
                value = values[member, column]
                if not np.isnan(value):
                    away = (value - centre) / unit
                    out[member, column] = np.sign(away) * np.log1p(abs(away))
    return out
