"""Nodes by the risk that they fail again: a few nodes have most failures, and a node that failed fails sooner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

_DAY_S = 86_400
_LATELY = pd.Timedelta(days=1)


def by_risk(
    failures: pd.DataFrame, scored: pd.DataFrame, alarms: Sequence[Mapping[str, Any]], windows: pd.DataFrame
) -> list[dict[str, Any]]:
    """Every node, the riskiest first.

    The risk is the number of failures expected in 30 days. A node's own rate is drawn to the cluster's as if every
    node had been watched for as long again as it takes the cluster's mean node to fail once (Gamma-Poisson, shape 1):
    one failure in a week does not make a node ten times worse than its peers.

    Parameters
    ----------
    failures
        `FAILURES`.
    scored
        Windows with node, end, score and threshold.
    alarms
        False alarms with node and cost.
    windows
        `WINDOWS` that were watched.
    """
    names = sorted({str(name) for name in windows["node"].unique()} | {str(name) for name in failures["node"]})
    watched = _days(windows)
    total = sum(watched.values())
    fleet = len(failures) / total if total else 0.0
    prior = 1.0 / fleet if fleet else 0.0  # days in which a node of the cluster's mean fails once
    false = Counter[str]()
    for alarm in alarms:
        false[str(alarm["node"])] += int(alarm["cost"])
    levels = _levels(scored)
    out = []
    for name in names:
        own = failures[failures["node"] == name].sort_values("time")
        days = watched.get(name, 0.0)
        rate = (len(own) + 1.0) / (days + prior) if prior else 0.0
        apart = own["time"].diff().dt.total_seconds().dropna() / _DAY_S
        out.append(
            {
                "node": name,
                "risk_30_days": 30 * rate,
                "failures": len(own),
                "xids": sorted({int(code) for code in own["xid"].dropna()}),
                "last_failure": own["time"].iloc[-1].isoformat() if len(own) else None,
                "days_between": float(apart.median()) if len(apart) else None,
                "false_alarms": false[name],
                "score_lately": levels.get(name),
                "watched_days": days,
            }
        )
    return sorted(out, key=lambda row: (-row["risk_30_days"], -(row["score_lately"] or 0.0), row["node"]))


def concentration(nodes: Sequence[Mapping[str, Any]], most: int = 3) -> dict[str, Any]:
    """How much of all failures the worst nodes have, and what an even spread would give at most."""
    counts = sorted((int(row["failures"]) for row in nodes), reverse=True)
    total = sum(counts)
    again = sum(1 for count in counts if count > 1)
    return {"most": min(most, len(counts)), "share": sum(counts[:most]) / total if total else 0.0, "repeated": again}


def _days(windows: pd.DataFrame) -> dict[str, float]:
    """Days each node was watched: its windows times the step from one to the next."""
    ends = np.unique(windows["end"].astype("int64").to_numpy())
    stride = int(np.diff(ends).min()) if len(ends) > 1 else 0
    counts = windows["node"].value_counts()
    return {str(name): float(count) * stride / 1e9 / _DAY_S for name, count in counts.items()}


def _levels(scored: pd.DataFrame) -> dict[str, float]:
    """The highest share of its threshold that a node's score reached in the last day of the data."""
    if scored.empty:
        return {}
    late = scored[scored["end"] > scored["end"].max() - _LATELY]
    share = late["score"] / late["threshold"]
    return {str(name): float(value) for name, value in share.groupby(late["node"]).max().items()}
