"""Events to incidents: bursts, cascades over GPUs and nodes, log and gauge and absence of one failure made one.

Which events belong together:

- failures of one node with less than ``incident_gap`` between one's last line and the next's first;
- the same code that begins on other nodes within ``cascade_gap`` of one another (a fabric or a job takes several nodes
  at once), for ``incident_gap`` at most;
- what begins within ``cascade_gap`` of codes of programs on `ABORT_NODES` nodes: a job dies whole, of several codes;
- a gauge's code within `ECHO` of the same code in the node's log;
- a GPU that vanishes during or after an incident of its own.

An event that is no failure by the preset joins the incident it is near to, but never makes one nor links two: a
flood of correctable errors before a failure stays a sign of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue
from features.folding import nanoseconds
from features.settings import LabelSettings, to_nanoseconds
from features.tables import FAILURES, conform
from features.xid import recovery_action

# Exporters read the code every 30 s at most and are scraped as rarely; five minutes is what other tools take too
ECHO_NS = 300_000_000_000
# Programs that fail on so many nodes within `cascade_gap` are one job's; two may be chance
ABORT_NODES = 3
_ORIGINS = ("log", "gauge", "absence", "given")


class Grouped(NamedTuple):
    """Incidents and what each event is in them.

    Attributes
    ----------
    failures
        Frame of `FAILURES`.
    incident
        int64 [events], row of the failure the event belongs to, -1 none.
    target
        bool [events], whether it is a failure by itself.
    """

    failures: pd.DataFrame
    incident: NDArray[np.int64]
    target: NDArray[np.bool_]


def group(events: pd.DataFrame, settings: LabelSettings, given: pd.DataFrame | None = None) -> pd.DataFrame:
    """Failures of a table of events.

    Parameters
    ----------
    events
        Frame of `EVENTS` of all origins.
    given
        Incidents known from elsewhere (node, start, end, kind), or None. Each is a failure of its own; one that
        meets a failure found here, or starts within ``recovery`` after it, is the same failure.

    Returns
    -------
    DataFrame
        Frame of `FAILURES` in time order.
    """
    return assign(events, settings, given).failures


def assign(events: pd.DataFrame, settings: LabelSettings, given: pd.DataFrame | None = None) -> Grouped:
    """As `group`, with the events' places; `events` must be in time order."""
    events = with_user_kinds(events, settings)
    target = targets(events, settings)
    if settings.given == "instead":  # onsets of XIDs that were given are failures still
        target &= (events["origin"] == "given").to_numpy()
    incident = np.full(len(events), -1, dtype=np.int64)
    places = np.flatnonzero(target)
    if len(places):
        incident[places] = _components(events.iloc[places].reset_index(drop=True), settings)
        incident = _attach(events, incident, to_nanoseconds(settings.incident_gap))
    by_incident = np.argsort(incident, kind="stable")
    parts = np.split(by_incident, np.flatnonzero(np.diff(incident[by_incident])) + 1) if len(by_incident) else []
    rows = [
        _failure(events.iloc[part], events.iloc[part[target[part]]], settings)
        for part in parts
        if incident[part[0]] >= 0
    ]
    if given is not None:
        rows = _with_given(rows, given, settings)
    order = sorted(range(len(rows)), key=lambda index: (rows[index]["time"], rows[index]["node"]))
    place_of = {old: new for new, old in enumerate(order)}
    incident = np.array([place_of.get(int(number), -1) for number in incident], dtype=np.int64)
    return Grouped(_table([rows[index] for index in order]), incident, target)


def targets(events: pd.DataFrame, settings: LabelSettings) -> NDArray[np.bool_]:
    """Which events are of a failure by the preset and the user's overrides."""
    columns = (events[name] for name in ("xid", "kind", "detail"))
    found = [
        catalogue.is_target(None if pd.isna(code) else int(code), kind, settings, detail)
        for code, kind, detail in zip(*columns, strict=True)
    ]
    return np.array(found, dtype=bool)


def with_user_kinds(events: pd.DataFrame, settings: LabelSettings) -> pd.DataFrame:
    """The events with the classes of the user's own catalogue."""
    if not settings.codes or not len(events):
        return events
    kinds = [
        catalogue.kind_for(None if pd.isna(code) else int(code), kind, settings)
        for code, kind in zip(events["xid"], events["kind"], strict=True)
    ]
    return events.assign(kind=pd.Series(kinds, index=events.index, dtype="str"))


def explain(events: pd.DataFrame, settings: LabelSettings, given: pd.DataFrame | None = None) -> list[str]:
    """One sentence for each event: why it is, or isn't, a failure."""
    grouped = assign(events, settings, given)
    events = with_user_kinds(events, settings)
    names, began = list(grouped.failures["failure"]), list(grouped.failures["time"])
    seen: set[int] = set()
    out = []
    columns = (events[name] for name in ("time", "xid", "kind", "severity"))
    for (time, number, kind, severity), incident, target in zip(
        zip(*columns, strict=True), grouped.incident.tolist(), grouped.target.tolist(), strict=True
    ):
        code = None if pd.isna(number) else int(number)
        subject, why = _subject(code, settings), _why(code, kind, settings, is_it=target, said=severity)
        if target:
            begins = incident not in seen and time >= began[incident]
            if begins:
                seen.add(incident)
            verb = "is the first line of" if begins else "belongs to"
            out.append(f"{subject} {verb} failure {names[incident]}: {why}")
        else:
            verb = "is no failure" if incident < 0 else f"belongs to failure {names[incident]}; by itself it is none"
            out.append(f"{subject} {verb}: {why}")
    return out


def _components(targets: pd.DataFrame, settings: LabelSettings) -> NDArray[np.int64]:
    """Number of the incident of each failing event, by linking those that belong together."""
    first, last = nanoseconds(targets["time"]), nanoseconds(targets["last"])
    gap, cascade = to_nanoseconds(settings.incident_gap), to_nanoseconds(settings.cascade_gap)
    recovery = to_nanoseconds(settings.recovery)
    nodes = targets["node"].to_numpy()
    codes = targets["xid"].fillna(-1).astype("int64").to_numpy()
    origins = targets["origin"].to_numpy()
    absent = origins == "absence"
    parent = list(range(len(targets)))
    _chain(parent, nodes, first, last, gap - 1, ~absent)
    begins = _spread(parent, codes, first, cascade, gap, ~absent)
    programs = begins & (targets["kind"] == "application").to_numpy()
    for index in np.flatnonzero(begins).tolist():
        abort = programs & (np.abs(first - first[index]) <= cascade)
        if len(set(nodes[abort])) >= ABORT_NODES:  # one job's death, and what made it die
            _link(parent, index, np.flatnonzero(abort)[:1])
    for index in np.flatnonzero(origins == "gauge").tolist():
        echo = (nodes == nodes[index]) & (codes == codes[index]) & (origins == "log")
        echo &= (first - ECHO_NS <= first[index]) & (first[index] <= last + ECHO_NS)
        _link(parent, index, np.flatnonzero(echo)[:1])
    gpus = targets["gpu"].to_numpy()
    for index in np.flatnonzero(absent).tolist():
        own = ~absent & (nodes == nodes[index]) & ((gpus == gpus[index]) | (gpus == ""))
        own &= (first - ECHO_NS <= first[index]) & (first[index] <= last + recovery)
        _link(parent, index, np.flatnonzero(own)[:1])
    _chain(parent, nodes, first, last, gap - 1, absent)
    roots = [_root(parent, index) for index in range(len(parent))]
    return np.unique(roots, return_inverse=True)[1].astype(np.int64)


def _chain(
    parent: list[int],
    keys: NDArray[Any],
    first: NDArray[np.int64],
    last: NDArray[np.int64],
    gap: int,
    among: NDArray[np.bool_],
) -> None:
    """Link events of equal key that begin at most `gap` after the latest end before them."""
    reach: dict[Any, tuple[int, int]] = {}
    for index in sorted(np.flatnonzero(among).tolist(), key=lambda place: int(first[place])):
        key = keys[index]
        if key in reach and first[index] - reach[key][0] <= gap:
            _link(parent, index, [reach[key][1]])
        end = int(last[index])
        reach[key] = (max(end, reach[key][0]) if key in reach else end, index)


def _spread(
    parent: list[int],
    codes: NDArray[Any],
    first: NDArray[np.int64],
    step: int,
    most: int,
    among: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Link incidents of nodes in which one code begins at most `step` after it came in one before; where codes begin.

    Of a cascade the beginnings count: two floods that overlap for hours need not be one. And it ends: what begins
    `most` after its first line is another, or errors that have nothing in common would go on as one for days.
    """
    begins = np.zeros(len(parent), dtype=np.bool_)
    alone = [_root(parent, index) for index in range(len(parent))]
    of: dict[tuple[int, int], int] = {}  # an incident's code: the event with which its cascade began
    latest: dict[int, tuple[int, int]] = {}  # a code's latest cascade: its first event, its last event's beginning
    for index in sorted(np.flatnonzero(among).tolist(), key=lambda place: int(first[place])):
        code, begin = int(codes[index]), int(first[index])
        head, before = latest.get(code, (index, begin))
        goes_on = begin - before <= step and begin - int(first[head]) < most
        if (alone[index], code) not in of:
            begins[index] = True
            of[alone[index], code] = head = head if goes_on else index
            _link(parent, index, [head])
        elif not goes_on or of[alone[index], code] != head:
            continue  # a line more of an incident that is known
        latest[code] = head, begin
    return begins


def _root(parent: list[int], index: int) -> int:
    while parent[index] != index:
        parent[index] = parent[parent[index]]
        index = parent[index]
    return index


def _link(parent: list[int], index: int, others: Iterable[int]) -> None:
    for other in others:
        low, high = sorted((_root(parent, index), _root(parent, int(other))))
        parent[high] = low


def _attach(events: pd.DataFrame, incident: NDArray[np.int64], gap: int) -> NDArray[np.int64]:
    """Other events of the nodes touched, less than the gap away from an incident, are part of the nearest."""
    first, last = nanoseconds(events["time"]), nanoseconds(events["last"])
    nodes = events["node"].to_numpy()
    spans: dict[str, list[tuple[int, int, int]]] = {}
    frame = pd.DataFrame({"node": nodes, "incident": incident, "first": first, "last": last})
    ends = frame[incident >= 0].groupby(["node", "incident"]).agg({"first": "min", "last": "max"}).reset_index()
    for node, number, start, end in ends.itertuples(index=False):
        spans.setdefault(node, []).append((start, end, number))
    out = incident.copy()
    for index in np.flatnonzero(incident < 0):
        near = [
            (max(start - int(last[index]), int(first[index]) - end, 0), number)
            for start, end, number in spans.get(nodes[index], ())
        ]
        if near and min(near)[0] < gap:
            out[index] = min(near)[1]
    return out


def _failure(events: pd.DataFrame, targets: pd.DataFrame, settings: LabelSettings) -> dict[str, Any]:
    """One row of `FAILURES`, without its name."""
    events, targets = _dated(events, events), _dated(targets, events)
    core = targets.sort_values(["time", "node"], kind="stable")
    # The kernel's line says when; the gauge only between which scrapes
    exact, around = (part[part["origin"] != "gauge"] for part in (core, events))
    start = (exact if exact["origin"].ne("absence").any() else core)["time"].iloc[0]
    # A line of the incident that came just before counts as its first; a flood that began long ago does not
    early = around["time"][around["time"] > start - settings.incident_gap]
    time = min(start, early.min()) if len(early) else start
    coded = core[core["xid"].notna()]
    main = coded.iloc[0] if len(coded) else core.iloc[0]
    nodes = list(dict.fromkeys(core["node"]))
    asked = [
        action
        for code, detail in zip(events["xid"], events["detail"], strict=True)
        if code is not pd.NA and code == 154 and (action := recovery_action(detail))
    ]
    code = None if pd.isna(main["xid"]) else int(main["xid"])
    return {
        "time": time,
        "end": max(events["last"].max(), core["last"].max()),
        "node": nodes[0],
        "nodes": nodes,
        "gpu": next((gpu for gpu in [main["gpu"], *core["gpu"]] if gpu), ""),
        "pci": next((address for address in [main["pci"], *core["pci"]] if address), ""),
        "xid": pd.NA if code is None else code,
        "xids": sorted({int(number) for number in events["xid"].dropna()}),
        "kind": main["kind"],
        "severity": "Fatal" if (core["severity"] == "Fatal").any() else main["severity"],
        "count": int((around if len(around) else events)["count"].sum()),
        "origin": "+".join(origin for origin in _ORIGINS if (core["origin"] == origin).any()),
        "recovery_action": asked[-1] if asked else catalogue.action(code, settings),
        "evidence": f"{_subject(code, settings)}: {main['detail']}".removesuffix(": "),
    }


def _dated(events: pd.DataFrame, incident: pd.DataFrame) -> pd.DataFrame:
    """Events with each loss at the first line or code of the incident in the cells in which the GPU went.

    Samples tell of a loss only between which two of them it was.
    """
    absent = (events["origin"] == "absence").to_numpy()
    if not absent.any():
        return events
    said = incident["time"][incident["origin"] != "absence"]
    times = [
        min(said[(said >= time) & (said < last)], default=time) if lost else time
        for time, last, lost in zip(events["time"], events["last"], absent, strict=True)
    ]
    return events.assign(time=pd.Series(times, index=events.index, dtype=events["time"].dtype))


def _with_given(rows: list[dict[str, Any]], given: pd.DataFrame, settings: LabelSettings) -> list[dict[str, Any]]:
    """The failures with the given ones; one that `_meant` a failure is that failure, told twice."""
    rows = [dict(row) for row in rows]
    found = dict(enumerate(rows))
    columns = (given[name] for name in ("node", "start", "end", "kind"))
    for node, start, end, kind in sorted(zip(*columns, strict=True), key=lambda row: (row[1], row[0])):
        place = _meant(found, node, start, end, settings)
        if place is not None:
            row = found.pop(place)
            row["end"] = max(row["end"], end)
            row["origin"] += "" if "given" in row["origin"] else "+given"
            row["evidence"] += f"; given as {kind or 'an incident'}"
            continue
        rows.append(
            {
                "time": start, "end": end, "node": node, "nodes": [node], "gpu": "", "pci": "", "xid": pd.NA,
                "xids": [], "kind": kind or "given", "severity": "", "count": 1, "origin": "given",
                "recovery_action": "", "evidence": f"given as {kind or 'an incident'}",
            }
        )  # fmt: skip
    return rows


def _meant(
    found: dict[int, dict[str, Any]], node: str, start: pd.Timestamp, end: pd.Timestamp, settings: LabelSettings
) -> int | None:
    """Place of the failure that a given incident is of: the latest one begun by its start, else the first within it.

    People open tickets late: until the node has recovered, one is of the failure before it.
    """
    gap, late = settings.incident_gap, max(settings.incident_gap, settings.recovery)
    meets = [
        (row["time"], place)
        for place, row in found.items()
        if node in row["nodes"] and start < row["end"] + late and row["time"] < end + gap
    ]
    begun = [met for met in meets if met[0] < start + gap]
    return max(begun)[1] if begun else min(meets)[1] if meets else None


def _table(rows: list[dict[str, Any]]) -> pd.DataFrame:
    """Named failures; the name is the time and the node, so it stays from one ingest to the next."""
    if not rows:
        return FAILURES.empty()
    used: dict[str, int] = {}
    for row in rows:
        name = f"{row['time']:%Y%m%dT%H%M%SZ}-{row['node']}"
        used[name] = used.get(name, 0) + 1
        row["failure"] = name if used[name] == 1 else f"{name}-{used[name]}"
    return conform(pd.DataFrame(rows), FAILURES)


def _subject(code: int | None, settings: LabelSettings) -> str:
    if code is None:
        return "lost GPU or switch error"
    row = catalogue.lookup(code, settings)
    return f"XID {code} ({row.meaning})" if row and row.meaning else f"XID {code}"


def _why(code: int | None, kind: str, settings: LabelSettings, *, is_it: bool, said: str = "") -> str:
    """The reason in words."""
    preset = f"preset {settings.preset}"
    if settings.given == "instead":
        return "it was given" if is_it else "labels.given = 'instead' counts only incidents that were given"
    if code is not None and code in settings.not_hardware:
        return "labels.not_hardware excludes it"
    if code is not None and code in settings.hardware:
        return "labels.hardware names it"
    if is_it:
        gone = code in catalogue.NVLINK and not said and kind == "hardware"
        counts = f"{preset} counts {kind} errors" if settings.preset != "paper" else f"{preset} names it"
        return f"{preset} counts it when Fatal, and after it GPUs of the node went away" if gone else counts
    reasons = {
        "application": "it comes from a program or follows another error",
        "degradation": "it only degrades, and is a sign that features may use",
        "metadata": "it tells the recovery that another XID needs",
        "switch": "it is an error of a switch, not of a GPU",
    }
    if code in catalogue.NVLINK and not said and kind == "unknown":
        return f"an NVLink error counts when Fatal, and nothing here says so; labels.hardware = [{code}] counts it"
    return f"{reasons.get(kind, 'the catalogue has no class for it')} ({preset})"
