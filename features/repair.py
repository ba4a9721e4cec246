"""What came of a node after an error, told by its GPUs: whether they went away, and when it was whole again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue
from features.absence import Sight
from features.incidents import ECHO_NS
from features.tables import EVENTS, conform, to_time
from features.windows import as_ns

STEADY_NS = 120_000_000_000  # an outage, and the return after it, last at least this long: a lost scrape is neither


class Repair(NamedTuple):
    """What came of a failed node.

    Attributes
    ----------
    repaired
        Nanoseconds since 1970 of the first cell in which it had all its GPUs again; None when none was away, or
        when the data end before that.
    away
        Whether GPUs, or the whole node, were away after the failure.
    """

    repaired: int | None
    away: bool


def repair(sight: Sight, time_ns: int, within_ns: int) -> Repair:
    """The first outage that begins within ``within_ns`` after the failure, and its end.

    A GPU counts as the node's own when it was seen before the failure. As many GPUs as before are enough: one that
    was swapped has another name.
    """
    missing, steady = _missing(sight, time_ns), _steady(sight)
    begun = _begun(sight, missing, time_ns, within_ns)
    if begun is None:
        return Repair(None, away=False)
    for start in range(begun + 1, len(missing) - steady + 1):
        if not missing[start : start + steady].any():
            return Repair(int(sight.times[start]), away=True)
    return Repair(None, away=True)


def settle(events: pd.DataFrame, sight: Sight, within_ns: int) -> pd.DataFrame:
    """A node's events, with NVLink errors that nothing calls fatal or not settled by what came of the node.

    A gauge shows the code alone, and a line may be cut off; where metrics are all there is, no failure of an NVLink
    would ever be known. One after which GPUs of the node went away within ``within_ns`` was fatal. It lasts until
    that is sure, so that nobody knows it sooner (`sure`).

    Parameters
    ----------
    events
        Frame of `EVENTS`: all of the node that is seen, so that what a line says goes before.
    """
    open_ = np.flatnonzero(unsettled(events))
    if not len(open_) or not sight.seen.any():
        return events
    kind, last, detail = events["kind"].tolist(), events["last"].tolist(), events["detail"].tolist()
    for place, time in zip(open_.tolist(), as_ns(events["time"])[open_].tolist(), strict=True):
        begun = _begun(sight, _missing(sight, time), time, within_ns)
        if begun is None:
            continue
        gone = int(sight.times[begun])
        kind[place] = catalogue.codes()[int(events["xid"].iloc[place])].kind
        last[place] = max(last[place], to_time(gone + _steady(sight) * _step(sight)))
        detail[place] += f"; taken for fatal: GPUs of the node were away from {to_time(gone):%Y-%m-%dT%H:%M:%SZ}"
    return conform(events.assign(kind=kind, last=last, detail=detail), EVENTS)


def sure(events: pd.DataFrame) -> pd.Series:
    """When each event was known for what it is: one that `settle` settled at its end, else at its time."""
    late = _unsaid(events) & (events["kind"] == "hardware").to_numpy()
    return events["time"].where(~late, events["last"])


def unsettled(events: pd.DataFrame) -> NDArray[np.bool_]:
    """NVLink errors of which neither a line nor the node's GPUs say whether they were fatal."""
    return np.asarray(_unsaid(events) & (events["kind"] == "unknown").to_numpy() & ~_echoes(events))


def _echoes(events: pd.DataFrame) -> NDArray[np.bool_]:
    """Events beside which a line says of the same code whether it was fatal."""
    said = events[(events["origin"] == "log") & (events["severity"] != "")]
    out = np.zeros(len(events), dtype=bool)
    codes, times = events["xid"].fillna(-1).to_numpy(dtype=np.int64), as_ns(events["time"])
    for code, first, last in zip(said["xid"], as_ns(said["time"]), as_ns(said["last"]), strict=True):
        out |= (codes == code) & (times >= first - ECHO_NS) & (times <= last + ECHO_NS)
    return out


def _unsaid(events: pd.DataFrame) -> NDArray[np.bool_]:
    """NVLink errors of which nothing says whether they are fatal."""
    return (events["xid"].isin(list(catalogue.NVLINK)) & (events["severity"] == "")).to_numpy(dtype=bool)


def _missing(sight: Sight, time_ns: int) -> NDArray[np.bool_]:
    """Cells with fewer GPUs than the node showed before a moment, none when it showed none."""
    before = sight.times < time_ns
    own = int(sight.seen[:, before].any(axis=1).sum()) if len(sight.gpus) else 0
    if not own:
        return np.zeros(len(sight.times), dtype=bool)
    return np.asarray(_held(sight.seen, before).sum(axis=0) < own)


def _begun(sight: Sight, missing: NDArray[np.bool_], time_ns: int, within_ns: int) -> int | None:
    """The cell in which the first outage that lasts begins, no later than ``within_ns`` after a moment."""
    low, high = np.searchsorted(sight.times, [time_ns, time_ns + within_ns + 1])
    steady = _steady(sight)
    for start in range(int(low), min(int(high), len(missing) - steady + 1)):
        if missing[start : start + steady].all():
            return start
    return None


def _step(sight: Sight) -> int:
    return int(np.diff(sight.times).min()) if len(sight.times) > 1 else STEADY_NS


def _steady(sight: Sight) -> int:
    """Cells that an outage lasts at least."""
    return max(1, -(-STEADY_NS // _step(sight)))


def _held(seen: NDArray[np.bool_], before: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The GPUs [G, T] seen in a cell, or in one before it that is no further away than scrapes usually are.

    A grid finer than the scrape interval has cells without a sample.
    """
    cells = np.flatnonzero(seen.any(axis=0) & before)
    cadence = int(np.median(np.diff(cells))) if len(cells) > 1 else 1
    held = seen.copy()
    for back in range(1, cadence):
        held[:, back:] |= seen[:, :-back]
    return held
