"""Stretches of single nodes to saves and loads of whole jobs, and the figures of each.

Stretches of one job (of the whole cluster where no sessions are known) that overlap or nearly touch are one event. It
counts when its nodes together reach the cluster's threshold, scaled to as many nodes as take part.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import checkpoint_path
from features.checkpoint_cells import SAVE, per_node
from features.checkpoint_spells import Spell
from features.settings import CheckpointSettings, to_nanoseconds
from features.tables import to_ns, to_time

_APART = 0.5  # of a median length between two nodes' beginnings: two events that ran into each other
_TAIL = 0.9  # an event's tail begins when this share of its nodes is done


@dataclass(frozen=True)
class Part:
    """One node's part of an event: one stretch or several."""

    node: str
    spells: tuple[Spell, ...]

    @property
    def start(self) -> int:
        """Beginning in ns."""
        return self.spells[0].start

    @property
    def end(self) -> int:
        """End in ns, excluded."""
        return max(spell.end for spell in self.spells)

    @property
    def bytes(self) -> float:
        """Bytes moved."""
        return float(sum(np.nansum(spell.moved) for spell in self.spells))

    @property
    def seconds(self) -> float:
        """Time spent in its stretches."""
        return sum(spell.end - spell.start for spell in self.spells) / 1e9

    @property
    def rate(self) -> float:
        """Bytes a second, cells weighted by their bytes: the level held, whatever part of a cell an edge is."""
        squares = sum(float(np.nansum(s.moved**2)) / ((s.end - s.start) / 1e9 / len(s.moved)) for s in self.spells)
        return squares / self.bytes if self.bytes else float("nan")

    def sum(self, name: str) -> float:
        """A measure summed over the stretches; NaN where none tells it."""
        values = np.array([getattr(spell, name) for spell in self.spells], dtype=float)
        return float(np.nansum(values)) if not np.isnan(values).all() else float("nan")

    def mean(self, name: str) -> float:
        """A measure's mean over the bytes; NaN where none tells it."""
        values = np.array([getattr(spell, name) for spell in self.spells], dtype=float)
        weight = np.array([np.nansum(spell.moved) for spell in self.spells])
        known = ~np.isnan(values)
        return float(np.average(values[known], weights=weight[known])) if weight[known].sum() > 0 else float("nan")


@dataclass(frozen=True)
class Event:
    """A save or a load; ``expected`` is how many nodes its job holds, 0 where sessions don't say."""

    kind: str
    job: str
    attempt: int
    expected: int
    parts: tuple[Part, ...]

    @property
    def start(self) -> int:
        """Beginning in ns."""
        return min(part.start for part in self.parts)

    @property
    def end(self) -> int:
        """End in ns, excluded."""
        return max(part.end for part in self.parts)


class Jobs:
    """Which job held a node when."""

    def __init__(self, sessions: pd.DataFrame) -> None:
        self._of: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        self.rows: list[tuple[str, int, int]] = []
        for row in sessions.to_dict("records"):
            # a try without an end holds its nodes on
            end = np.iinfo(np.int64).max if pd.isna(row["ended"]) else to_ns(row["ended"])
            for node in row["nodes"]:
                self._of[node].append((to_ns(row["started"]), end, len(self.rows)))
            self.rows.append((str(row["job"]), int(row["attempt"]), len(row["nodes"])))
        for spans in self._of.values():
            spans.sort()

    def holding(self, spell: Spell) -> int:
        """Index of the session that the stretch lies in for the most part, -1 for none."""
        spans = self._of.get(spell.node, [])
        last = bisect_right(spans, (spell.end,))
        shared = [(min(end, spell.end) - max(start, spell.start), index) for start, end, index in spans[:last]]
        best = max(shared, default=(0, -1))
        return best[1] if best[0] > 0 else -1


def gather(
    spells: Iterable[Spell], sessions: pd.DataFrame, settings: CheckpointSettings
) -> tuple[list[Event], dict[str, int]]:
    """All events in time order, and by kind how many stretches together stayed below the threshold.

    Parameters
    ----------
    sessions
        Frame of `features.tables.SESSIONS`; may be empty.
    """
    jobs = Jobs(sessions)
    join = to_nanoseconds(settings.join)
    groups: dict[tuple[str, int], list[Spell]] = defaultdict(list)
    for spell in spells:
        groups[spell.kind, jobs.holding(spell)].append(spell)
    events: list[Event] = []
    below: dict[str, int] = defaultdict(int)
    for (kind, session), members in sorted(groups.items()):
        job, attempt, expected = jobs.rows[session] if session >= 0 else ("", 0, 0)
        for together in _clusters(members, join):
            by_node: dict[str, list[Spell]] = defaultdict(list)
            for spell in together:
                by_node[spell.node].append(spell)
            parts = tuple(Part(node, tuple(own)) for node, own in sorted(by_node.items()))
            if _reaches(together, per_node(settings, kind)):
                events.append(Event(kind, job, attempt, expected, parts))
            else:
                below[kind] += 1
    return sorted(events, key=lambda event: (event.start, event.kind, event.job)), dict(below)


def _clusters(spells: list[Spell], join: int) -> Iterator[list[Spell]]:
    """Stretches that overlap or lie nearer than ``join`` ns, each in time order."""
    held: list[Spell] = []
    end = 0
    for spell in sorted(spells, key=lambda one: (one.start, one.node)):
        if held and spell.start > end + join:
            yield held
            held = []
        held.append(spell)
        end = max(end, spell.end) if len(held) > 1 else spell.end
    if held:
        yield held


def timeline(spells: Iterable[Spell]) -> dict[tuple[str, int], float]:
    """Bytes of a kind that all nodes move in a cell, by kind and the cell's beginning in ns."""
    out: dict[tuple[str, int], float] = defaultdict(float)
    for spell in spells:
        step = (spell.end - spell.start) // len(spell.moved)
        for k, moved in enumerate(spell.moved.tolist()):
            out[spell.kind, spell.start + k * step] += 0.0 if math.isnan(moved) else moved
    return out


def _reaches(spells: list[Spell], threshold: float) -> bool:
    """Whether in some cell the nodes move the threshold of one node times their number."""
    moved: dict[int, list[float]] = defaultdict(list)
    for spell in spells:
        step = (spell.end - spell.start) // len(spell.moved)
        for k, one in enumerate(spell.moved.tolist()):
            moved[spell.start + k * step].append(one / (step / 1e9))
    return any(np.nansum(cell) >= threshold * len(cell) for cell in moved.values())


def skewed(events: Iterable[Event], step: int, least: int = 5) -> dict[str, float]:
    """Nodes whose beginnings and ends both lie the same way off those of their peers, event by event: seconds.

    A slow node ends late; a node with another clock begins late too, always by as much.
    """
    off: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in events:
        if len(event.parts) < 3:
            continue
        start = int(np.median([part.start for part in event.parts]))
        end = int(np.median([part.end for part in event.parts]))
        for part in event.parts:
            off[part.node].append((part.start - start, part.end - end))
    out = {}
    for node, pairs in off.items():
        both = np.array(pairs)
        middle = np.median(both, axis=0)
        steady = np.median(np.abs(both - middle)) <= step
        if len(pairs) >= least and steady and np.abs(middle).min() >= 2 * step and middle[0] * middle[1] > 0:
            out[node] = float(np.mean(middle) / 1e9)
    return out


def _finite(values: Iterable[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _median(values: Iterable[float]) -> float:
    known = _finite(values)
    return float(np.median(known)) if known else math.nan


def stragglers(event: Event, settings: CheckpointSettings, step: int, apart: Mapping[str, float]) -> list[str]:
    """Nodes that end much later than half of their peers; none where they are too many, or their clock is another."""
    parts = [part for part in event.parts if part.node not in apart]
    if len(parts) < 3:
        return []
    end = float(np.median([part.end for part in parts]))
    length = float(np.median([part.end - part.start for part in parts]))
    late = settings.straggler_share * length
    found = [
        part.node
        for part in parts
        # two nodes' scrapes may lie a cell apart at both edges, and a lost one moves an edge by another
        if part.end - end >= late and part.end - end > (2 + part.sum("lost")) * step
    ]
    return found if len(found) <= max(1.0, settings.straggler_nodes * len(parts)) else []


def _tail(event: Event, apart: Mapping[str, float]) -> float:
    """Share of the event's length after nine nodes in ten are done."""
    ends = sorted(part.end for part in event.parts if part.node not in apart)
    if len(ends) < 3:
        return 0.0
    done = ends[min(int(np.ceil(_TAIL * len(ends))), len(ends) - 1) - 1]
    return max(0.0, (ends[-1] - done) / (event.end - event.start))


def ran_together(event: Event, step: int) -> bool:
    """Whether the nodes began in two bunches far apart: two events that can't be told from one another."""
    starts: NDArray[np.int64] = np.sort([part.start for part in event.parts])
    if len(starts) < 4:
        return False
    length = float(np.median([part.end - part.start for part in event.parts]))
    jump = np.diff(starts)[1:-1]  # at least two nodes on each side
    return bool(len(jump) and jump.max() >= max(3 * step, _APART * length))


def figures(
    event: Event,
    settings: CheckpointSettings,
    step: int,
    moved: Mapping[tuple[str, int], float],
    apart: Mapping[str, float],
) -> dict[str, Any]:
    """All that is measured of one event, as the command's JSON has it.

    Parameters
    ----------
    step
        Length of a cell in ns.
    moved
        From `timeline`: other jobs' bytes press on the storage too.
    apart
        Nodes whose clock is another; their times say nothing.
    """
    parts = event.parts
    gpus = sum(max(spell.gpus for spell in part.spells) or settings.gpus_per_node for part in parts)
    held = gpus * (event.end - event.start) / 3600e9
    use = _median(part.mean("use") for part in parts)
    return {
        "event": f"{event.kind}-{to_time(event.start):%Y%m%dT%H%M%SZ}" + (f"-{event.job}" if event.job else ""),
        "kind": event.kind,
        "start": to_time(event.start),
        "end": to_time(event.end),
        "duration_seconds": (event.end - event.start) / 1e9,
        "job": event.job or None,
        "attempt": event.attempt or None,
        "job_nodes": event.expected or None,
        "nodes": len(parts),
        **_throughput(event, settings, step, moved),
        **_client(parts, settings),
        **checkpoint_path.figures(
            event.kind, [[spell.stages for spell in part.spells] for part in parts], sum(part.bytes for part in parts)
        ),
        "gpu_percent": use,
        "gpu_hours": held,
        "gpu_hours_idle": held * (1 - use / 100),
        "stragglers": stragglers(event, settings, step, apart),
        "tail_share": _tail(event, apart),
        "lost_scrapes": sum(spell.lost for part in parts for spell in part.spells),
        "restarts": sorted(part.node for part in parts if part.sum("restarts") > 0),
        "ran_together": not event.job and ran_together(event, step),
        "by_node": [
            {
                "node": part.node,
                "start": to_time(part.start),
                "end": to_time(part.end),
                "bytes": part.bytes,
                "bytes_per_second": part.rate,
                "slots_in_use": part.mean("in_flight"),
            }
            for part in parts
        ],
    }


def _throughput(
    event: Event, settings: CheckpointSettings, step: int, moved: Mapping[tuple[str, int], float]
) -> dict[str, float]:
    """Bytes a second by cluster and node, and their share of the link and the storage."""
    whole = sum(part.bytes for part in event.parts)
    most = settings.storage_write_bytes_per_second if event.kind == SAVE else settings.storage_read_bytes_per_second
    # nodes are scraped at different moments of a cell, which smears an event's edges: the busiest cell is whole
    pressed = max(moved.get((event.kind, at), 0.0) for at in range(event.start, event.end, step)) / (step / 1e9)
    rate = _median(part.rate for part in event.parts)
    return {
        "bytes": whole,
        "bytes_per_second": whole / ((event.end - event.start) / 1e9),
        "storage_bytes_per_second": pressed,
        "node_bytes_per_second": rate,
        "link_share": rate / (settings.link_bits_per_second / 8 * settings.link_ports),
        "port_share": _median(_port(part, settings) for part in event.parts),
        "storage_share": pressed / most,
    }


def _client(parts: Iterable[Part], settings: CheckpointSettings) -> dict[str, float]:
    """Where an operation's time goes, requests in flight against the slots, and the CPU; medians over the nodes."""
    operations, queue, response, resent = (
        sum(told) if (told := _finite(part.sum(name) for part in parts)) else math.nan
        for name in ("operations", "queue_seconds", "response_seconds", "resent")
    )
    slots = _finite(part.mean("in_flight") for part in parts)
    return {
        "operations": operations,
        "resent": resent,
        "queue_share": queue / (queue + response) if queue + response > 0 else math.nan,
        "queue_milliseconds": 1000 * queue / operations if operations else math.nan,
        "response_milliseconds": 1000 * response / operations if operations else math.nan,
        "client_nodes": len(slots),
        "slots_in_use": _median(slots),
        "slots_in_use_most": max(slots, default=math.nan),
        "slot_table": max(_tables(parts, settings)),
        "backlog": _median(part.mean("backlog") for part in parts),
        "cpu_share": _median(part.mean("cpu") for part in parts),
        "kernel_cpu_share": _median(part.mean("kernel_cpu") for part in parts),
    }


def _tables(parts: Iterable[Part], settings: CheckpointSettings) -> Iterable[float]:
    """Slots that each node's connections have; one that was ever fuller than the setting has a larger table."""
    for part in parts:
        limit = float(settings.slot_table * max(1, *(spell.connections for spell in part.spells)))
        yield max([limit, *_finite([part.mean("slots_seen")])])


def _port(part: Part, settings: CheckpointSettings) -> float:
    """Share of the fullest port, by its own speed where exported."""
    speed = part.mean("link_speed")
    return part.mean("link_rate") / (speed if speed > 0 else settings.link_bits_per_second / 8)
