"""When a cluster was watched: the days with data, and the windows of its history.

A day on which no node has a sample says nothing of false alarms: the collector was away, or the export holds two months
that are a year apart. Its windows are none, and no time of it counts as monitored.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import windows
from features.settings import to_nanoseconds
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store


def span(store: Store, start_ns: int | None = None, end_ns: int | None = None) -> tuple[int, int]:
    """``[start, end)`` in nanoseconds of the store's history, or of the part of it that is asked for."""
    first, last = store.span()
    return max(first, first if start_ns is None else start_ns), min(last, last if end_ns is None else end_ns)


def days(store: Store) -> list[int]:
    """Days (counted since 1970) on which some node has samples; or log lines, where the store holds no samples."""
    nodes = store.nodes()
    with_samples = {day for node in nodes for day in store.days(node)}
    return sorted(with_samples or {day for node in nodes for day in store.log_days(node)})


def of_windows(ends_ns: Iterable[int] | NDArray[np.int64]) -> NDArray[np.int64]:
    """The day that each window counts to, by its end: one that ends at midnight belongs to the day before."""
    return (np.asarray(ends_ns, dtype=np.int64) - 1) // DAY_NS


def ends(store: Store, config: Config, start_ns: int | None = None, end_ns: int | None = None) -> NDArray[np.int64]:
    """Ends of the whole windows on days with data, ascending, nanoseconds since 1970."""
    found = windows.ends(*span(store, start_ns, end_ns), config.features.window)
    return found[np.isin(of_windows(found), days(store))]


def time(ends_ns: Iterable[int], store: Store, config: Config) -> float:
    """Days of monitored time that these windows' ends stand for."""
    watched = np.isin(of_windows(ends_ns), days(store))
    return int(watched.sum()) * to_nanoseconds(config.features.window.stride) / DAY_NS


def all_windows(store: Store, config: Config, start_ns: int | None = None, end_ns: int | None = None) -> pd.DataFrame:
    """`WINDOWS` of every node of the store; a node that came later has none before its first day."""
    made = windows.at(store.nodes(), ends(store, config, start_ns, end_ns), config.features.window)
    first = {node: min((*store.days(node), *store.log_days(node))) * DAY_NS for node in store.nodes()}
    made = made[windows.as_ns(made["end"]) > made["node"].map(first).to_numpy(dtype=np.int64)]
    return made.assign(window=np.arange(len(made), dtype=np.int64)).reset_index(drop=True)
