"""What a live job would have known of a store's failures at each window's end, over all of its history.

A line and a code are known once they are there. That a GPU is lost is sure five minutes on, though history tells it
from its first missing cell: training that took it from there would catch failures "at" that no job can.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue, incidents, repair
from features.settings import LabelSettings
from features.tables import LOGS
from features.windows import as_ns
from models import rules
from pipelines.grid import DAY_NS
from pipelines.store import Store
from pipelines.watch import Evidence, Watch, losses


def began(
    store: Store, windows: pd.DataFrame, events: pd.DataFrame, labels: LabelSettings, stride_ns: int
) -> NDArray[np.bool_]:
    """Windows at whose end a failure of the node became known, as `watch.Hindsight.began` tells it end by end.

    Reads one node's day at a time.

    Parameters
    ----------
    windows, events
        `WINDOWS`, and the store's `EVENTS`.
    labels
        What counts as a failure.
    stride_ns
        From one window to the next, in nanoseconds.
    """
    hard = events[incidents.targets(events, labels)]
    told = hard[(hard["origin"] != "absence").to_numpy()]
    out = rules.began(windows, told.assign(time=repair.sure(told)), stride_ns)
    if not catalogue.is_target(None, "hardware", labels):
        return out
    ends = as_ns(windows["end"])
    for node, rows in windows.groupby("node", sort=False).indices.items():
        order = rows[np.argsort(ends[rows], kind="stable")]
        out[order] |= _losses_news(store, str(node), ends[order], stride_ns)
    return out


def _losses_news(store: Store, node: str, ends: NDArray[np.int64], stride_ns: int) -> NDArray[np.bool_]:
    """Of rising ends those by which a GPU is known as lost that was not a stride before."""
    out = np.zeros(len(ends), dtype=bool)
    days = store.days(node)
    if not days:
        return out
    start = days[0] * DAY_NS
    watch = Watch("", store.step_ns, start, start, store.gpus())
    for day in range(days[0], days[-1] + 1):
        low, high = day * DAY_NS, (day + 1) * DAY_NS
        watch.add(Evidence({node: store.panel(node, low, high)}, {}, LOGS.empty(), low, high), [node])
    before: tuple[int, Counter[tuple[str, str]]] = (start - stride_ns, Counter())
    for place, end in enumerate(ends.tolist()):
        if end - stride_ns != before[0]:
            before = (end - stride_ns, _lost(watch, node, end - stride_ns))
        now = _lost(watch, node, end)
        out[place] = bool(now - before[1])
        before = (end, now)
    return out


def _lost(watch: Watch, node: str, end_ns: int) -> Counter[tuple[str, str]]:
    return losses(watch._lost(node, end_ns))  # noqa: SLF001  # of this floor: the job's own question
