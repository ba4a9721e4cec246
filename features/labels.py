"""Windows and failures to labels: 1 a warning, 0 quiet, NaN neither.

The alarm time of a window is its end ``e``. For a failure that begins at ``t0`` on its node and whose last line is
at ``t1``::

    e in [t0 - early, t0 - horizon)                NaN  on the node that began it: its sign may show already
    e in [t0 - horizon, t0 - gap)                  1    on the node that began it, NaN on the others it touched
    e in [t0 - gap, t1 + recovery + length)        NaN  on every node it touched: no window that overlaps the
                                                        incident or its repair is called quiet or a warning

Where two incidents meet, NaN wins over 1, and among warnings the nearest failure.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.settings import LabelSettings, to_nanoseconds
from features.tables import LABELS, conform
from features.windows import as_ns

Rule = Literal["early", "warning", "barred"]


def label(windows: pd.DataFrame, failures: pd.DataFrame, settings: LabelSettings) -> pd.DataFrame:
    """`LABELS` aligned with the windows.

    ``failure`` names the incident a label of 1 or NaN comes from, ``lead_seconds`` is from the window's end to that
    incident's first line (negative once it has begun); quiet windows have "" and NaN.
    """
    end = as_ns(windows["end"])
    length = int((end - as_ns(windows["start"])).max()) if len(windows) else 0
    out = np.zeros(len(windows), dtype=np.float32)
    name = np.full(len(windows), "", dtype=object)
    lead = np.full(len(windows), np.nan)
    rows_of = _rows_of(windows)
    ordered = failures.sort_values("time", ascending=False) if len(failures) else failures
    # What is early, then warnings, then what is barred; the latest failure first so that a nearer one overwrites it.
    rules: tuple[Rule, ...] = get_args(Rule)
    for rule in rules:
        for failure in ordered.to_dict("records"):
            for node in _touched(failure):
                rows = rows_of.get(node)
                if rows is None:
                    continue
                low, high = _span(failure, settings, length, rule, first=node == failure["node"])
                hit = rows[(end[rows] >= low) & (end[rows] < high)]
                if not len(hit):
                    continue
                out[hit] = 1.0 if rule == "warning" else np.nan
                name[hit] = failure["failure"]
                lead[hit] = (pd.Timestamp(failure["time"]).value - end[hit]) / 1e9
    return conform(pd.DataFrame({"label": out, "failure": name, "lead_seconds": lead}), LABELS)


def _rows_of(windows: pd.DataFrame) -> dict[str, NDArray[np.int64]]:
    """Positions of each node's windows."""
    codes, names = pd.factorize(windows["node"])
    return {str(name): np.flatnonzero(codes == code) for code, name in enumerate(names)}


def _touched(failure: Mapping[Hashable, Any]) -> list[str]:
    """Every node of the incident, the one that began first."""
    others = failure.get("nodes")
    rest = [str(node) for node in others] if isinstance(others, (list, tuple, set, np.ndarray)) else []
    first = str(failure["node"])
    return [first, *(node for node in rest if node != first)]


def _span(
    failure: Mapping[Hashable, Any], settings: LabelSettings, length: int, rule: Rule, *, first: bool
) -> tuple[int, int]:
    """Window ends ``[low, high)`` in nanoseconds to which one rule of the module's table applies."""
    begin = pd.Timestamp(failure["time"]).value
    last = failure.get("end")
    over = begin if last is None or pd.isna(last) else max(begin, pd.Timestamp(last).value)
    horizon, gap = to_nanoseconds(settings.horizon), to_nanoseconds(settings.gap)
    if rule == "early":
        return (begin - to_nanoseconds(settings.early), begin - horizon) if first else (0, 0)
    if rule == "warning":
        return (begin - horizon, begin - gap) if first else (0, 0)
    return begin - (gap if first else horizon), over + to_nanoseconds(settings.recovery) + length


def touches(windows: pd.DataFrame, failures: pd.DataFrame, before_ns: int, after_ns: int) -> NDArray[np.bool_]:
    """Windows, on a node an incident touched, that overlap ``[t0 - before, t1 + after)``: what a fold must purge."""
    start, end = as_ns(windows["start"]), as_ns(windows["end"])
    rows_of = _rows_of(windows)
    out = np.zeros(len(windows), dtype=bool)
    for failure in failures.to_dict("records"):
        begin = pd.Timestamp(failure["time"]).value
        over = begin if pd.isna(failure["end"]) else max(begin, pd.Timestamp(failure["end"]).value)
        for node in _touched(failure):
            rows = rows_of.get(node)
            if rows is not None:
                out[rows] |= (end[rows] > begin - before_ns) & (start[rows] < over + after_ns)
    return out
