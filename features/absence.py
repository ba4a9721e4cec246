"""GPUs that vanish without an XID, told from a dead exporter, a dead node, a swap and a change of coverage."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.tables import EVENTS, Panel, conform, to_time

# A GPU gone for five minutes while its siblings are scraped is no lost scrape; nearer to the end of the data nobody
# can tell yet. A job that looks every five minutes so knows within ten, which still counts as "at".
LEAST_NS = 300_000_000_000
_OTHERS = 0.9  # of those five minutes its siblings are there
LEAD_NS = 120_000_000_000  # exporters on their way down lose their GPUs one after another within seconds
MOST_LOSSES = 3  # a GPU that comes and goes more often is exported only while it is allocated
VANISHED = "the GPU's series ended while its siblings were still exported"
NOT_BACK = "the GPU did not come back with its siblings"


class Sight(NamedTuple):
    """Which GPUs of a node had a sample, by cell.

    Attributes
    ----------
    times
        int64 [T], starts of the cells, ascending; days without any data may be left out.
    gpus
        G UUIDs.
    seen
        bool [G, T].
    answered
        bool [T]: the exporter of GPUs said that it is up (for nodes with one GPU).
    """

    times: NDArray[np.int64]
    gpus: tuple[str, ...]
    seen: NDArray[np.bool_]
    answered: NDArray[np.bool_]


def sight(panel: Panel) -> Sight:
    """What of a raw panel was there."""
    gpus = tuple(sorted({series.gpu for series in panel.series if series.gpu}))
    row = {gpu: index for index, gpu in enumerate(gpus)}
    of_gpu, present = np.array([row.get(series.gpu, -1) for series in panel.series]), ~np.isnan(panel.values)
    seen = np.zeros((len(gpus), len(panel.times)), dtype=bool)
    for index in range(len(gpus)):
        seen[index] = present[of_gpu == index].any(axis=0)
    answered = np.zeros(len(panel.times), dtype=bool)
    for series, values in zip(panel.series, panel.values, strict=True):
        if (
            not series.gpu
            and series.metric.startswith("up")
            and any(word in series.metric for word in ("dcgm", "gpu", "nvidia"))
        ):
            answered |= values == 1
    return Sight(panel.times, gpus, seen, answered)


def join(pieces: list[Sight]) -> Sight:
    """One sight of pieces that follow one another."""
    gpus = tuple(sorted({gpu for piece in pieces for gpu in piece.gpus}))
    row = {gpu: index for index, gpu in enumerate(gpus)}
    times = np.concatenate([piece.times for piece in pieces]) if pieces else np.empty(0, dtype=np.int64)
    seen = np.zeros((len(gpus), len(times)), dtype=bool)
    at = 0
    for piece in pieces:
        for index, gpu in enumerate(piece.gpus):
            seen[row[gpu], at : at + len(piece.times)] = piece.seen[index]
        at += len(piece.times)
    answered = np.concatenate([piece.answered for piece in pieces]) if pieces else np.empty(0, dtype=bool)
    return Sight(times, gpus, seen, answered)


def lost_gpus(sight: Sight, node: str, gpus: pd.DataFrame) -> pd.DataFrame:
    """Events for GPUs that vanished: gone for `LEAST_NS` or longer while the node's exporter went on.

    Parameters
    ----------
    sight
        The whole history of the node.
    gpus
        Frame of `GPUS`, for the PCI addresses and to know a swapped GPU.

    Returns
    -------
    DataFrame
        Frame of `EVENTS` without XID, of origin "absence"; time is the start of the first cell without the GPU, and
        last the end of the cell in which its siblings were seen without it: it went somewhere before that.
    """
    mine = gpus[gpus["node"] == node]
    where = dict(zip(mine["gpu"], mine["pci"], strict=True))
    found: list[tuple[int, int, int, bool, str]] = []  # start, seen without it, GPU, whether it came back, why
    for index in range(len(sight.gpus)):
        others = np.any(np.delete(sight.seen, index, axis=0), axis=0) if len(sight.gpus) > 1 else sight.answered
        losses = _losses(sight.times, sight.seen[index], np.asarray(others))
        if len(losses) <= MOST_LOSSES:
            found += [(start, without, index, back, why) for start, without, back, why in losses]
    rows = []
    for start, without, index, back, why in found:
        together = sum(other == start and returned for other, _, _, returned, _ in found)
        swapped = _swapped(sight, index, start, where)
        if (back and together > 1) or swapped:
            continue  # several that leave and return together are a change of what is exported
        time, last = to_time(int(sight.times[start])), to_time(_end(sight.times, without))
        rows.append(
            {
                "node": node, "gpu": sight.gpus[index], "pci": where.get(sight.gpus[index], ""), "time": time,
                "last": last, "origin": "absence", "detail": why, "count": 1, "kind": "hardware", "xid": pd.NA,
            }
        )  # fmt: skip
    return conform(pd.DataFrame(rows), EVENTS) if rows else EVENTS.empty()


def _losses(
    times: NDArray[np.int64], seen: NDArray[np.bool_], others: NDArray[np.bool_]
) -> list[tuple[int, int, bool, str]]:
    """Cells where the GPU was lost and where its siblings were first seen without it, whether it returned, and how."""
    edges = np.append(np.flatnonzero(seen), len(times))
    gaps = np.flatnonzero(np.diff(edges) > 1)  # of a week's cells few are missing
    out = []
    for left, right in zip(edges[gaps].tolist(), edges[gaps + 1].tolist(), strict=True):
        if _span(times, left + 1, right) < LEAST_NS:
            continue
        alone = np.flatnonzero(others[left + 1 : right]) + left + 1  # the exporter spoke and this GPU was not there
        first = _sure(times, others, alone, right)
        if first < 0:
            continue
        while (earlier := alone[(alone < first) & (times[alone] >= times[first] - LEAST_NS // 2)]).size:
            first = int(earlier[0])  # a scrape that failed in between took nothing back
        # Gone for minutes before its siblings went down with the node, and not back with them: it went first
        before = int((alone < first).sum())
        led = before > 0 and times[alone[before - 1]] - times[alone[0]] >= LEAD_NS
        start = int(alone[0]) if led else first
        at_once = times[start] - times[left] <= LEAST_NS // 2
        begin, why = (left + 1, VANISHED) if at_once else (start, NOT_BACK)
        out.append((int(begin), start, right < len(times), why))
    return out


def _sure(times: NDArray[np.int64], others: NDArray[np.bool_], alone: NDArray[np.int64], right: int) -> int:
    """The first cell from which the GPU was missed for `LEAST_NS`, -1 when there is none.

    The minutes from there on must show its siblings: an exporter that dies drags them all out, so what
    counts then is whether the GPU comes back with them.
    """
    begins = alone[np.flatnonzero(np.diff(alone, prepend=-2) > 1)]
    for begin in begins.tolist():
        after = int(np.searchsorted(times, times[begin] + LEAST_NS))
        if _span(times, begin, right) >= LEAST_NS and others[begin:after].mean() >= _OTHERS:
            return int(begin)
    return -1


def _span(times: NDArray[np.int64], start: int, stop: int) -> int:
    return _end(times, stop - 1) - int(times[start]) if stop == len(times) else int(times[stop]) - int(times[start])


def _end(times: NDArray[np.int64], place: int) -> int:
    """End of a cell."""
    return int(times[place]) + (int(times[1] - times[0]) if len(times) > 1 else 0)


def _swapped(sight: Sight, index: int, start: int, where: dict[str, str]) -> bool:
    """Whether another GPU took its place: first seen at that address, or unknown where, within the loss's minutes."""
    end = int(np.searchsorted(sight.times, sight.times[start] + LEAST_NS))
    for other, gpu in enumerate(sight.gpus):
        first = int(sight.seen[other].argmax()) if sight.seen[other].any() else -1
        if other != index and start <= first < end:
            here, there = where.get(sight.gpus[index], ""), where.get(gpu, "")
            if here == there or not here or not there:
                return True
    return False
