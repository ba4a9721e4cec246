"""What the figures of saves and loads say, as sentences and tables; every number comes from the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from features.checkpoint_cells import KINDS, OPERATION

Told = Mapping[str, Any]
_GIGA = 1e9


def sentences(result: Told) -> Iterator[str]:
    """What a person wants to hear first."""
    for kind in KINDS:
        told = result["summary"][f"{kind}s"]
        if not told["events"]:
            yield f"No {kind} was found."
            yield from _since_mount(kind, result["since_mount"][kind])
            continue
        yield from _of_kind(kind, told)
        yield f"{kind.capitalize()}s and size: {result['knee'][kind]['sentence']}"
        yield f"{kind.capitalize()}s over time: {result['trend'][kind]['sentence']}"
    yield result["before_failures"]["sentence"]


def _since_mount(kind: str, told: Told) -> Iterator[str]:
    """What the counters say of all the time since the mounts, where no event says more."""
    if told["nodes"]:
        queue, reply = told["queue_milliseconds"], told["response_milliseconds"]
        whole = queue + reply
        share = f", {queue / whole:.1%} of it before it was sent" if whole > 0 else ""
        yield (
            f"Since the mounts of {told['nodes']} node{'' if told['nodes'] == 1 else 's'}: {told['requests']:,.0f} "
            f"{OPERATION[kind]}s of {whole:.2f} ms (mean){share}."
        )


def _of_kind(kind: str, told: Told) -> Iterator[str]:
    spread, many = told["spread"], told["events"]
    name = kind if many == 1 else f"{kind}s"
    yield (
        f"{many} {name} by {_nodes(spread['nodes'])}: {told['gpu_hours']:,.0f} GPU-hours "
        f"({told['gpu_hours_idle']:,.0f} of them idle), median {spread['duration_seconds']['median']:.0f} s and "
        f"{spread['bytes_per_second']['median'] / _GIGA:.1f} GB/s."
    )
    link, storage = _range(spread["link_share"], "{:.1%}"), spread["storage_share"]
    yield (
        f"A node's {kind}s use {link} of its link; the storage runs at {storage['median']:.1%} of its most (median), "
        f"and at {storage['most']:.1%} in the busiest scrape of all."
    )
    if spread["queue_share"]["median"] is not None:
        yield (
            f"{spread['queue_share']['median']:.1%} of an operation's time in a {kind} is spent before it is sent, "
            f"with {spread['slots_in_use']['median']:.0f} RPC slots in use (medians)."
        )
    held = spread["gpu_memory_share"]["median"]
    if held is not None:
        yield f"A {kind} writes {held:.0%} of what GPU memory holds (median)."
    filled = spread["gpu_memory_filled_bytes"]["median"]
    if kind != "save" and filled is not None:
        read = spread["bytes"]["median"]
        yield f"GPU memory gains {filled / _GIGA:,.0f} GB in a {kind}, which reads {read / _GIGA:,.0f} GB (medians)."
    for verdict, share in sorted(told["verdicts"].items(), key=lambda item: -item[1]["events"]):
        low, high = share["interval"]
        is_ = "is" if share["events"] == 1 else "are"
        yield f"{share['events']} of {many} {name} {is_} {verdict} ({low:.0%} to {high:.0%})."


def _nodes(spread: Told) -> str:
    said = _range(spread, "{:.0f}")
    return f"{said} node" if said == "1" else f"{said} nodes"


def _range(spread: Told, form: str) -> str:
    low, high = (form.format(spread[edge]) for edge in ("least", "most"))
    return low if low == high else f"{low} to {high}"


def tables(result: Told, last: int = 20) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """The tables for a terminal: the last events, then by size and week."""
    events = result["events"]
    shown = events[-last:]
    yield f"The last {len(shown)} of {len(events)} events; --json has all", rows_of_events(shown)
    for kind in KINDS:
        yield from tables_of(result, kind)


def tables_of(result: Told, kind: str) -> Iterator[tuple[str, list[dict[str, object]]]]:
    """By size and by week."""
    yield f"{kind.capitalize()}s by number of nodes", rows_of_scaling(result, kind)
    yield f"{kind.capitalize()}s by week", rows_of_weeks(result, kind)


def longest(result: Told, kind: str, most: int = 12) -> tuple[str, list[dict[str, object]]]:
    """The longest events with the evidence on them."""
    own = [event for event in result["events"] if event["kind"] == kind]
    slowest = sorted(own, key=lambda event: -event["duration_seconds"])[:most]
    reasons = [{"evidence": "; ".join(event["evidence"])} for event in slowest]
    rows = [row | why for row, why in zip(rows_of_events(slowest), reasons, strict=True)]
    return f"Longest {kind}s" + (f" ({most} of {len(own)})" if len(own) > most else ""), rows


def rows_of_scaling(result: Told, kind: str) -> list[dict[str, object]]:
    """The scaling table."""
    return [
        {
            "nodes": _sizes(row),
            "events": row["events"],
            "GB/s a node": row["node_bytes_per_second"] / _GIGA,
            "of the smallest": f"{row['of_smallest']:.0%}",
            "p": row["p"],
            "GB/s in all": row["bytes_per_second"] / _GIGA,
            "in the queue": _share(row["queue_share"]),
            "slots": _known(row["slots_in_use"]),
            "reply (ms)": _known(row["response_milliseconds"]),
        }
        for row in result["scaling"][kind]
    ]


def _sizes(row: Told) -> str:
    low, high = row["nodes_least"], row["nodes_most"]
    return str(low) if low == high else f"{low}-{high}"


def rows_of_weeks(result: Told, kind: str) -> list[dict[str, object]]:
    """The weeks."""
    return [
        {
            "week": f"{row['week']:%Y-%m-%d}",
            "events": row["events"],
            "seconds": row["duration_seconds"],
            "GB/s a node": row["node_bytes_per_second"] / _GIGA,
            "in the queue": _share(row["queue_share"]),
            "slots": _known(row["slots_in_use"]),
            "stragglers": row["stragglers"],
        }
        for row in result["weeks"][kind]
    ]


def rows_of_events(events: Sequence[Told]) -> list[dict[str, object]]:
    """Events."""
    return [
        {
            "event": event["event"],
            "seconds": event["duration_seconds"],
            "nodes": event["nodes"],
            "GB": event["bytes"] / _GIGA,
            "GB/s": event["bytes_per_second"] / _GIGA,
            "link": _share(event["link_share"]),
            "in the queue": _share(event["queue_share"]),
            "slots": _known(event["slots_in_use"]),
            "verdict": event["verdict"],
        }
        for event in events
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"
