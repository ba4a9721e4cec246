"""How good the data were: what was rejected on the way in, where nothing was heard, how much was missing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from features import names
from features.tables import Matrix
from pipelines.store import Store

_SILENT = names.column("presence", "silent_seconds")
_DOWN = names.column("presence", "node_down")
_SILENT_S = 300.0
_MOST = 20
_ROWS = 20_000


def measure(store: Store, matrix: Matrix) -> dict[str, Any]:
    """Counts of the inputs, gaps of nodes, and the share of missing values, ready for JSON."""
    return {**store.totals(), "inputs": inputs(store), "gaps": gaps(matrix), **missing(matrix)}


def inputs(store: Store) -> list[dict[str, Any]]:
    """By format: files, records read and kept, and rejected by reason."""
    found: dict[str, dict[str, Any]] = {}
    for item in store.inputs():
        row = found.setdefault(
            str(item["format"]), {"files": 0, "read": 0, "ok": 0, "rejected": Counter(), "noted": Counter()}
        )
        row["files"] += 1
        row["read"] += item["read"]
        row["ok"] += item["ok"]
        row["rejected"].update(item.get("rejected", {}))
        row["noted"].update(item.get("noted", {}))
    return [
        {"format": name, **row, "rejected": dict(row["rejected"]), "noted": dict(row["noted"])}
        for name, row in sorted(found.items())
    ]


def gaps(matrix: Matrix) -> dict[str, Any]:
    """Spans in which a node gave no metric for five minutes and more: how many, how long, and the longest."""
    X, windows = matrix.X, matrix.windows
    silent = np.zeros(len(X), dtype=bool)
    if _SILENT in X.columns:
        silent |= X[_SILENT].to_numpy() > _SILENT_S
    if _DOWN in X.columns:
        silent |= X[_DOWN].to_numpy() > 0
    table = windows.loc[silent, ["node", "start", "end"]].sort_values(["node", "end"], kind="stable")
    if table.empty:
        return {"count": 0, "hours": 0.0, "longest": []}
    ends = np.unique(windows["end"].astype("int64").to_numpy())
    stride = pd.Timedelta(int(np.diff(ends).min()) if len(ends) > 1 else 0, unit="ns")
    apart = (table["node"] != table["node"].shift()) | (table["end"].diff() > stride)
    spans = table.groupby(apart.cumsum()).agg(node=("node", "first"), start=("end", "first"), end=("end", "last"))
    hours = ((spans["end"] - spans["start"]).astype("int64") + stride.value) / 3_600_000_000_000
    order = hours.sort_values(ascending=False, kind="stable").index[:_MOST]
    longest = [
        {
            "node": str(spans.loc[at, "node"]),
            "start": (spans.loc[at, "start"] - stride).isoformat(),
            "end": spans.loc[at, "end"].isoformat(),
            "hours": float(hours[at]),
        }
        for at in order
    ]
    return {"count": len(spans), "hours": float(hours.sum()), "longest": longest}


def missing(matrix: Matrix) -> dict[str, Any]:
    """The share of values that are missing, in all and of the nodes with most of it."""
    X = matrix.X.iloc[:: max(1, len(matrix.X) // _ROWS)]
    if X.empty:
        return {"missing_share": 0.0, "missing_nodes": []}
    share = X.isna().mean(axis=1)
    nodes = share.groupby(level=0).mean().sort_values(ascending=False, kind="stable")
    worst = [{"node": str(name), "share": float(value)} for name, value in nodes.head(5).items()]
    return {"missing_share": float(share.mean()), "missing_nodes": worst}
