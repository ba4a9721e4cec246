"""How saves and loads change: with the number of nodes, over the weeks, and before failures.

A node's throughput falls as more nodes share the storage: 1/throughput is a line in the number of nodes when each
further node takes its share of one server (Gunther's law without its second term), and that line's slope over its level
tells at how many nodes half is left. Trends are taken on throughput held against that line, so that a week of large
jobs is no slow week.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from features.settings import CheckpointSettings
from features.tables import to_ns

Rows = Sequence[Mapping[str, Any]]
_EDGES = (1, 2, 3, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049, 4097)  # a bin of the scaling table begins at each
_SIGNIFICANT = 0.05
_LEAST = 5  # events of a size that others are held against
_WEEK_NS = 7 * 86_400_000_000_000
_MONDAY_NS = 4 * 86_400_000_000_000  # 1970-01-05, the first Monday
_WEEKLY = (
    "duration_seconds",
    "bytes_per_second",
    "node_bytes_per_second",
    "queue_share",
    "response_milliseconds",
    "slots_in_use",
)


def _column(events: Rows, name: str) -> NDArray[np.float64]:
    return np.array([event[name] for event in events], dtype=float)


def _median(values: NDArray[np.float64]) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else math.nan


def scaling(events: Rows, settings: CheckpointSettings) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Throughput against the number of nodes, of events of one kind: the table, and what it says of a knee.

    The knee is the first size at which a node has less than ``knee_ratio`` of what it has in the smallest events, by
    more than chance (Mann-Whitney, Holm's correction for the number of sizes). The smallest size is the first with
    five events: a single small one may be the remainder of a save that broke off.
    """
    nodes = _column(events, "nodes")
    sizes = np.digitize(nodes, _EDGES)
    groups = [[event for event, at in zip(events, sizes, strict=True) if at == size] for size in sorted(set(sizes))]
    first = next((at for at, group in enumerate(groups) if len(group) >= _LEAST), 0)
    table = []
    for group in groups:
        rate = _column(group, "node_bytes_per_second")
        table.append(
            {
                "nodes_least": int(_column(group, "nodes").min()),
                "nodes_most": int(_column(group, "nodes").max()),
                "events": len(group),
                "node_bytes_per_second": _median(rate),
                "node_bytes_per_second_quartiles": [float(q) for q in np.quantile(rate, [0.25, 0.75])],
                "bytes_per_second": _median(_column(group, "bytes_per_second")),
                "queue_share": _median(_column(group, "queue_share")),
                "slots_in_use": _median(_column(group, "slots_in_use")),
                "response_milliseconds": _median(_column(group, "response_milliseconds")),
                "duration_seconds": _median(_column(group, "duration_seconds")),
                "of_smallest": _median(rate) / _median(_column(groups[first], "node_bytes_per_second")),
                "p": None,
            }
        )
    for row, p in zip(table[first + 1 :], _holm(groups[first:]), strict=True):
        row["p"] = p
    return table, _knee(table[first:], events, settings)


def _holm(groups: Sequence[Rows]) -> list[float]:
    """P values of each later group's node throughput against the first's, corrected."""
    rates = [_column(group, "node_bytes_per_second") for group in groups]
    raw = [float(stats.mannwhitneyu(rates[0], rate, alternative="two-sided").pvalue) for rate in rates[1:]]
    out = [1.0] * len(raw)
    highest = 0.0
    for rank, index in enumerate(np.argsort(raw)):
        highest = max(highest, min(1.0, raw[index] * (len(raw) - rank)))
        out[index] = highest
    return out


def _knee(table: Rows, events: Rows, settings: CheckpointSettings) -> dict[str, Any]:
    """Where throughput stops to grow with the nodes, and a sentence that says it."""
    out: dict[str, Any] = {"nodes": None, "half_at_nodes": None, "half_at_interval": None, "sentence": ""}
    if len(table) < 2:
        one = table and table[0]["nodes_most"] == 1
        size = f"All events have about one size ({_sizes(table[0])} node{'' if one else 's'})" if table else "No events"
        out["sentence"] = f"{size}: nothing can be said about scaling."
        return out
    line = _line(events)
    if line is not None and line[1][1] > 0:
        level, (slope, low, high) = line
        out["half_at_nodes"] = level / slope
        out["half_at_interval"] = [level / high, level / low if low > 0 else math.inf]
    most = table[-1]["nodes_most"]
    first = next(
        (r for r in table[1:] if r["of_smallest"] < settings.knee_ratio and r["p"] < _SIGNIFICANT),
        None,
    )
    small = _sizes(table[0])
    if first is None:
        out["sentence"] = (
            f"No knee is shown up to {most} nodes: a node's throughput stays above {settings.knee_ratio:.0%} of that "
            f"with {small} nodes, or differs by no more than chance."
        )
    else:
        out["nodes"] = first["nodes_least"]
        out["sentence"] = (
            f"The knee is at {_sizes(first)} nodes: there a node has "
            f"{first['of_smallest']:.0%} of the throughput it has with {small} (p = {first['p']:.2g})."
        )
    if out["half_at_nodes"] is not None:
        reach = "" if out["half_at_nodes"] <= most else f", beyond the {most} nodes seen"
        low, high = out["half_at_interval"]
        out["sentence"] += f" Half would be left at {out['half_at_nodes']:.0f} nodes ({low:.0f} to {high:.0f}{reach})."
    return out


def _sizes(row: Mapping[str, Any]) -> str:
    low, high = row["nodes_least"], row["nodes_most"]
    return str(low) if low == high else f"{low}-{high}"


def _line(events: Rows) -> tuple[float, tuple[float, float, float]] | None:
    """1/throughput = level + slope x nodes, by medians of pairs: the level, and the slope with its 95 % interval."""
    nodes, rate = _column(events, "nodes"), _column(events, "node_bytes_per_second")
    good = rate > 0
    if len(set(nodes[good])) < 3:
        return None
    # Theil and Sen's estimate looks at all pairs; 600 events make 180,000
    pick = np.random.default_rng(0).permutation(np.flatnonzero(good))[:600]
    found = stats.theilslopes(1 / rate[pick], nodes[pick])
    if found.intercept <= 0:
        return None
    return float(found.intercept), (float(found.slope), float(found.low_slope), float(found.high_slope))


def expected(events: Rows) -> NDArray[np.float64]:
    """A node's throughput that an event's size lets expect, [events]."""
    nodes, line = _column(events, "nodes"), _line(events)
    if line is None or line[1][0] <= 0:
        return np.full(len(nodes), _median(_column(events, "node_bytes_per_second")))
    return np.asarray(1 / (line[0] + line[1][0] * nodes))


def weeks(events: Rows) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Medians by week (from Monday, UTC), and the trend of a node's throughput, of events of one kind."""
    by_week: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for event in events:
        by_week[(to_ns(event["start"]) - _MONDAY_NS) // _WEEK_NS].append(event)
    table = [
        {
            "week": pd.Timestamp(_MONDAY_NS + week * _WEEK_NS, unit="ns", tz="UTC"),
            "events": len(group),
            **{name: _median(_column(group, name)) for name in _WEEKLY},
            "stragglers": sum(len(event["stragglers"]) for event in group),
        }
        for week, group in sorted(by_week.items())
    ]
    return table, _trend(events)


def _trend(events: Rows) -> dict[str, Any]:
    out: dict[str, Any] = {"percent_a_week": None, "interval": None, "p": None, "sentence": ""}
    times = np.array([to_ns(event["start"]) for event in events]) / _WEEK_NS
    span = float(np.ptp(times)) if len(times) else 0.0
    if len(events) < 8 or span < 1:
        out["sentence"] = (
            f"{len(events)} event{'' if len(events) == 1 else 's'} over {span * 7:.1f} days tell no trend; eight "
            "over a week are the least."
        )
        return out
    held = _column(events, "node_bytes_per_second") / expected(events)
    pick = np.random.default_rng(0).permutation(len(held))[:600]
    slope = stats.theilslopes(held[pick], times[pick])
    p = float(np.nan_to_num(stats.kendalltau(times, held).pvalue, nan=1.0))  # nan: all are alike
    out["percent_a_week"] = 100 * float(slope.slope)
    out["interval"] = [100 * float(slope.low_slope), 100 * float(slope.high_slope)]
    out["p"] = p
    low, high = out["interval"]
    said = f"{out['percent_a_week']:+.2f} % a week ({low:+.2f} to {high:+.2f}, p = {p:.2g})"
    out["sentence"] = (
        f"A node's throughput changes by {said}, sizes allowed for."
        if p < _SIGNIFICANT
        else f"A node's throughput shows no trend: {said}, sizes allowed for."
    )
    return out


def before_failures(events: Rows, failures: pd.DataFrame, settings: CheckpointSettings) -> dict[str, Any]:
    """Whether the nodes that fail save slower, beside their peers in the same event, in the time before.

    One failure is one observation: the mean of its node's throughput over its peers' median in that time, less the
    same node's at all other times (Wilcoxon's signed-rank test, exact for few).

    Parameters
    ----------
    failures
        Frame of `features.tables.FAILURES`.
    """
    hours = settings.before_failure.total_seconds() / 3600
    span = int(settings.before_failure.total_seconds()) * 1_000_000_000
    beside = _beside_peers(events)
    changes = []
    for row in failures.to_dict("records"):
        moment = to_ns(row["time"])
        own = beside.get(row["node"], [])
        near = [value for when, value in own if moment - span <= when < moment]
        rest = [value for when, value in own if not moment - span <= when < moment]
        if near and rest:
            changes.append(float(np.mean(near) - np.mean(rest)))
    out: dict[str, Any] = {"failures": len(changes), "hours": hours, "median_change": None, "p": None, "sentence": ""}
    if len(changes) < 6:  # with five pairs no result can be more than chance: 2/2^5 = 0.06
        out["sentence"] = (
            f"{len(changes)} failures have saves of their node within {hours:g} h before and at other times; "
            "six are the least that could show a change."
        )
        return out
    p = float(stats.wilcoxon(changes).pvalue) if any(changes) else 1.0
    out["median_change"], out["p"] = float(np.median(changes)), p
    verb = "differs" if p < _SIGNIFICANT else "does not differ by more than chance"
    out["sentence"] = (
        f"Within {hours:g} h before its failure a node's throughput beside its peers {verb}: median change "
        f"{100 * out['median_change']:+.1f} points over {len(changes)} failures (p = {p:.2g})."
    )
    return out


def _beside_peers(events: Rows) -> dict[str, list[tuple[int, float]]]:
    """By node, the beginning of each of its saves and its throughput over its peers' median in it."""
    out: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for event in events:
        middle = event["node_bytes_per_second"]
        if event["nodes"] < 4 or not middle > 0:
            continue
        for part in event["by_node"]:
            if math.isfinite(part["bytes_per_second"]):
                out[part["node"]].append((to_ns(part["start"]), part["bytes_per_second"] / middle))
    return out
