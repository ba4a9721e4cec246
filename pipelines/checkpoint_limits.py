"""What the data at hand can't tell of saves and loads: each with its reason and its cure. The rest is still said."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from features.checkpoint_cells import KINDS, OPERATION
from features.checkpoint_spells import Sight
from features.tables import to_ns

_SHORT = 3  # scrapes; a shorter event's length is little more than a guess
_TORN = 0.05  # of an event's scrapes lost
_COLLECTOR = "run node_exporter with --collector.mountstats"


class Limit(NamedTuple):
    """One thing that can't be said."""

    what: str
    why: str
    cure: str


def cannot_say(
    sights: Sequence[Sight],
    events: Sequence[Mapping[str, Any]],
    sessions: pd.DataFrame,
    apart: Mapping[str, float],
    below: Mapping[str, int],
    result: Mapping[str, Any],
) -> list[str]:
    """Everything that can't be said, a line for each: what, why and the cure.

    Parameters
    ----------
    apart
        Seconds by which a node's clock is off, from `features.checkpoint_events.skewed`.
    below
        By kind, stretches that stayed below the threshold.
    result
        Of `pipelines.checkpoints.checkpoints`: its ``log`` and ``step_seconds`` are looked at.
    """
    limits = [
        *_bytes(sights),
        *_operations(sights),
        *_measures(sights),
        *_jobs(events, sessions),
        *_counters(events, result["step_seconds"]),
        *_edges(events, result),
        *_silent(sights, events),
        *_clocks(apart, result["log"]["apart"]),
        *_log(events, result["log"]),
        *_below(below),
    ]
    return [f"{limit.what}, because {limit.why}; {limit.cure}" for limit in limits]


def _names(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:5]) + (f" and {len(nodes) - 5} more" if len(nodes) > 5 else "")


def _nodes(sights: Sequence[Sight], source: str, kind: str) -> list[str]:
    return sorted({sight.node for sight in sights if sight.source.get(kind) == source})


def _bytes(sights: Sequence[Sight]) -> Iterator[Limit]:
    """Nodes whose bytes are told by something less than the NFS client's own count, or not at all."""
    whole = len({sight.node for sight in sights})
    told = {sight.node for sight in sights if any(sight.source.values())}
    still = sorted(told - {sight.node for sight in sights if sight.seen})
    if still:
        yield Limit(
            f"anything of {len(still)} of {whole} nodes ({_names(still)})",
            "no counter of bytes has two samples within the staleness, so nothing is known to have moved",
            "ingest a longer stretch, or raise features.panel.staleness above the scrape interval",
        )
    for kind in KINDS:
        dark = sorted(set(_nodes(sights, "", kind)) - {s.node for s in sights if s.source.get(kind)})
        if dark:
            yield Limit(
                f"{kind}s of {len(dark)} of {whole} nodes ({_names(dark)})",
                "they export neither mountstats nor network counters",
                f"{_COLLECTOR} and ingest its metrics",
            )
        network = _nodes(sights, "network", kind)
        if network:
            yield Limit(
                f"which bytes of {len(network)} of {whole} nodes are a {kind}'s ({_names(network)})",
                "they export no mountstats; the network's bytes stand in for them and hold all other traffic too",
                _COLLECTOR,
            )
        calls = _nodes(sights, "calls", kind)
        if calls:
            yield Limit(
                f"when bytes of {len(calls)} nodes' {kind}s reached the server ({_names(calls)})",
                "only bytes of system calls are exported, which the page cache takes first",
                "export node_mountstats_nfs_total_write_bytes_total and ..._read_bytes_total",
            )


def _operations(sights: Sequence[Sight]) -> Iterator[Limit]:
    """Operations whose counters are missing."""
    whole = {sight.node for sight in sights}
    for kind in KINDS:
        for measure, untold in (
            ("requests", "how long an operation takes"),
            ("queue", "the queue's share of an operation's time, and so whether RPC slots bind"),
            ("response", "how many RPC slots are in use"),
        ):
            missing = whole - {s.node for s in sights if f"{measure} {OPERATION[kind]}" in s.told}
            if missing:
                yield Limit(
                    f"{untold}, in {kind}s of {len(missing)} of {len(whole)} nodes",
                    f"no {measure} counter of {OPERATION[kind]} is exported by {_names(sorted(missing))}",
                    f"{_COLLECTOR} and keep node_mountstats_nfs_operations_*",
                )


def _measures(sights: Sequence[Sight]) -> Iterator[Limit]:
    whole = {sight.node for sight in sights}
    for measure, untold, cure in (
        (
            "slots",
            "whether the slot table is larger than the setting says, and how many connections there are",
            "export node_mountstats_nfs_transport_maximum_rpc_slots, or set checkpoints.slot_table",
        ),
        ("network", "how full the ports are", "export node_network_* or node_infiniband_*"),
        ("cpu", "whether the CPU binds", "export node_cpu_seconds_total"),
        ("use", "whether GPUs were idle: reads of busy nodes count as loads", "export DCGM_FI_DEV_GPU_UTIL"),
        (
            "memory",
            "whether a load fills GPU memory, and what share of it a save writes",
            "export DCGM_FI_DEV_FB_USED",
        ),
        ("host", "how much waits in host memory on its way", "export node_memory_Dirty_bytes"),
        ("disk", "whether local disks hold a save or a load up", "export node_disk_io_time_seconds_total"),
    ):
        missing = sorted(whole - {sight.node for sight in sights if measure in sight.told})
        if missing:
            yield Limit(f"{untold} ({len(missing)} of {len(whole)} nodes)", f"not exported by {_names(missing)}", cure)


def _jobs(events: Sequence[Mapping[str, Any]], sessions: pd.DataFrame) -> Iterator[Limit]:
    if sessions.empty and events:
        merged = [event["event"] for event in events if event["ran_together"]]
        seen = f"; {len(merged)} look like two that ran into each other ({_names(merged)})" if merged else ""
        yield Limit(
            f"which job an event belongs to: saves of two jobs at once count as one{seen}",
            "the store holds no sessions",
            "ingest the scheduler's with --sessions",
        )
    for kind in KINDS:
        pairs = overlapping([event for event in events if event["kind"] == kind])
        if pairs:
            names = _names([f"{first} with {second}" for first, second in pairs])
            yield Limit(
                f"which of two jobs slowed the other in {len(pairs)} pairs of {kind}s",
                f"they overlap in time ({names}); the storage's share is of both together",
                "let jobs save at different times",
            )


def overlapping(events: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Events of one kind that begin before an earlier one ends."""
    out = []
    longest: Mapping[str, Any] | None = None
    for before, event in pairwise(sorted(events, key=lambda one: to_ns(one["start"]))):
        if longest is None or to_ns(before["end"]) > to_ns(longest["end"]):
            longest = before
        if to_ns(event["start"]) < to_ns(longest["end"]):
            out.append((longest["event"], event["event"]))
    return out


def _counters(events: Sequence[Mapping[str, Any]], step_seconds: float) -> Iterator[Limit]:
    """Counters that restarted, scrapes that are missing, events that are too short."""
    restarted = [event for event in events if event["restarts"]]
    if restarted:
        nodes = sorted({node for event in restarted for node in event["restarts"]})
        yield Limit(
            f"all bytes of {len(restarted)} events ({_names([event['event'] for event in restarted])})",
            f"counters of {_names(nodes)} began anew in them (a remount or a reboot); what came before in that scrape "
            "is lost",
            "the figures are least values",
        )
    torn = [
        event["event"]
        for event in events
        if event["lost_scrapes"] * step_seconds > _TORN * event["duration_seconds"] * event["nodes"]
    ]
    if torn:
        yield Limit(
            f"when in a lost scrape the bytes of {len(torn)} events moved",
            f"more than {_TORN:.0%} of their scrapes are missing; the bytes are spread evenly over them",
            "bytes are whole, peaks are flattened",
        )
    for kind in KINDS:
        own = [event for event in events if event["kind"] == kind]
        short = [event for event in own if event["duration_seconds"] < _SHORT * step_seconds]
        if short:
            yield Limit(
                f"how long {len(short)} of {len(own)} {kind}s lasted, better than to one scrape",
                f"they are shorter than {_SHORT} scrapes of {step_seconds:g} s",
                "scrape more often",
            )


def _edges(events: Sequence[Mapping[str, Any]], result: Mapping[str, Any]) -> Iterator[Limit]:
    """Events that the record cuts: a counter's first sample tells nothing, so one cell is lost at its beginning."""
    step = round(result["step_seconds"] * 1e9)
    first, last = to_ns(result["start"]) // step * step + 2 * step, to_ns(result["end"]) - step
    cut = [e["event"] for e in events if to_ns(e["start"]) < first or to_ns(e["end"]) > last]
    if cut:
        yield Limit(
            f"how long {len(cut)} events lasted in all ({_names(cut)})",
            "they reach to where the record begins or ends",
            "their bytes and seconds are least values",
        )


def _silent(sights: Sequence[Sight], events: Sequence[Mapping[str, Any]]) -> Iterator[Limit]:
    """Events without a queue's share though nodes export its counter."""
    for kind in KINDS:
        told = any(f"queue {OPERATION[kind]}" in sight.told for sight in sights)
        own = [event for event in events if event["kind"] == kind]
        silent = [event["event"] for event in own if math.isnan(event["queue_share"])]
        if told and silent:
            yield Limit(
                f"the queue's share in {len(silent)} of {len(own)} {kind}s ({_names(silent)})",
                "the counters of their nodes are not exported, or gave nothing then: lost, or below zero in the kernel",
                "look at node_mountstats_nfs_operations_queue_time_seconds_total of these nodes",
            )


def _clocks(apart: Mapping[str, float], logs_apart: Mapping[str, float]) -> Iterator[Limit]:
    for what, off in (("metrics", apart), ("log", logs_apart)):
        if off:
            said = _names([f"{node} by {seconds:+.0f} s" for node, seconds in sorted(off.items())])
            yield Limit(
                f"whether {len(off)} nodes are stragglers, and when they began and ended",
                f"the clock of their {what} is steadily off that of the others ({said})",
                "set the clocks by NTP; their bytes and rates still count",
            )


def _log(events: Sequence[Mapping[str, Any]], log: Mapping[str, Any]) -> Iterator[Limit]:
    if not log["lines"] and events:
        yield Limit(
            "when training programs themselves began and ended a save",
            "no log line tells of one",
            "ingest the training logs with --logs",
        )
    for kind, count in log["unseen"].items():
        if count:
            yield Limit(
                f"what {count} more {kind}s did that the log tells of",
                "no metric shows them: too small, not on the shared storage, or not scraped",
                "lower the thresholds in [checkpoints] if they should count",
            )


def _below(below: Mapping[str, int]) -> Iterator[Limit]:
    for kind, count in sorted(below.items()):
        yield Limit(
            f"whether {count} smaller stretches were {kind}s",
            "their nodes together stayed below the threshold",
            "lower the thresholds in [checkpoints] if they should count",
        )
