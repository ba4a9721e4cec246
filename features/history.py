"""What a node has been through: earlier incidents, signs of wear.

That schedulers put it aside is left out: a job that scores from a metrics server has no sessions, and what a model
learned from them would be another there.

Only what lies strictly before the window's start counts, and of an incident only its first line on the node: a flood
that is still running is never its own precursor, and nothing here moves when later lines come in. Times are as
``log(1 + seconds)``, counts as ``log(1 + n)``; what lies further back than a week is as good as never.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import names
from features.tables import to_ns, to_time
from features.windows import as_ns

_WEEK_NS = 7 * 86_400 * 1_000_000_000
_HOUR_NS = 3600 * 1_000_000_000

WHAT = (
    "since_incident",  # of this node, any kind the preset counts
    "incidents_7d",
    "since_event",  # any decoded event of hardware, application or unknown kind
    "events_7d",
    "degradation_1h",  # remaps and contained errors, in the hour up to the window's end: signs, not targets
    "degradation_7d",
)
COLUMNS = tuple(names.column("history", what) for what in WHAT)


def columns(windows: pd.DataFrame, failures: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """`COLUMNS` for every window, float32, in the windows' order and with their index."""
    incidents = _times_by_node(_exploded(failures, events))
    wear = events["kind"] == "degradation" if len(events) else np.zeros(0, dtype=bool)
    told = _times_by_node(events[~wear & (events["kind"] != "metadata")]) if len(events) else {}
    worn = _times_by_node(events[wear]) if len(events) else {}
    start, end = as_ns(windows["start"]), as_ns(windows["end"])
    out = np.empty((len(windows), len(WHAT)), dtype=np.float32)
    codes, found = pd.factorize(windows["node"])
    for code, node in enumerate(found):
        rows = np.flatnonzero(codes == code)
        begin, over = start[rows], end[rows]
        out[rows] = np.column_stack(
            [
                _since(incidents.get(node), begin),
                _count(incidents.get(node), begin - _WEEK_NS, begin),
                _since(told.get(node), begin),
                _count(told.get(node), begin - _WEEK_NS, begin),
                _count(worn.get(node), over - _HOUR_NS, over),
                _count(worn.get(node), begin - _WEEK_NS, begin),
            ]
        )
    return pd.DataFrame(out, index=windows.index, columns=list(COLUMNS))


def _times_by_node(frame: pd.DataFrame) -> Mapping[str, NDArray[np.int64]]:
    """Ascending times of each node's rows."""
    return {str(node): np.sort(as_ns(rows["time"])) for node, rows in frame.groupby("node")} if len(frame) else {}


def _exploded(failures: pd.DataFrame, events: pd.DataFrame) -> pd.DataFrame:
    """One row a failure and node it touched, at the node's own first event of it."""
    own = _times_by_node(events)
    pairs = []
    columns = (failures[name] for name in ("node", "nodes", "time", "end"))
    for first, others, time, end in zip(*columns, strict=True):
        pairs.append((str(first), pd.Timestamp(time)))
        for node in {*others} - {first} if isinstance(others, (list, tuple)) else ():
            times = own.get(node, np.zeros(0, dtype=np.int64))
            within = times[(times >= to_ns(time)) & (times <= to_ns(end))]
            pairs.append((str(node), to_time(int(within[0])) if len(within) else pd.Timestamp(time)))
    return _frame(pairs)


def _frame(pairs: list[tuple[str, pd.Timestamp]]) -> pd.DataFrame:
    nodes = [node for node, _ in pairs]
    times = pd.DatetimeIndex([time for _, time in pairs] or [to_time(0)])[: len(pairs)]
    return pd.DataFrame({"node": nodes, "time": times})


def _since(times: NDArray[np.int64] | None, at: NDArray[np.int64]) -> NDArray[np.float64]:
    """log(1 + seconds) from the last time before ``at``; a week when there is none."""
    past = np.full(len(at), _WEEK_NS, dtype=np.int64)
    if times is not None and len(times):
        last = np.searchsorted(times, at, side="left") - 1
        some = last >= 0
        past[some] = np.minimum(_WEEK_NS, at[some] - times[last[some]])
    return np.log1p(past / 1e9)


def _count(times: NDArray[np.int64] | None, low: NDArray[np.int64], high: NDArray[np.int64]) -> NDArray[np.float64]:
    """log(1 + how many times lie in ``[low, high)``)."""
    if times is None or not len(times):
        return np.zeros(len(low))
    inside = np.searchsorted(times, high, side="left") - np.searchsorted(times, low, side="left")
    return np.log1p(inside.astype(np.float64))
