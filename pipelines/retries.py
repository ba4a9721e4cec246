"""``foreshock retries``: what happens after a failure, what it costs, and what leaving nodes out would have saved."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from features import chains
from features.settings import RetrySettings
from features.tables import InputError, to_time
from models import policies, recovery
from models.intervals import poisson_rate
from pipelines import activity, failures, retries_words
from pipelines.config import Config
from pipelines.store import Store

_DAY_NS = 86_400 * 1_000_000_000
_MINUTE_NS, _HOUR_NS = 60_000_000_000, 3_600_000_000_000
_ENDED_BY = (-5, 30)  # minutes around a failure within which the end of a try on its node is its doing


@dataclass(frozen=True)
class _Found:
    """What the store says, read once."""

    source: str  # given | derived | none
    sessions: pd.DataFrame
    tried: pd.DataFrame  # rows of `chains.attempts`
    preset: str
    failures: pd.DataFrame  # by the preset
    any_xid: pd.DataFrame  # by the preset "all"
    gpus: pd.DataFrame
    nodes: frozenset[str]
    start_ns: int
    end_ns: int
    on_record: tuple[int, int]  # what the sessions cover


def retries(store: Store, config: Config, preset: str | None = None) -> dict[str, Any]:
    """Everything the store can say of retries and recovery, and what it can't.

    Returns
    -------
    dict
        source, start, end, days, nodes, sessions, chains, attempts, intervals, recovery, lost, troubles (by source:
        concentration, recurrence, survival, policies), sentences, cannot_say.

    Raises
    ------
    InputError
        The store holds neither sessions nor failures nor GPU activity.
    """
    cannot: list[str] = []
    doubts: Counter[str] = Counter()
    found = _read(store, config, preset, doubts, cannot)
    size = _size(found, config.retries, cannot)
    result: dict[str, Any] = {
        "source": found.source,
        "start": to_time(found.start_ns),
        "end": to_time(found.end_ns),
        "days": (found.end_ns - found.start_ns) / _DAY_NS,
        "nodes": size,
        "preset": found.preset,
        **_told_of_tries(found, config),
    }
    result["lost"] = _lost(found, config.retries, cannot)
    result["troubles"] = _troubles(found, config, size, cannot)
    cannot += retries_words.doubts(doubts, len(found.tried))
    cannot += retries_words.unfamiliar(chains.unfamiliar(found.sessions["outcome"]))
    cannot += _clock_doubts(found)
    result["cannot_say"] = cannot
    result["sentences"] = retries_words.sentences(result)
    return result


def _read(store: Store, config: Config, preset: str | None, doubts: Counter[str], cannot: list[str]) -> _Found:
    """The tables, the nodes they name and the span they cover."""
    events = failures.events(store, config)
    by_preset = failures.grouped(events, store, config, preset)
    any_xid = failures.grouped(events, store, config, "all")
    sessions, source = store.sessions(), "given"
    if not len(sessions):
        sessions = activity.sessions(store, config, any_xid)
        source = "derived" if len(sessions) else "none"
        cannot.append(retries_words.DERIVED if len(sessions) else retries_words.NO_SESSIONS)
    on_record = [_ns(sessions[name].dropna()) for name in ("started", "ended")]
    known = np.concatenate(
        [*on_record, *(_ns(table[name]) for table in (any_xid, by_preset) for name in ("time", "end"))]
    )
    spans = [(int(known.min()), int(known.max()))] if len(known) else []
    if store.nodes():
        spans.append(store.span())
    if not spans:
        raise InputError(f"{store.path} holds nothing to tell retries from; ingest --sessions, --metrics or --logs")
    named = {
        node
        for table, name in ((sessions, "nodes"), (any_xid, "nodes"), (by_preset, "nodes"))
        for row in table[name]
        for node in chains.listed(row)
    }
    left_out = {node for row in sessions["excluded"] for node in chains.listed(row)}
    tried = chains.attempts(sessions, config.retries, doubts)
    if source == "derived":
        tried = tried.assign(automatic="")  # GPUs work only after a loading of unknown length
    return _Found(
        source=source,
        sessions=sessions,
        tried=tried,
        preset=preset or config.labels.preset,
        failures=by_preset,
        any_xid=any_xid,
        gpus=store.gpus(),
        nodes=frozenset(named | left_out | set(store.nodes())),
        start_ns=min(low for low, _ in spans),
        end_ns=max(high for _, high in spans),
        on_record=(int(min(on_record[0], default=0)), int(max(np.concatenate(on_record), default=0))),
    )


def _size(found: _Found, settings: RetrySettings, cannot: list[str]) -> int:
    """How many nodes the cluster has."""
    if settings.nodes:
        return max(settings.nodes, len(found.nodes))
    if found.source == "none" and not len(found.gpus):
        cannot.append(retries_words.UNKNOWN_SIZE.format(nodes=len(found.nodes)))
    return len(found.nodes)


def _told_of_tries(found: _Found, config: Config) -> dict[str, Any]:
    """Sessions, chains, tries, intervals and times to recovery."""
    tried, level = found.tried, config.evaluation.confidence
    minutes = tried["gap_seconds"] / 60
    back = chains.recoveries(tried, config.retries)
    return {
        "sessions": {
            "sessions": len(tried),
            "jobs": int(tried["job"].nunique()),
            "outcomes": {str(kind): int(count) for kind, count in tried["kind"].value_counts().items()},
        },
        "chains": _of_chains(found, level),
        "attempts": _of_attempts(found, level),
        "intervals": {
            "unit": "minutes",
            "all": recovery.spread(minutes, level),
            "automatic": recovery.spread(minutes[tried["automatic"] == "yes"], level),
            "manual": recovery.spread(minutes[tried["automatic"] == "no"], level),
        },
        "recovery": {
            "unit": "minutes",
            "recovered": recovery.share(int(back["recovered"].sum()), len(back), level),
            **recovery.spread(back["seconds"][back["recovered"]] / 60, level),
        },
    }


def _of_chains(found: _Found, level: float) -> dict[str, Any]:
    """How many there are, and which share of them succeeded, automatic against manual."""
    listed = chains.chains(found.tried)
    known = _judged(listed, found)
    modes = {mode: _succeeded(known[known["mode"] == mode], level) for mode in ("automatic", "manual")}
    return {
        "chains": len(listed),
        "attempts": int(listed["attempts"].sum()),
        "attempts_of_a_chain": recovery.spread(listed["attempts"], level),
        "succeeded": _succeeded(known, level),
        "undecided": int((~listed["kind"].isin([chains.SUCCESS, chains.FAILURE])).sum()),
        **modes,
        "comparison": recovery.compare(
            modes["automatic"], modes["manual"], ("automatic chains", "chains by hand"), "succeed"
        ),
        "list": listed.drop(columns="chain").to_dict("records"),
    }


def _of_attempts(found: _Found, level: float) -> dict[str, Any]:
    """Which share of tries succeeded: by place in their chain, automatic against manual, first against again."""
    ended = _judged(found.tried, found)
    ended = ended[ended["kind"].isin([chains.SUCCESS, chains.FAILURE])]
    first, again = ended[ended["place"] == 1], ended[ended["place"] > 1]
    told = {
        name: _succeeded(rows, level)
        for name, rows in (
            ("first", first),
            ("automatic", again[again["automatic"] == "yes"]),
            ("manual", again[again["automatic"] == "no"]),
        )
    }
    return {
        "by_place": _by_place(ended, level),
        **told,
        "comparison": recovery.compare(
            told["automatic"], told["manual"], ("automatic retries", "retries by hand"), "succeed"
        ),
        "first_or_again": recovery.compare(
            told["first"], _succeeded(again, level), ("first tries", "retries"), "succeed"
        ),
    }


def _judged(rows: pd.DataFrame, found: _Found) -> pd.DataFrame:
    """The rows whose success can be told; none from activity, where failures alone are seen."""
    return rows.iloc[:0] if found.source == "derived" else rows


def _succeeded(rows: pd.DataFrame, level: float) -> dict[str, Any]:
    """The share of rows that succeeded among those that succeeded or failed."""
    good, bad = int((rows["kind"] == chains.SUCCESS).sum()), int((rows["kind"] == chains.FAILURE).sum())
    return recovery.share(good, good + bad, level)


def _by_place(ended: pd.DataFrame, level: float, most: int = 10) -> list[dict[str, Any]]:
    """Success of the first, second ... try; the last row holds all later ones."""
    places = ended["place"].clip(upper=most)
    return [
        {"place": int(place), "or_later": bool(place == most), **_succeeded(rows, level)}
        for place, rows in ended.groupby(places)
    ]


def _lost(found: _Found, settings: RetrySettings, cannot: list[str]) -> dict[str, Any]:
    """Hours that nodes and GPUs spent on waiting and on tries that came to nothing."""
    hours = chains.lost_hours(found.tried, settings)
    counts = found.gpus.groupby("node").size() if len(found.gpus) else pd.Series(dtype=int)
    each = settings.gpus_per_node or (int(counts.max()) if len(counts) else 0)
    if len(found.tried) and not any(len(names) for names in found.tried["nodes"]):
        cannot.append(retries_words.NO_NODES)
        return {"node_hours": None, "gpu_hours": None, "gpus_per_node": each or None}
    if len(found.tried) and not np.isfinite(found.tried[["hours", "gap_seconds"]].to_numpy(dtype=float)).any():
        cannot.append(retries_words.NO_HOURS)
        return {"node_hours": None, "gpu_hours": None, "gpus_per_node": each or None}
    if len(found.tried) and not each:
        cannot.append(retries_words.NO_GPUS)
    return {
        "node_hours": hours,
        "gpu_hours": {what: value * each for what, value in hours.items()} if each else None,
        "gpus_per_node": each or None,
    }


def _troubles(found: _Found, config: Config, size: int, cannot: list[str]) -> dict[str, Any]:
    """Node by node: exclusions from jobs, failures by the preset, and incidents of any XID."""
    out = {}
    if not _spares(config.retries, size):
        cannot.append(retries_words.NO_SPARE.format(nodes=size))
    left_out = chains.exclusions(found.sessions)
    if not len(left_out) and found.source == "given":
        left_out = chains.dropped(found.tried)
        if len(left_out):
            cannot.append(retries_words.DROPPED)
    if len(left_out):
        rows = left_out.assign(back=chains.returns(found.sessions, left_out))
        out["exclusions"] = _of_nodes(rows, found, config, size, found.on_record)
    elif found.source != "none":
        cannot.append(retries_words.NO_EXCLUSIONS)
    for name, table in (("failures", found.failures), ("any_xid", found.any_xid)):
        narrow, wide = _narrow(table, config.retries.widest)
        if len(narrow):
            back = narrow["end"] + config.labels.recovery
            out[name] = {
                **_of_nodes(narrow.assign(back=back), found, config, size, (found.start_ns, found.end_ns)),
                "wide_incidents": wide,
            }
        elif wide:
            cannot.append(retries_words.ALL_WIDE.format(name=name.replace("_", " "), wide=wide))
    if "failures" not in out:
        cannot.append(retries_words.NO_FAILURES.format(preset=found.preset))
    return out


def _narrow(table: pd.DataFrame, widest: int) -> tuple[pd.DataFrame, int]:
    """One row a node and incident that touched few nodes, and how many incidents touched more."""
    few = table["nodes"].map(len) <= widest if len(table) else np.zeros(0, dtype=bool)
    rows = [
        {"node": str(node), "time": time, "end": end}
        for nodes, time, end in zip(*(table.loc[few, name] for name in ("nodes", "time", "end")), strict=True)
        for node in chains.listed(nodes)
    ]
    frame = pd.DataFrame(rows, columns=["node", "time", "end"]).sort_values("time", ignore_index=True)
    return frame, int((~few).sum())


def _of_nodes(rows: pd.DataFrame, found: _Found, config: Config, size: int, span: tuple[int, int]) -> dict[str, Any]:
    """Concentration, recurrence, survival after the return to work, and policies, of rows node, time, back.

    ``span`` is when such a trouble would have been told.
    """
    level, draws = config.evaluation.confidence, config.evaluation.permutations
    counts = {str(node): int(count) for node, count in rows["node"].value_counts().items()}
    again, first = _waits(rows, *span)
    record = policies.Record(
        days=(_ns(rows["time"]) - span[0]) / _DAY_NS,
        nodes=pd.factorize(rows["node"])[0].astype(np.int64),
        cost=_cost(rows, found.tried, config.retries),
        size=size,
        length=(span[1] - span[0]) / _DAY_NS,
    )
    settings = config.retries
    fresh = first + [(record.length, False)] * (size - len(counts))
    return {
        "concentration": recovery.concentration(counts, size, draws=draws, confidence=level),
        "recurrence": recovery.share(sum(count > 1 for count in counts.values()), len(counts), level),
        "survival": recovery.survival(*_columns(again), confidence=level),
        "rates": {"unit": "per 100 node-days", "first": _rate(fresh, level), "again": _rate(again, level)},
        "first_or_again_p": recovery.sooner(_columns(fresh), _columns(again)),
        "policies": policies.table(
            record, settings.exclude_after, _spares(settings, size), settings.exclude_for.total_seconds() / 86_400,
            draws=draws, confidence=level,
        ),
    }  # fmt: skip


def _spares(settings: RetrySettings, size: int) -> tuple[int, ...]:
    """The pools of spare nodes that a cluster of this size could have."""
    return tuple(spare for spare in settings.spare_nodes if spare < size)


def _waits(rows: pd.DataFrame, start: int, end: int) -> tuple[list[tuple[float, bool]], list[tuple[float, bool]]]:
    """Days from each return to the next trouble, and from the record's start to the first; with whether it came."""
    again, first = [], []
    for _, part in rows.groupby("node"):
        times, backs = _ns(part["time"]).tolist(), _ns(part["back"]).tolist()
        first.append(((times[0] - start) / _DAY_NS, True))
        for back, until in zip(backs, [*times[1:], None], strict=True):
            if back == chains.NAT or back >= end or (until is not None and back >= until):
                continue  # not back at work before the next trouble, or at all
            stop = end if until is None else until
            again.append(((stop - back) / _DAY_NS, until is not None))
    return again, first


def _rate(waits: list[tuple[float, bool]], level: float) -> dict[str, Any]:
    """Troubles per 100 node-days waited for, with the exact interval; None where nothing was waited for."""
    count, hundreds = sum(seen for _, seen in waits), sum(days for days, _ in waits) / 100
    if hundreds <= 0:
        return {"count": count, "rate": None, "interval": None}
    return {"count": count, "rate": count / hundreds, "interval": list(poisson_rate(count, hundreds, level))}


def _columns(waits: list[tuple[float, bool]]) -> tuple[list[float], list[bool]]:
    return [days for days, _ in waits], [seen for _, seen in waits]


def _cost(rows: pd.DataFrame, tried: pd.DataFrame, settings: RetrySettings) -> np.ndarray[Any, Any]:
    """Node-hours that each trouble cost: those of the try on its node that ended with it; NaN where none did."""
    out = np.full(len(rows), np.nan)
    ended, costs = _ns(tried["ended"]), chains.costs(tried, settings)
    at: dict[str, list[int]] = {}
    for index, names in enumerate(tried["nodes"]):
        if ended[index] != chains.NAT:
            for node in names:
                at.setdefault(node, []).append(index)
    low, high = (minutes * _MINUTE_NS for minutes in _ENDED_BY)
    for row, (node, time) in enumerate(zip(rows["node"], _ns(rows["time"]).tolist(), strict=True)):
        near = [index for index in at.get(node, ()) if low <= ended[index] - time <= high]
        if near:
            out[row] = costs[min(near, key=lambda place: abs(int(ended[place]) - time))]
    return out


def _clock_doubts(found: _Found) -> list[str]:
    """Whether the scheduler's clock seems whole hours away from that of the failures."""
    ends = np.sort(_ns(found.sessions["ended"].dropna())) if len(found.sessions) else np.zeros(0, dtype=np.int64)
    times = _ns(found.failures["time"])
    if found.source != "given" or len(ends) < 3 or len(times) < 3:
        return []
    low, high = (minutes * _MINUTE_NS for minutes in _ENDED_BY)
    hits = {}
    for hours in range(-14, 15):
        moved = times + hours * _HOUR_NS
        inside = np.searchsorted(ends, moved + high, "right") - np.searchsorted(ends, moved + low, "left")
        hits[hours] = int((inside > 0).sum())
    best = max(hits, key=lambda hours: (hits[hours], -abs(hours)))
    if best and hits[best] >= 3 and hits[best] > 2 * hits[0]:
        return [retries_words.CLOCKS.format(hours=best, hits=hits[best], now=hits[0], of=len(times))]
    return []


def _ns(times: pd.Series[pd.Timestamp]) -> np.ndarray[Any, Any]:
    """int64 nanoseconds since 1970."""
    return np.asarray(times.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy(), dtype="datetime64[ns]").view(np.int64)
