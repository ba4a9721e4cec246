"""``foreshock backtest``: the batch job over history, window by window, by the functions of the live one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from features.settings import to_nanoseconds
from features.tables import InputError, to_ns
from features.windows import ends as ends_of
from pipelines import monitored, paging
from pipelines.asking import Source, with_context
from pipelines.config import Config
from pipelines.judging import judge
from pipelines.score import load
from pipelines.sources import take
from pipelines.store import Store
from pipelines.watch import Watch

_AT_ONCE = 288  # window ends judged together: a day at the usual stride, so memory holds a day


def backtest(
    store: Path,
    config: Config,
    *,
    model: str = "models:/foreshock@champion",
    bundle_dir: Path | None = None,
    start: pd.Timestamp | None = None,
    end: pd.Timestamp | None = None,
    tracking_uri: str = "",
) -> dict[str, Any]:
    """What the job would have paged; writes nothing. Gives the command's JSON.

    Raises
    ------
    InputError
        The span holds no whole window.
    """
    frozen, name = load(model, bundle_dir, tracking_uri or config.tracking.uri)
    settings = frozen.configure(config)
    history = Store.open(store)
    first, last = history.span()
    low = first if start is None else max(first, to_ns(start))
    high = last if end is None else min(last, to_ns(end))
    ends = ends_of(low, high, frozen.features.window).tolist()
    if not ends:
        raise InputError(f"{store}: no whole window between the given times and the store's own")
    stride = to_nanoseconds(frozen.features.window.stride)
    alerts: dict[str, paging.Alert] = {}
    seen: dict[str, paging.Alert] = {}
    source = Source(store=store)
    watch: Watch | None = None
    for at in range(0, len(ends), _AT_ONCE):
        part = ends[at : at + _AT_ONCE]
        whole = with_context(part, stride)
        moment = take(source, frozen, settings, whole, watch)
        watch = moment.watch
        watch.trim()
        found = judge(moment, frozen, settings, whole, part[0])
        for moment_ns in part:
            alerts = paging.advance(alerts, found[moment_ns], moment_ns, settings.scoring, early=settings.labels.early)
            seen |= {one.alert: one for one in alerts.values()}
    return {
        "model": name,
        "alerts": [one.report() for one in sorted(seen.values(), key=lambda one: (one.start, one.node))],
        "windows": len(ends),
        "days": monitored.time(ends, history, settings),
    }
