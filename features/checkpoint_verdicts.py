"""What bound a save or a load: each limit held against what was measured, and said with the numbers.

A limit binds when it is full: the link, the storage, the RPC slots with most of an operation's time spent waiting for
one, the server when its replies take much longer than in quiet times and waiting for a slot is not what takes the time,
the CPU, or a few late nodes. Where several are full the first in this order is the verdict and the others stand beside
it. Where none is, or what would tell is not exported, the verdict is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from features import checkpoint_path
from features.checkpoint_cells import OPERATION, SAVE
from features.settings import CheckpointSettings

NETWORK, SLOTS, SERVER = "network-bound", "rpc-slot-bound", "server-bound"
CPU, STRAGGLERS, UNKNOWN = "client-cpu-bound", "straggler-bound", "unknown"
VERDICTS = (NETWORK, SLOTS, SERVER, CPU, STRAGGLERS, UNKNOWN)
_MANY_RESENT = 0.001  # of an event's operations; TCP seldom makes the client send one again
_MOST_OF_IT = 0.5  # a tail longer than the rest of the event is what bound it, whatever else was full


class Verdict(NamedTuple):
    """What bound an event, the numbers that say so, and which other limits were full."""

    verdict: str
    evidence: list[str]
    also: list[str]


def judge(event: Mapping[str, Any], settings: CheckpointSettings, quiet_milliseconds: float) -> Verdict:
    """The verdict on one event.

    Parameters
    ----------
    event
        Figures of `features.checkpoint_events.figures`.
    quiet_milliseconds
        Response time of the same operation outside all events; NaN unknown.
    """
    found = dict(_full(event, settings, quiet_milliseconds))
    if STRAGGLERS in found and event["tail_share"] >= _MOST_OF_IT:
        found = {STRAGGLERS: found[STRAGGLERS], **found}
    beside = [*_resent(event), *checkpoint_path.evidence(event, settings)]
    if not found:
        return Verdict(UNKNOWN, [*_nothing_full(event), *beside], [])
    first, *others = found
    evidence = [found[first]]
    ratio = event["response_milliseconds"] / quiet_milliseconds if quiet_milliseconds > 0 else math.nan
    if first == SLOTS and ratio >= settings.slow_ratio:
        evidence.append(
            f"a reply takes {ratio:.0f} times as long as in quiet times ({event['response_milliseconds']:.1f} against "
            f"{quiet_milliseconds:.1f} ms): part of the wait is beyond the client, so more slots may give less than "
            "their share"
        )
    return Verdict(first, [*evidence, *(found[name] for name in others), *beside], others)


def _resent(event: Mapping[str, Any]) -> Iterator[str]:
    """Requests that were sent again, where they are more than a few: replies were lost, or later than the timeout."""
    if event["resent"] >= _MANY_RESENT * event["operations"]:
        yield f"{event['resent']:.0f} requests were sent again, {event['resent'] / event['operations']:.1%} of all"


def _full(event: Mapping[str, Any], settings: CheckpointSettings, quiet: float) -> Iterator[tuple[str, str]]:
    """The limits that are full, each with its numbers."""
    full = settings.full_share
    operation = OPERATION[event["kind"]]
    link, port = event["link_share"], event["port_share"]
    if link >= full or port >= full:
        share = link if link >= full else port
        what = "bytes to the storage take" if link >= full else "the fullest port is at"
        yield NETWORK, f"{what} {share:.0%} of a node's link (full from {full:.0%})"
    slots = event["slots_in_use"] / event["slot_table"]
    waits = event["queue_share"] >= settings.queue_share
    storage = event["storage_share"]
    if storage >= full:
        rate = event["storage_bytes_per_second"] / 1e9
        direction = "takes" if event["kind"] == SAVE else "gives"
        yield SERVER, f"the storage {direction} {rate:.1f} GB/s, {storage:.0%} of its most (full from {full:.0%})"
    if slots >= full and waits:
        said = (
            f"{event['slots_in_use']:.0f} of {event['slot_table']:.0f} RPC slots in use and {event['queue_share']:.1%} "
            f"of a {operation}'s time spent before it is sent ({event['queue_milliseconds']:.1f} of "
            f"{event['queue_milliseconds'] + event['response_milliseconds']:.1f} ms), at {_or(link)} of the link and "
            f"{_or(storage)} of the storage"
        )
        few = event["client_nodes"] < event["nodes"]
        yield SLOTS, said + (f", as {event['client_nodes']} of {event['nodes']} nodes tell" if few else "")
    slow = event["response_milliseconds"] / quiet if quiet > 0 else math.nan
    if slow >= settings.slow_ratio and not waits and not slots >= full and storage < full:
        said = (
            f"a {operation}'s reply takes {event['response_milliseconds']:.1f} ms, {slow:.1f} times the quiet "
            f"{quiet:.1f} ms, with {event['slots_in_use']:.0f} of {event['slot_table']:.0f} slots in use"
        )
        yield SERVER, said
    if event["cpu_share"] >= settings.cpu_share:
        kernel = _or(event["kernel_cpu_share"])
        yield CPU, f"{event['cpu_share']:.0%} of a node's CPU time is in use, {kernel} in the kernel"
    if event["stragglers"] and event["tail_share"] >= settings.straggler_share:
        late = event["stragglers"]
        names = ", ".join(late[:5]) + (" ..." if len(late) > 5 else "")
        of_all = f"{len(late)} of {event['nodes']} nodes ({names})"
        yield STRAGGLERS, f"{event['tail_share']:.0%} of the time is spent waiting for {of_all}"


def _or(value: float) -> str:
    return f"{value:.1%}" if math.isfinite(value) else "an unknown share"


def _nothing_full(event: Mapping[str, Any]) -> Iterator[str]:
    """Why nothing can be named: how near each limit was, and which can't be told."""
    shares = {
        "link": max((v for v in (event["link_share"], event["port_share"]) if math.isfinite(v)), default=math.nan),
        "storage": event["storage_share"],
        "RPC slots": event["slots_in_use"] / event["slot_table"],
        "CPU": event["cpu_share"],
    }
    near = ", ".join(f"{name} {share:.0%}" for name, share in shares.items() if math.isfinite(share))
    yield f"no limit was reached: {near}" if near else "no limit can be told"
    if math.isfinite(event["queue_share"]):
        yield f"{event['queue_share']:.0%} of an operation's time is spent before it is sent"
    untold = [name for name, share in shares.items() if not math.isfinite(share)]
    if untold:
        yield f"not exported: {', '.join(untold)}"
