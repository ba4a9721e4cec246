"""The whole simulation: who, when, what goes wrong; then node by node and day by day, so that memory stays small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
import pandas as pd
from numpy.typing import NDArray

from features.tables import UsageError, to_ns, to_time
from pipelines import made_up
from pipelines.simulate import benign, catalogue, cluster, drivers, export, failures, jobs, logs, series, story
from pipelines.simulate.habits import Habits

DAY = 86400.0
USUAL = Habits()
START = pd.Timestamp("2026-01-04T00:00:00Z")
PREROLL = 40  # cells before a day, in which lags settle


@dataclass(frozen=True)
class _Setting:
    """What does not change from node to node."""

    out: Path
    start_ns: int
    span: float
    step: float
    seed: int
    habits: Habits
    metrics: tuple[catalogue.Metric, ...]


def simulate(
    out: Path,
    *,
    nodes: int = 16,
    gpus: int = 8,
    days: float = 14.0,
    failures: int = 10,
    metrics: int = 751,
    step: timedelta = timedelta(seconds=30),
    seed: int = 0,
    start: pd.Timestamp | None = None,
    habits: Habits = USUAL,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Write a made-up cluster's export into `out`; the same arguments give the same bytes.

    Parameters
    ----------
    out
        Folder for ``metrics/*.jsonl.gz``, ``logs/*.json.gz``, ``sessions.csv`` and ``truth.json``.
    failures
        How many failures are wished for; a small cluster in repair may hold fewer.
    metrics
        How many of the 751 metric names are exported, the telling ones first.
    habits
        How its jobs, people and file server behave.
    progress
        Called with the node-days done and their number.

    Returns
    -------
    dict
        Counts of what was written.

    Raises
    ------
    UsageError
        An argument that makes no cluster, or a folder that holds an export already.
    """
    setting = _checked(out, nodes, gpus, days, failures, metrics, step, seed, start, habits)
    machines, schedule, trouble = _world(setting, nodes, gpus, failures)
    for folder in ("metrics", "logs"):
        (out / folder).mkdir(parents=True, exist_ok=True)
    edges = np.append(np.arange(0.0, setting.span, DAY), setting.span)
    counts: Counter[str] = Counter()
    done = 0
    for node in machines:
        tale = story.tell(node, schedule, trouble, seed)
        counters = series.Counters(seed)
        late: list[logs.Line] = []
        for day, (low, high) in enumerate(pairwise(edges)):
            late = _node_day(setting, tale, counters, day, (float(low), float(high)), late, counts)
            done += 1
            if progress:
                progress(done, nodes * (len(edges) - 1))
    _write_sessions(setting, machines, schedule)
    _write_truth(setting, machines, schedule, trouble)
    return _summary(setting, nodes, gpus, schedule, trouble, counts)


def _checked(
    out: Path,
    nodes: int,
    gpus: int,
    days: float,
    failures: int,
    metrics: int,
    step: timedelta,
    seed: int,
    start: pd.Timestamp | None,
    habits: Habits,
) -> _Setting:
    seconds = step.total_seconds()
    if not 1 <= nodes <= 4096:
        raise UsageError(f"--nodes {nodes}: give 1 to 4096")
    if not 0 <= gpus <= len(cluster.BUSES):
        raise UsageError(f"--gpus {gpus}: a node has room for 0 to {len(cluster.BUSES)}")
    if seconds <= 0 or DAY % seconds:
        raise UsageError(f"--step {seconds:g}s does not divide a day; give e.g. 15s, 30s or 60s")
    if not 0 < days <= 3660 or days * DAY < 10 * seconds:
        raise UsageError(f"--days {days:g}: give more than ten steps and at most 3660 days")
    if failures < 0:
        raise UsageError(f"--failures {failures}: give 0 or more")
    if seed < 0:
        raise UsageError(f"--seed {seed}: give 0 or more")
    if (out / "metrics").is_dir() and any((out / "metrics").iterdir()):
        raise UsageError(f"{out} holds an export already; name another folder or delete this one")
    begin = START if start is None else start
    if begin.tzinfo is None:
        raise UsageError(f"--start {begin} has no zone; write it with one, e.g. {begin.isoformat()}Z")
    step_ns = int(seconds * 1e9)
    start_ns = to_ns(begin) // step_ns * step_ns
    span = round(days * DAY / seconds) * seconds
    return _Setting(out, start_ns, span, seconds, seed, habits, catalogue.chosen(metrics))


def _world(
    setting: _Setting, nodes: int, gpus: int, count: int
) -> tuple[tuple[cluster.Node, ...], jobs.Schedule, benign.Benign]:
    """Who there is and what happens, before a sample is drawn."""
    span, seed, habits = setting.span, setting.seed, setting.habits
    machines = cluster.build(nodes, gpus, setting.step, habits, seed)
    plans = failures.plan(count, span, seed)
    aborts = benign.times(habits.user_errors * nodes, span, seed, 1)
    reboots = benign.times(habits.planned_reboots * nodes, span, seed, 2)
    schedule = jobs.schedule(machines, span, plans, aborts, reboots, habits, seed)
    return machines, schedule, benign.invent(machines, span, schedule, count, seed)


class Day(NamedTuple):
    """A node's day before it is written down: what it does, the scrapes there are, and its series."""

    doing: drivers.Work
    times: drivers.Array
    stamps: NDArray[np.int64]  # milliseconds
    seen: series.Presence
    places: NDArray[np.int64]
    rows: Iterator[series.Row]
    rng: np.random.Generator  # goes on after the rows


def _tell(setting: _Setting, tale: story.Story, counters: series.Counters, day: int, span: tuple[float, float]) -> Day:
    """A node's metrics of one day; days must follow one another, for counters count on."""
    node, step, seed = tale.node, setting.step, setting.seed
    times = np.arange(span[0] - PREROLL * step, span[1] - step / 2, step) + node.phase
    doing = drivers.work(node.index, tale.attempts, tale.down, times)
    host, cards = drivers.drive(node, doing, times, drivers.Moves(tale.effects, times), step, setting.habits, seed, day)
    host = {name: values[PREROLL:] for name, values in host.items()}
    cards = {name: values[:, PREROLL:] for name, values in cards.items()}
    doing = doing.after(PREROLL)
    times = times[PREROLL:]
    rng = np.random.default_rng([seed, 71, node.index, day])
    lost = story.gone(tale, times, step)
    cards["xid"] = story.latched(tale, times)
    epoch = setting.start_ns / 1e9
    host["clock_time"] = epoch + times
    ups = np.array([-series.UPTIME / 2 - 3000.0 * node.index, *(end for _, end in tale.down)])
    host["boot_time"] = np.round(epoch + ups[np.searchsorted(ups, times, side="right") - 1])
    seen = series.presence(tale.down, tale.gaps, lost, host, times, rng)
    stamps = setting.start_ns // 1_000_000 + np.round(times * 1000).astype(np.int64)
    boots = story.boots(tale, times, step)
    rows = series.rows(setting.metrics, node, host, cards, seen, boots, step, counters, rng)
    return Day(doing, times, stamps, seen, story.places(tale, lost, times), rows, rng)


def _node_day(
    setting: _Setting,
    tale: story.Story,
    counters: series.Counters,
    day: int,
    span: tuple[float, float],
    late: list[logs.Line],
    counts: Counter[str],
) -> list[logs.Line]:
    """Write a node's files of one day; lines that fall into the next day are given back."""
    node = tale.node
    told = _tell(setting, tale, counters, day, span)
    date = to_time(setting.start_ns + int(span[0] * 1e9)).strftime("%Y-%m-%d")
    with export.packed(setting.out / "metrics" / f"{node.name}-{date}.jsonl.gz") as stream:
        pods = story.pods(tale, told.doing.attempt)
        writer = export.MetricWriter(stream, node, told.stamps, told.seen, pods, told.places)
        for row in told.rows:
            writer.write(row)
            counts["series"] += day == 0
        counts["samples"] += writer.samples
    low, high = span
    lines = late + [line for line in tale.lines if low <= line.time < high]
    lines += logs.background(node, high - low, low, told.rng)
    lines += logs.training(tale.attempts, told.doing, told.times)
    lines += logs.scheduling(tale.attempts, node.index, low, high)
    lines = [line for line in lines if line.time < setting.span and not _down(tale, line)]
    today = sorted(line for line in lines if line.time < high)
    with export.packed(setting.out / "logs" / f"{node.name}-{date}.json.gz") as stream:
        stream.writelines(_journal(setting, tale, line) for line in today)
    counts["log_lines"] += len(today)
    return [line for line in lines if line.time >= high]


def _down(tale: story.Story, line: logs.Line) -> bool:
    return any(start <= line.time < end for start, end in tale.down)


def _journal(setting: _Setting, tale: story.Story, line: logs.Line) -> bytes:
    """One line as ``journalctl -o json`` writes it."""
    micros = setting.start_ns // 1000 + int(line.time * 1e6)
    boot = sum(end <= line.time for _, end in tale.down)
    record = {
        "__REALTIME_TIMESTAMP": str(micros),
        "_BOOT_ID": tale.boot_ids[boot],
        "_HOSTNAME": tale.node.name,
        "_TRANSPORT": "kernel" if line.source == "kernel" else "syslog",
        "PRIORITY": str(line.priority),
        "SYSLOG_IDENTIFIER": line.source,
        "MESSAGE": line.message,
    }
    if line.source == "kernel":
        record["SYSLOG_FACILITY"] = "0"
    return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)


def _iso(setting: _Setting, seconds: float) -> str:
    return to_time(setting.start_ns + round(seconds * 1000) * 1_000_000).isoformat().replace("+00:00", "Z")


def _write_sessions(setting: _Setting, machines: tuple[cluster.Node, ...], schedule: jobs.Schedule) -> None:
    def names(indexes: tuple[int, ...]) -> str:
        return ";".join(machines[k].name for k in indexes)

    export.sessions(
        setting.out / "sessions.csv",
        (
            (
                a.job,
                a.attempt,
                _iso(setting, a.started),
                _iso(setting, a.ended) if a.outcome and a.ended < setting.span else "",
                a.outcome if a.ended < setting.span else "running",
                names(a.nodes),
                names(a.excluded),
            )
            for a in schedule.attempts
        ),
    )


def _true_failure(setting: _Setting, machines: tuple[cluster.Node, ...], failure: failures.Failure) -> dict[str, Any]:
    plan, node = failure.plan, machines[failure.node]
    card = node.gpus[failure.gpu] if failure.gpu >= 0 else None
    warns = bool(failure.effects or failure.lines)
    begins = [effect.start for effect in failure.effects] + [sign.start for sign in failure.lines]
    first = min(begins, default=failure.time)
    return {
        "kind": plan.kind,
        "node": node.name,
        "gpu": card.uuid if card else "",
        "pci": card.pci_kernel if card else "",
        "time": _iso(setting, failure.time),
        "xid": plan.xids[0] if plan.xids else None,
        "xids": list(plan.xids),
        "in_log": plan.in_log,
        "in_gauge": plan.in_gauge,
        "vanishes": plan.vanishes,
        "warning_start": _iso(setting, first) if warns else None,
        "warning_minutes": round((failure.time - first) / 60, 2) if warns else 0.0,
        "strength": plan.strength if warns else 0.0,
        "signs": [
            {
                "driver": effect.driver,
                "metrics": [m.name for m in setting.metrics if m.driver.split(":")[0] == effect.driver],
                "shape": effect.shape,
                "mode": effect.mode,
                "amplitude": effect.amplitude,
                "start": _iso(setting, effect.start),
            }
            for effect in failure.effects
        ],
        "templates": [sign.template for sign in failure.lines],
        "job": failure.job,
        "rebooted": _iso(setting, failure.reboot[1]),
        "repaired": _iso(setting, failure.back),
    }


def _write_truth(
    setting: _Setting, machines: tuple[cluster.Node, ...], schedule: jobs.Schedule, trouble: benign.Benign
) -> None:
    export.truth(
        setting.out / made_up.TRUTH,
        {
            "note": made_up.NOTE,
            "seed": setting.seed,
            "failures": [_true_failure(setting, machines, failure) for failure in schedule.failures],
            "benign": [
                {
                    "kind": event.kind,
                    "start": _iso(setting, event.start),
                    "end": _iso(setting, min(event.end, setting.span)),
                    "nodes": [machines[k].name for k in event.nodes],
                    "detail": event.detail,
                }
                for event in trouble.happenings
            ],
            "chatter": {
                node.name: {f"{driver}:{card}": rate * 3600 for (driver, card), rate in node.chatter.items()}
                for node in machines
                if node.chatter
            },
        },
    )


def _summary(
    setting: _Setting, nodes: int, gpus: int, schedule: jobs.Schedule, trouble: benign.Benign, counts: Counter[str]
) -> dict[str, Any]:
    return {
        "out": str(setting.out),
        "nodes": nodes,
        "gpus": nodes * gpus,
        "days": setting.span / DAY,
        "start": _iso(setting, 0),
        "end": _iso(setting, setting.span),
        "metrics": len(setting.metrics),
        "series": counts["series"],
        "samples": counts["samples"],
        "log_lines": counts["log_lines"],
        "sessions": len(schedule.attempts),
        "failures": len(schedule.failures),
        "failures_without_warning": sum(not (f.effects or f.lines) for f in schedule.failures),
        "benign_events": len(trouble.happenings),
    }
