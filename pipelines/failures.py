"""What failed and when, from everything the store holds: kernel lines, the gauge of XIDs, vanished GPUs, tickets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from features import absence, catalogue, clocks, gauge, incidents, repair, xid
from features.settings import LabelSettings, to_nanoseconds
from features.tables import EVENTS, conform, to_ns
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store

_ONSET = re.compile(r"xid (\d{1,5})(?: gpu (.*))?")  # how tickets of XID onsets are kept
_UNREAD = {
    "malformed": "they are cut or garbled",
    "quoted by a program": "a program wrote them, not the kernel",
    "zero": "XID 0 is no error",
}
_FOLD_EVERY = 64  # tables of events that are held before they are folded
_UUID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)


def events(store: Store, config: Config, counts: Counter[str] | None = None) -> pd.DataFrame:
    """Every XID event of the store, of all origins, in time order.

    Reads some lines of one node at a time; what grows is the table of events, and floods are folded as they come.

    Parameters
    ----------
    counts
        Filled with lines that speak of an XID and gave no event, by reason.

    Returns
    -------
    DataFrame
        Frame of `EVENTS`.
    """
    gpus = store.gpus()
    held: list[pd.DataFrame] = [_given_onsets(store.incidents(), gpus)]
    within = to_nanoseconds(config.labels.recovery)
    for found in _by_node(store, gpus, within, Counter() if counts is None else counts):
        held.append(found)
        if len(held) > _FOLD_EVERY:
            held = [_folded(held)]
    return incidents.with_user_kinds(_folded(held), config.labels)


def failures(store: Store, config: Config, preset: str | None = None) -> pd.DataFrame:
    """Failures of the store by the preset, tickets among them: frame of `FAILURES`."""
    return grouped(events(store, config), store, config, preset)


def doubts(found: pd.DataFrame, counts: Counter[str]) -> list[str]:
    """What a person should know before believing the events, one sentence each.

    Parameters
    ----------
    found, counts
        Events, and lines that gave none by reason, as `events` finds them.
    """
    said = [
        f"lines that speak of an XID and gave no event, as {_UNREAD[reason]}: {count}"
        for reason, count in sorted(counts.items())
        if count
    ]
    open_ = found[repair.unsettled(found)]
    if len(open_):
        codes = sorted({int(code) for code in open_["xid"]})
        said.append(
            f"NVLink errors that no line calls fatal, and after which no GPU of the node went away: {len(open_)} (XIDs "
            f"{', '.join(map(str, codes))}); they count as no failure unless labels.hardware = {codes} is set"
        )
    for node, seconds in clocks.apart(found).items():
        side = "after" if seconds > 0 else "before"
        said.append(
            f"{node}: its log tells an XID {abs(seconds) / 60:.0f} minutes {side} its metrics do; if its clocks are "
            "apart or the log's --timezone is wrong, one failure is listed twice"
        )
    return said


def grouped(found: pd.DataFrame, store: Store, config: Config, preset: str | None = None) -> pd.DataFrame:
    """Failures by the preset among events that `events` found, tickets among them: frame of `FAILURES`."""
    return incidents.group(found, _labels(config, preset), _tickets(store))


def with_repairs(store: Store, config: Config, found: pd.DataFrame) -> pd.DataFrame:
    """Failures with four more columns: what came of the node, and what the data can't say.

    ``repaired`` (time at which the node had all its GPUs again, NaT when none was away or nobody knows),
    ``repair_minutes`` (from the failure to then), ``left_censored`` (the node's data begin less than a horizon and a
    window before the failure: its warning may be cut off) and ``right_censored`` (they end before the node was whole
    again, or before its recovery time is over).
    """
    out = found.copy()
    rows = [
        _came_of(store, config, node, time, end)
        for node, time, end in zip(out["node"], out["time"], out["end"], strict=True)
    ]
    ends = np.array([np.iinfo(np.int64).min if row[0] is None else row[0] for row in rows], dtype=np.int64)
    out["repaired"] = pd.DatetimeIndex(ends.view("datetime64[ns]")).tz_localize("UTC")  # the least integer is NaT
    out["repair_minutes"] = (out["repaired"] - out["time"]).dt.total_seconds() / 60
    out["left_censored"] = pd.Series([row[1] for row in rows], index=out.index, dtype=bool)
    out["right_censored"] = pd.Series([row[2] for row in rows], index=out.index, dtype=bool)
    return out


def _came_of(
    store: Store, config: Config, node: str, time: pd.Timestamp, end: pd.Timestamp
) -> tuple[int | None, bool, bool]:
    """When it was repaired, and whether the data begin too late or end too early to say all of it."""
    recovery = to_nanoseconds(config.labels.recovery)
    lead = to_nanoseconds(config.labels.horizon) + to_nanoseconds(config.features.window.length)
    failed, over = to_ns(time), to_ns(end) + recovery
    days = store.days(node) or store.log_days(node)
    if not days:
        return None, True, True
    first, last = store.node_span(node)
    sights = []
    came = repair.Repair(None, away=False)
    for day in [day for day in store.days(node) if day >= failed // DAY_NS - 1]:
        sights.append(absence.sight(store.panel(node, day * DAY_NS, (day + 1) * DAY_NS)))
        # a node that is down was measured all the same, until its last sample: one that says so, or is of a later day
        joined = absence.join(sights)
        measured = _cut(joined, int(np.searchsorted(joined.times, last, side="right")))
        came = repair.repair(measured, failed, over - failed)
        if came.repaired is not None or (not came.away and (day + 1) * DAY_NS > over + repair.STEADY_NS):
            break
    return came.repaired, first > failed - lead, last < over or (came.away and came.repaired is None)


def explain(store: Store, config: Config, preset: str | None = None) -> list[dict[str, Any]]:
    """Each XID event with one sentence that says why it is or isn't a failure."""
    return explained(events(store, config), store, config, preset)


def explained(found: pd.DataFrame, store: Store, config: Config, preset: str | None = None) -> list[dict[str, Any]]:
    """Each of the events that `events` found with one sentence that says why it is or isn't a failure."""
    sentences = incidents.explain(found, _labels(config, preset), _tickets(store))
    columns = (found[name] for name in ("time", "node", "pci", "xid", "origin"))
    return [
        {
            "time": time,
            "node": node,
            "pci": pci,
            "xid": None if pd.isna(code) else int(code),
            "origin": origin,
            "why": sentence,
        }
        for time, node, pci, code, origin, sentence in zip(*columns, sentences, strict=True)
    ]


def _labels(config: Config, preset: str | None) -> LabelSettings:
    return config.labels if preset is None else config.labels.model_copy(update={"preset": preset})


def _by_node(store: Store, gpus: pd.DataFrame, within_ns: int, counts: Counter[str]) -> Iterator[pd.DataFrame]:
    for node in store.nodes():
        batches = (batch for day in store.log_days(node) for batch in store.log_batches(node, day))
        told = xid.decode_pieces(batches, gpus, counts)
        codes, sight = _metric_events(store, node, gpus)
        found = pd.concat([told, *codes], ignore_index=True) if codes else told
        yield found if sight is None else repair.settle(found, sight, within_ns)
        if sight is not None:
            yield absence.lost_gpus(sight, node, gpus)


def _metric_events(store: Store, node: str, gpus: pd.DataFrame) -> tuple[list[pd.DataFrame], absence.Sight | None]:
    """Events of one node's gauges, and which of its GPUs were there."""
    where = {gpu: pci for gpu, pci, host in zip(gpus["gpu"], gpus["pci"], gpus["node"], strict=True) if host == node}
    before = {device: code for (host, device), (_, code) in store.first_codes().items() if host == node}
    sights, found = [], []
    for day in store.days(node):
        panel = store.panel(node, day * DAY_NS, (day + 1) * DAY_NS)
        taken = store.stamps(node, day, gauge.is_gauge)
        for device, gpu, codes in gauge.read_gauges(panel):
            # the sample's own time; a cell's start may lie before the error
            read = np.max([stamps for series, stamps in taken.items() if gauge.device(series) == device], axis=0)
            times = np.where(read >= 0, read, panel.times)
            found.append(gauge.from_gauge(times, codes, node, gpu, where.get(gpu, ""), before.get(device, np.nan)))
            before[device] = gauge.last_known(codes, before.get(device, np.nan))
        sights.append(absence.sight(panel))
    return found, _trimmed(absence.join(sights)) if sights else None


def _trimmed(sight: absence.Sight) -> absence.Sight:
    """Without the cells after the last sample of its GPUs: nothing there tells one from another."""
    any_seen = np.flatnonzero(sight.seen.any(axis=0) | sight.answered)
    return _cut(sight, int(any_seen[-1]) + 1 if len(any_seen) else 0)


def _cut(sight: absence.Sight, stop: int) -> absence.Sight:
    return absence.Sight(sight.times[:stop], sight.gpus, sight.seen[:, :stop], sight.answered[:stop])


def _folded(tables: list[pd.DataFrame]) -> pd.DataFrame:
    full = [table for table in tables if len(table)]
    return xid.fold(pd.concat(full, ignore_index=True)) if full else EVENTS.empty()


def _tickets(store: Store) -> pd.DataFrame:
    given = store.incidents()
    return given[~given["kind"].str.fullmatch(_ONSET.pattern)] if len(given) else given


def _given_onsets(given: pd.DataFrame, gpus: pd.DataFrame) -> pd.DataFrame:
    """Events of the tickets that are onsets of XIDs."""
    rows = []
    for node, time, kind in zip(given["node"], given["start"], given["kind"], strict=True):
        if found := _ONSET.fullmatch(kind):
            code, place = int(found[1]), found[2] or ""
            rows.append(
                {
                    "node": node, "time": time, "last": time, "xid": code, "origin": "given", "count": 1,
                    "gpu": place if _UUID.match(place) else "", "pci": xid.pci(place), "kind": catalogue.kind(code),
                    "detail": f"gpu index {place}" if place.isdigit() else "",
                }
            )  # fmt: skip
    return xid.place(conform(pd.DataFrame(rows), EVENTS), gpus) if rows else EVENTS.empty()
