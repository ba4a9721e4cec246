"""``foreshock checkpoints``: every save and load of the history, what bound it, and how that changes.

A map over the nodes' days gives their stretches of saving and loading; what crosses nodes works on those alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features import checkpoint_lines, checkpoint_trends
from features.checkpoint_cells import KINDS, SAVE, look, per_node, wanted
from features.checkpoint_events import figures, gather, skewed, timeline
from features.checkpoint_spells import Sight
from features.checkpoint_verdicts import VERDICTS, judge
from features.settings import CheckpointSettings, PanelSettings, to_nanoseconds
from features.tables import InputError, to_time
from models.intervals import clopper_pearson
from pipelines import checkpoint_limits, checkpoint_words, executor
from pipelines import failures as labels
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store

_DAYS = 4  # of a node in one piece: the days around a piece are read again for its edges
Result = dict[str, Any]
_SPREAD = (
    "duration_seconds",
    "bytes",
    "nodes",
    "bytes_per_second",
    "node_bytes_per_second",
    "link_share",
    "port_share",
    "storage_share",
    "queue_share",
    "queue_milliseconds",
    "response_milliseconds",
    "slots_in_use",
    "backlog",
    "cpu_share",
    "gpu_memory_share",
    "gpu_memory_filled_bytes",
    "host_waiting_bytes",
    "disk_busy",
)


@dataclass(frozen=True)
class _Piece:
    """Some days of one node."""

    store: str
    node: str
    start: int
    end: int
    settings: CheckpointSettings
    panels: PanelSettings


def checkpoints(
    path: Path, config: Config, *, workers: int | None = None, progress: Callable[[int, int], None] | None = None
) -> Result:
    """All that can be said of the store's saves and loads, as ``--json`` prints it.

    Raises
    ------
    InputError
        There is no store, or it holds no metrics.
    """
    store = Store.open(path)
    settings = config.checkpoints
    sights = _sights(store, config, workers, progress)
    spells = [spell for sight in sights for spell in sight.spells]
    sessions = store.sessions()
    found, below = gather(spells, sessions, settings)
    apart = skewed(found, store.step_ns)
    moved = timeline(spells)
    events = [figures(event, settings, store.step_ns, moved, apart) for event in found]
    logged = checkpoint_lines.attach(events, _lines(store))
    quiet = {kind: _quiet(sights, kind) for kind in KINDS}
    for event in events:
        verdict = judge(event, settings, quiet[event["kind"]])
        event |= {"verdict": verdict.verdict, "evidence": verdict.evidence, "also": verdict.also}
    start, end = store.span()
    result: Result = {
        "start": to_time(start),
        "end": to_time(end),
        "nodes": len({sight.node for sight in sights}),
        "step_seconds": store.step_ns / 1e9,
        "thresholds": {f"{kind}_bytes_per_second_per_node": per_node(settings, kind) for kind in KINDS},
        "quiet_response_milliseconds": quiet,
        "since_mount": {kind: _since_mount(sights, kind) for kind in KINDS},
        "summary": {f"{kind}s": _summary([e for e in events if e["kind"] == kind]) for kind in KINDS},
        **_changes(events, store, config),
        "log": logged,
        "events": events,
    }
    result["cannot_say"] = checkpoint_limits.cannot_say(sights, events, sessions, apart, below, result)
    result["sentences"] = list(checkpoint_words.sentences(result))
    return result


def _sights(
    store: Store, config: Config, workers: int | None, progress: Callable[[int, int], None] | None
) -> list[Sight]:
    """What every node tells, piece by piece."""
    pieces = [
        _Piece(str(store.path), node, low * DAY_NS, (high + 1) * DAY_NS, config.checkpoints, config.features.panel)
        for node in store.nodes()
        for low, high in _stretches(store.days(node))
    ]
    if not pieces:
        raise InputError(f"{store.path} holds no metrics; ingest those of node_exporter with its mountstats collector")
    out = []
    for done, sight in enumerate(executor.run(_look, pieces, workers=workers), 1):
        out.append(sight)
        if progress:
            progress(done, len(pieces))
    return sorted(out, key=lambda sight: (sight.node, sight.first))


def _stretches(days: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Days without a break, at most `_DAYS` together: first and last."""
    low = previous = None
    for day in days:
        if low is None or previous is None or day != previous + 1 or day - low >= _DAYS:
            if low is not None and previous is not None:
                yield low, previous
            low = day
        previous = day
    if low is not None and previous is not None:
        yield low, previous


def _look(piece: _Piece) -> Sight:
    around = to_nanoseconds(piece.panels.staleness)
    panel = Store.open(Path(piece.store)).panel(piece.node, piece.start - around, piece.end + around, wanted)
    return look(panel, piece.settings, piece.panels, piece.start, piece.end)


def _lines(store: Store) -> pd.DataFrame:
    """Lines of saves and loads, read some lines at a time."""
    batches = (
        lines for node in store.nodes() for day in store.log_days(node) for lines in store.log_batches(node, day)
    )
    found = [checkpoint_lines.find(lines) for lines in batches]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=["node", "time", "kind", "edge"])


def _quiet(sights: Sequence[Sight], kind: str) -> float:
    """Response time outside all events in milliseconds, over all nodes; NaN unknown."""
    requests, seconds = np.sum([sight.quiet.get(kind, (0.0, 0.0)) for sight in sights], axis=0)
    return float(1000 * seconds / requests) if requests > 0 else float("nan")


def _since_mount(sights: Sequence[Sight], kind: str) -> Result:
    """Means of an operation over all the time since its mounts, of the nodes that tell all of it."""
    last = {sight.node: sight.since_mount.get(kind, (np.nan,) * 3) for sight in sights}  # in the order of time
    told = np.array([counts for counts in last.values() if np.isfinite(counts).all() and counts[0] > 0])
    if not len(told):
        return {"nodes": 0, "requests": None, "queue_milliseconds": None, "response_milliseconds": None}
    requests, queue, response = told.sum(axis=0).tolist()
    return {
        "nodes": len(told),
        "requests": requests,
        "queue_milliseconds": 1000 * queue / requests,
        "response_milliseconds": 1000 * response / requests,
    }


def _summary(events: Sequence[Result]) -> Result:
    """Quantiles of each measure, the verdicts with their exact intervals, and what the events cost."""
    spread: Result = {}
    for name in _SPREAD:
        known = np.array([event[name] for event in events], dtype=float)
        known = known[np.isfinite(known)]
        levels = np.quantile(known, [0, 0.25, 0.5, 0.75, 1]).tolist() if len(known) else [None] * 5
        spread[name] = dict(zip(("least", "q25", "median", "q75", "most"), levels, strict=True))
    counts = Counter(event["verdict"] for event in events)
    return {
        "events": len(events),
        "spread": spread,
        "verdicts": {
            verdict: {
                "events": counts[verdict],
                "share": counts[verdict] / len(events),
                "interval": list(clopper_pearson(counts[verdict], len(events))),
            }
            for verdict in VERDICTS
            if counts[verdict]
        },
        "bytes": sum(event["bytes"] for event in events),
        "gpu_hours": sum(event["gpu_hours"] for event in events),
        "gpu_hours_idle": float(np.nansum([event["gpu_hours_idle"] for event in events])),
        "stragglers": dict(Counter(node for event in events for node in event["stragglers"]).most_common()),
    }


def _changes(events: Sequence[Result], store: Store, config: Config) -> Result:
    """Scaling, weeks and the time before failures."""
    out: Result = {"scaling": {}, "knee": {}, "weeks": {}, "trend": {}}
    for kind in KINDS:
        own = [event for event in events if event["kind"] == kind]
        out["scaling"][kind], out["knee"][kind] = checkpoint_trends.scaling(own, config.checkpoints)
        out["weeks"][kind], out["trend"][kind] = checkpoint_trends.weeks(own)
    saves = [event for event in events if event["kind"] == SAVE]
    out["before_failures"] = checkpoint_trends.before_failures(
        saves, labels.failures(store, config), config.checkpoints
    )
    return out
