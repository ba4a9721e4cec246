"""Events that tell the same thing twice as one: floods of a line, a loss told with and without an XID."""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import EVENTS, conform

FLOOD_GAP = pd.Timedelta(minutes=3)  # a line that repeats within this is one event
LOST_GAP = pd.Timedelta(minutes=5)  # a plain "fallen off the bus" this near to an XID 79 is the same loss
MOST_VARIANTS = 50  # events of one code on one GPU that differ only in numbers, before they count as one flood
MOST_COUNT = 1000  # lines of an event that is a flood by itself
MOST_WORDINGS = 500  # that differ in words: more than the driver has for any code
LOST_WITHOUT_XID = "GPU has fallen off the bus (no XID line)"
OFF_THE_BUS = 79
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d[0-9a-fA-F]*")


def fold(events: pd.DataFrame) -> pd.DataFrame:
    """Repeats of one line on one GPU within `FLOOD_GAP` as one event; plain losses joined to the XID 79 near them.

    A flood whose lines differ in numbers alone (addresses, channels) is one event too, once it is large, and so is a
    larger one whatever its words. Folding the concatenation of folded tables is the same as folding all at once, so
    history may be read in pieces.
    """
    if events.empty:
        return EVENTS.empty()
    events = _fold_by(events.reset_index(drop=True), events["detail"])
    events = _fold_flood(events, events["detail"].str.replace(_NUMBERS.pattern, "#", regex=True), MOST_VARIANTS)
    if len(events) > MOST_WORDINGS:
        events = _fold_flood(events, pd.Series("", index=events.index, dtype="str"), MOST_WORDINGS)
    return conform(_join_losses(events).sort_values(["time", "node", "pci"], kind="stable"), EVENTS)


def place(events: pd.DataFrame, gpus: pd.DataFrame, told: dict[tuple[str, str], str] | None = None) -> pd.DataFrame:
    """The events with UUIDs: the GPU last seen at the address by then, else any that was ever seen there.

    One told by its UUID alone gets the address at which that GPU was last seen.

    Parameters
    ----------
    events, gpus
        Frames of `EVENTS` and `GPUS`.
    told
        More UUIDs by (node, pci), as kernel lines name them.
    """
    known: dict[tuple[str, str], list[tuple[pd.Timestamp, str]]] = {}
    seen = gpus.sort_values("first") if len(gpus) else gpus
    for node, address, first, gpu in zip(seen["node"], seen["pci"], seen["first"], seen["gpu"], strict=True):
        known.setdefault((node, address), []).append((first, gpu))
    told = told or {}

    def uuid(node: str, address: str, time: pd.Timestamp) -> str:
        here = known.get((node, address), []) if address else []
        before = [gpu for first, gpu in here if first <= time]
        return before[-1] if before else here[0][1] if here else told.get((node, address), "")

    where = dict(zip(zip(seen["node"], seen["gpu"], strict=True), seen["pci"], strict=True))
    pairs = zip(events["node"], events["gpu"], events["pci"], strict=True)
    addresses = [at or (where.get((node, gpu), "") if gpu else "") for node, gpu, at in pairs]
    events = events.assign(pci=pd.Series(addresses, index=events.index, dtype="str"))
    keys = zip(events["node"], events["pci"], events["time"], events["gpu"], strict=True)
    uuids = [gpu or uuid(node, at, time) for node, at, time, gpu in keys]
    return events.assign(gpu=pd.Series(uuids, index=events.index, dtype="str"))


def nanoseconds(times: pd.Series) -> NDArray[np.int64]:
    """Times as the arrays count them."""
    return np.asarray(pd.DatetimeIndex(times).as_unit("ns").asi8)


def _fold_flood(events: pd.DataFrame, alike: pd.Series, most: int) -> pd.DataFrame:
    """Events of one code on one GPU whose text is alike, folded where they are very many or one is a flood already."""
    groups = events.groupby([events["node"], events["pci"], events["xid"].fillna(-1), alike])
    flood = (groups["time"].transform("size") > most) | (groups["count"].transform("max") > MOST_COUNT)
    if not flood.any():
        return events
    return pd.concat([events[~flood], _fold_by(events[flood].reset_index(drop=True), alike[flood])], ignore_index=True)


def _fold_by(events: pd.DataFrame, detail: pd.Series) -> pd.DataFrame:
    """One row for each run of equal events: less than `FLOOD_GAP` from one's last line to the next's first."""
    keys = {
        "node": events["node"], "pci": events["pci"], "gpu": events["gpu"], "xid": events["xid"].fillna(-1),
        "origin": events["origin"],
        "severity": events["severity"], "mig": events["mig"], "link": events["link"].fillna(-1),
        "detail": detail.to_numpy(),
    }  # fmt: skip
    group = pd.DataFrame(keys).groupby(list(keys), sort=False).ngroup().to_numpy()
    time = nanoseconds(events["time"])
    order = np.lexsort((time, group))
    events, group, time = events.iloc[order], group[order], time[order]
    last = nanoseconds(events["last"])
    reach = pd.Series(last).groupby(group).cummax().to_numpy()
    new = np.ones(len(events), dtype=bool)
    new[1:] = (group[1:] != group[:-1]) | (time[1:] - reach[:-1] >= FLOOD_GAP.value)
    run = np.cumsum(new) - 1
    out = events[new].reset_index(drop=True)
    counts = np.zeros(len(out), dtype=np.int64)
    np.add.at(counts, run, events["count"].to_numpy())
    ends = np.zeros(len(out), dtype=np.int64)
    np.maximum.at(ends, run, last)
    return out.assign(count=counts, last=pd.to_datetime(ends, utc=True).as_unit("ns"))


def _join_losses(events: pd.DataFrame) -> pd.DataFrame:
    """Plain losses within `LOST_GAP` of an XID 79 of that GPU go into it, their counts and ends kept."""
    plain = (events["detail"] == LOST_WITHOUT_XID) & (events["origin"] == "log")
    coded = (events["xid"].fillna(-1) == OFF_THE_BUS) & ~plain & (events["origin"] == "log")
    if not (plain.any() and coded.any()):
        return events
    rows = events.to_dict("records")
    codes = [row for row, is_coded in zip(rows, coded, strict=True) if is_coded]
    kept = []
    for row, is_plain in zip(rows, plain, strict=True):
        into = next((code for code in codes if is_plain and _same_loss(row, code)), None)
        if into is None:
            kept.append(row)
            continue
        into["count"] += row["count"]
        into["time"], into["last"] = min(into["time"], row["time"]), max(into["last"], row["last"])
    return conform(pd.DataFrame(kept), EVENTS)


def _same_loss(plain: dict[Hashable, Any], coded: dict[Hashable, Any]) -> bool:
    same = plain["node"] == coded["node"] and plain["pci"] == coded["pci"]
    return bool(same and coded["time"] - LOST_GAP <= plain["last"] and plain["time"] <= coded["last"] + LOST_GAP)
