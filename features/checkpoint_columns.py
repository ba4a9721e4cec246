"""What a node's NFS client does, as columns of the matrix: slot pressure, waiting for a slot, a save's end.

Against its peers (`features.peers`) the end of a save is what tells a straggler: the nodes of a job save at the same
moment, and the one that ends late is the odd one out. A gain over lost scrapes is shared by the cells up to the sample
that tells it, and by none after: a row may know nothing that a live one could not.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from features import meaning, names
from features.panel import increases, step_of
from features.phase import SAVING_BYTES
from features.settings import FeatureSettings, to_nanoseconds
from features.tables import Panel

_NFS = "node_mountstats_nfs_"
_RESPONSE = f"{_NFS}operations_response_time_seconds_total"
_QUEUE = f"{_NFS}operations_queue_time_seconds_total"
_WRITTEN = f"{_NFS}total_write_bytes_total"
_WANTED = frozenset({_RESPONSE, _QUEUE, _WRITTEN})
_SERVER = re.compile(r'mountaddr="([^"]*)"')

WHAT = (
    "nfs_in_flight",  # requests in flight at the busiest server, the most of any cell: Little's law
    "nfs_queue_share",  # of all operations' time, what is spent before they are sent
    "nfs_save_end",  # seconds from the window's start to the end of its last cell of saving
)
COLUMNS = tuple(names.column(what) for what in WHAT)


def tells(panel: Panel) -> bool:
    """Whether the panel holds anything that these columns are made of."""
    return any(meaning.name_of(series.metric) in _WANTED for series in panel.series)


def columns(raw: Panel, ends_ns: NDArray[np.int64], settings: FeatureSettings) -> NDArray[np.float32]:
    """`COLUMNS` of one node, float32 [W, len(COLUMNS)]; NaN where nothing tells them.

    Parameters
    ----------
    raw
        Values as exported, from `features.matrix.reach` before the first end on.
    """
    titles = [meaning.name_of(series.metric) for series in raw.series]
    rows = [row for row, title in enumerate(titles) if title in _WANTED]
    titles = [titles[row] for row in rows]
    metrics = [raw.series[row].metric for row in rows]
    step = step_of(raw.times) / 1e9
    lookback = max(1, to_nanoseconds(settings.panel.staleness) // step_of(raw.times))
    values = raw.values[rows].astype(np.float64)
    gained, _, _ = increases(values, lookback, settings.panel.glitch_ratio)
    seconds = _since_known(values) * step
    flight, written = _in_flight(titles, metrics, gained / seconds), _sum(gained / seconds, titles, _WRITTEN)
    queue, response = _sum(gained, titles, _QUEUE), _sum(gained, titles, _RESPONSE)
    length = to_nanoseconds(settings.window.length)
    out = np.full((len(ends_ns), len(WHAT)), np.nan, dtype=np.float32)
    for row, end in enumerate(ends_ns.tolist()):
        start, stop = np.searchsorted(raw.times, [end - length, end]).tolist()
        part = slice(start, stop)
        if (known := flight[part][~np.isnan(flight[part])]).size:
            out[row, 0] = known.max()
        waited, replied = np.nansum(queue[part]), np.nansum(response[part])
        if waited + replied > 0 and not np.isnan(queue[part]).all():
            out[row, 1] = waited / (waited + replied)
        if (saving := np.flatnonzero(np.nan_to_num(written[part]) >= SAVING_BYTES)).size:
            out[row, 2] = (saving[-1] + 1) * step
    return out


def _since_known(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cells from the last known value before each cell, [S, T]; 1 where there is none."""
    cells = np.arange(values.shape[1])
    last = np.maximum.accumulate(np.where(np.isnan(values), -1, cells), axis=1)
    before = np.concatenate([np.full((len(values), 1), -1), last[:, :-1]], axis=1)
    return np.where(before >= 0, cells - before, 1).astype(np.float64)


def _sum(rates: NDArray[np.float64], titles: list[str], wanted: str) -> NDArray[np.float64]:
    """Of one metric the sum over its series [T], NaN where none is known."""
    own = rates[[row for row, title in enumerate(titles) if title == wanted]]
    return np.where(np.isnan(own).all(axis=0), np.nan, np.nansum(own, axis=0))


def _in_flight(titles: list[str], metrics: list[str], rates: NDArray[np.float64]) -> NDArray[np.float64]:
    """Requests in flight at the busiest server [T]: seconds of response gained a second."""
    servers: dict[str, list[int]] = {}
    for row, (title, metric) in enumerate(zip(titles, metrics, strict=True)):
        if title == _RESPONSE:
            found = _SERVER.search(metric)
            servers.setdefault(found[1] if found else "", []).append(row)
    out = np.full(rates.shape[1], np.nan)
    for own in servers.values():
        out = np.fmax(out, _sum(rates[own], [_RESPONSE] * len(own), _RESPONSE))
    return out
