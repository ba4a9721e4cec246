"""Rules for taking nodes out, replayed on the failures that were: what each would have avoided and cost.

A replay holds that a failure belongs to its node and would not have followed the work to another; where the load and
not the node was at fault, the figures are too good. Beside each stands what as many nodes taken out at random would
have avoided, which is what a rule has to beat.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.recovery import share


@dataclass(frozen=True)
class Record:
    """Failures of nodes, in time order.

    Attributes
    ----------
    days
        float64 [n], of each failure since the record's start, ascending.
    nodes
        int64 [n], whose it was, below ``size``.
    cost
        float64 [n], node-hours each one cost; NaN where it can't be told.
    size
        Nodes of the cluster.
    length
        Days of the record.
    """

    days: NDArray[np.float64]
    nodes: NDArray[np.int64]
    cost: NDArray[np.float64]
    size: int
    length: float


def replay(
    record: Record, after: int, spare: int, hold_days: float
) -> tuple[NDArray[np.bool_], list[tuple[int, float, float]], int]:
    """Which failures fall on a node that is out, when which node is out, and how often no spare was left.

    A node goes out at its ``after``-th failure within ``hold_days``, for ``hold_days``, when fewer than ``spare``
    nodes are out.
    """
    avoided = np.zeros(len(record.days), dtype=bool)
    until: dict[int, float] = {}
    seen: dict[int, list[float]] = {}
    out: list[tuple[int, float, float]] = []
    refused = 0
    for row, (day, node) in enumerate(zip(record.days.tolist(), record.nodes.tolist(), strict=True)):
        if until.get(node, -1.0) > day:
            avoided[row] = True
            continue
        recent = [time for time in seen.get(node, ()) if day - time <= hold_days]
        seen[node] = [*recent, day]
        if len(seen[node]) < after:
            continue
        if sum(end > day for end in until.values()) >= spare:
            refused += 1
            continue
        until[node] = day + hold_days
        seen[node] = []
        out.append((node, day, min(day + hold_days, record.length)))
    return avoided, out, refused


def judge(
    record: Record,
    after: int,
    spare: int,
    hold_days: float,
    *,
    draws: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """One rule's `replay` as figures.

    Returns
    -------
    dict
        exclude_after, spare_nodes, exclude_days, avoided (share with interval), avoided_by_chance (mean count of as
        many nodes drawn at random for the same times), p (of at least as many by chance), node_hours_saved (None where
        no failure has a cost), unpriced (avoided failures without one), node_hours_out, most_out, refused.
    """
    avoided, out, refused = replay(record, after, spare, hold_days)
    rng = np.random.default_rng(seed)
    chance = np.zeros(draws, dtype=np.int64)
    for _, start, end in out:
        inside = record.nodes[(record.days > start) & (record.days < end)]
        hits = np.bincount(inside, minlength=record.size)
        chance += hits[rng.integers(record.size, size=draws)] if record.size else 0
    count = int(avoided.sum())
    edges = sorted(
        [(start, 1) for _, start, _ in out] + [(end, -1) for _, _, end in out], key=lambda edge: (edge[0], edge[1])
    )
    return {
        "exclude_after": after,
        "spare_nodes": spare,
        "exclude_days": hold_days,
        "avoided": share(count, len(avoided), confidence),
        "avoided_by_chance": float(chance.mean()),
        "p": float(((chance >= count).sum() + 1) / (draws + 1)) if out else None,
        "node_hours_saved": None if np.isnan(record.cost).all() else float(np.nansum(record.cost[avoided])),
        "unpriced": int(np.isnan(record.cost[avoided]).sum()),
        "node_hours_out": float(sum(end - start for _, start, end in out) * 24),
        "most_out": int(max(np.cumsum([step for _, step in edges]), default=0)) if edges else 0,
        "refused": refused,
    }


def table(
    record: Record,
    afters: Sequence[int],
    spares: Sequence[int],
    hold_days: float,
    *,
    draws: int = 2000,
    confidence: float = 0.95,
) -> list[dict[str, Any]]:
    """Every rule of the grid, judged."""
    return [
        judge(record, after, spare, hold_days, draws=draws, confidence=confidence)
        for after in afters
        for spare in spares
    ]
