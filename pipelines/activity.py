"""Sessions told from what the GPUs did, for a store that no scheduler's record was given to.

Nodes whose GPUs took up and laid down work together were one try of a job. It failed when an incident of its nodes
lies at its end; how any other ended nobody tells. Tries follow each other as one job only over a failure and on
mostly the same nodes, for nothing else says that the next work was the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import chains, phase
from features.settings import to_nanoseconds
from features.tables import SESSIONS, Panel, conform, to_time
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.panel_files import read_values
from pipelines.store import Store

_MINUTE_NS = 60_000_000_000
_TOGETHER_NS = 3 * _MINUTE_NS  # a job's nodes start within this
_APART_NS = 6 * _MINUTE_NS  # and end within this: the failed one first, the others when the collective gives up
_BEFORE_END_NS, _AFTER_END_NS = 30 * _MINUTE_NS, 5 * _MINUTE_NS  # an incident around an end is its reason
_SAME_NODES = 0.5  # of two tries' nodes, shared: one job


@dataclass
class _Try:
    """Nodes that worked from ``start`` to ``end``, nanoseconds."""

    start: int
    end: int
    nodes: set[str] = field(default_factory=set)


def sessions(store: Store, config: Config, incidents: pd.DataFrame) -> pd.DataFrame:
    """Frame of `SESSIONS`; empty where no GPU's use was measured.

    Parameters
    ----------
    incidents
        Frame of `FAILURES`, of every kind.
    """
    runs = [(start, end, node) for node in store.nodes() for start, end in _runs(store, node, config)]
    if not runs:
        return SESSIONS.empty()
    low, high = store.span()
    edge = to_nanoseconds(config.retries.quiet_gap)
    tries = _together(sorted(runs))
    blamed = _incidents(incidents)
    return _sessions(tries, blamed, high - edge, to_nanoseconds(config.retries.chain_gap), low)


def _runs(store: Store, node: str, config: Config) -> list[tuple[int, int]]:
    """When the node's GPUs worked; breaks shorter than ``quiet_gap`` are the work's own."""
    gap = to_nanoseconds(config.retries.quiet_gap)
    out: list[tuple[int, int]] = []
    for day in store.days(node):
        names, values = read_values(store.panel_path(node, day), phase.tells_use)
        values[values > 101] = np.nan  # DCGM's blanks
        times = day * DAY_NS + np.arange(values.shape[1], dtype=np.int64) * store.step_ns
        use = phase.utilisation(Panel(node, times, tuple(names), values))
        for start, end in merged(times, use >= config.retries.busy_percent, store.step_ns, gap):
            if out and start - out[-1][1] < gap:
                out[-1] = (out[-1][0], end)
            else:
                out.append((start, end))
    return [(start, end) for start, end in out if end - start >= gap]


def merged(times: NDArray[np.int64], busy: NDArray[np.bool_], step_ns: int, gap_ns: int) -> list[tuple[int, int]]:
    """``[start, end)`` of each stretch of busy cells, with breaks shorter than the gap closed."""
    at = times[busy]
    if not len(at):
        return []
    cut = np.flatnonzero(np.diff(at) - step_ns >= gap_ns)
    starts, ends = np.append(at[:1], at[cut + 1]), np.append(at[cut], at[-1:]) + step_ns
    return list(zip(starts.tolist(), ends.tolist(), strict=True))


def _together(runs: list[tuple[int, int, str]]) -> list[_Try]:
    """Runs that start and end together are one try; ``runs`` by start."""
    tries: list[_Try] = []
    for start, end, node in runs:
        near = [
            one
            for one in reversed(tries[-200:])
            if start - one.start <= _TOGETHER_NS and abs(end - one.end) <= _APART_NS and node not in one.nodes
        ]
        if near:
            near[0].nodes.add(node)
            near[0].end = max(near[0].end, end)
        else:
            tries.append(_Try(start, end, {node}))
    return tries


def _incidents(incidents: pd.DataFrame) -> dict[str, list[int]]:
    """Times of incidents by node."""
    out: dict[str, list[int]] = {}
    for nodes, time in zip(incidents["nodes"], incidents["time"], strict=True):
        for node in chains.listed(nodes):
            out.setdefault(node, []).append(int(pd.Timestamp(time).value))
    return out


def _sessions(tries: list[_Try], blamed: dict[str, list[int]], open_from: int, most: int, low: int) -> pd.DataFrame:
    """Tries as rows, those that follow a failed one on its nodes as its job's next."""
    rows: list[dict[str, object]] = []
    waiting: list[tuple[_Try, str, int]] = []  # failed tries that nothing followed yet
    for one in sorted(tries, key=lambda one: one.start):
        waiting = [item for item in waiting if one.start - item[0].end <= most]
        last = max(
            (item for item in waiting if item[0].end <= one.start and _shared(item[0], one) >= _SAME_NODES),
            key=lambda item: _shared(item[0], one),
            default=None,
        )
        job, attempt = f"activity-{to_time(one.start):%Y%m%dT%H%M%SZ}-{min(one.nodes)}", 1
        if last is not None:
            waiting.remove(last)
            job, attempt = last[1], last[2] + 1
        running = one.end >= open_from
        failed = not running and any(
            one.end - _BEFORE_END_NS <= time <= one.end + _AFTER_END_NS
            for node in one.nodes
            for time in blamed.get(node, ())
        )
        if failed:
            waiting.append((one, job, attempt))
        rows.append(
            {
                "job": job,
                "attempt": attempt,
                # work that goes on when the record begins began before it
                "started": to_time(max(one.start, low)),
                "ended": pd.NaT if running else to_time(one.end),
                "outcome": "running" if running else "failed" if failed else "",
                "nodes": sorted(one.nodes),
                "excluded": [] if last is None else sorted(last[0].nodes - one.nodes),
            }
        )
    frame = pd.DataFrame(rows)
    return conform(frame.assign(ended=pd.to_datetime(frame["ended"], utc=True)), SESSIONS)


def _shared(one: _Try, other: _Try) -> float:
    return len(one.nodes & other.nodes) / len(one.nodes | other.nodes)
