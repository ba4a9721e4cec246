"""Samples to cells: the last sample of each cell, whatever the order in which samples come."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from features.tables import Panel, Series

DAY_NS = 86_400_000_000_000
Times = NDArray[np.int64]
Values = NDArray[np.float64]


def last_of_cells(times: Times, values: Values, step_ns: int) -> tuple[Times, Values, int]:
    """The last sample of every cell, in time order, and how many samples contradicted another of their time.

    Of two values at one time the larger stays: of two replicas' counters the smaller would look like a reset.
    """
    conflicts = 0
    if len(times) > 1:
        gaps = np.diff(times)
        if not (gaps > 0).all():
            order = np.lexsort((values, times))
            times, values = times[order], values[order]
            conflicts = int(((np.diff(times) == 0) & (np.diff(values) != 0)).sum())
        cells = times // step_ns
        last = np.empty(len(cells), dtype=bool)
        last[-1] = True
        np.not_equal(cells[1:], cells[:-1], out=last[:-1])
        if not last.all():
            times, values = times[last], values[last]
    return times, values, conflicts


def by_day(times: Times) -> list[tuple[int, int, int]]:
    """Runs of ascending times that share a UTC day: (day since 1970, from, to)."""
    first, last = int(times[0]) // DAY_NS, int(times[-1]) // DAY_NS
    if first == last:
        return [(first, 0, len(times))]
    days = times // DAY_NS
    starts = np.concatenate(([0], np.flatnonzero(np.diff(days)) + 1, [len(times)]))
    return [(int(days[low]), int(low), int(high)) for low, high in pairwise(starts)]


class Cells:
    """Cells of one node over ``[start, end)``, filled in any order with the same result.

    A sample replaces a cell's when it is later, or of the same time and larger.

    Attributes
    ----------
    times
        int64 [T], the cells' starts.
    conflicts
        Samples that contradicted another of the same time.
    """

    def __init__(self, start_ns: int, end_ns: int, step_ns: int) -> None:
        self._first = -(-start_ns // step_ns)
        self._step = step_ns
        self.times: Times = np.arange(self._first, -(-end_ns // step_ns), dtype=np.int64) * step_ns
        self.conflicts = 0
        self._rows: dict[Series, tuple[Values, Times]] = {}

    def add(self, series: Series, times: Times, values: Values) -> None:
        """Fill in samples of ascending times, at most one a cell (as `last_of_cells` gives them)."""
        cells = times // self._step - self._first
        if len(cells) and (cells[0] < 0 or cells[-1] >= len(self.times)):
            inside = (cells >= 0) & (cells < len(self.times))
            cells, times, values = cells[inside], times[inside], values[inside]
        if not len(cells):
            return
        row = self._rows.get(series)
        if row is None:
            held, stamps = np.full(len(self.times), np.nan), np.full(len(self.times), -1, dtype=np.int64)
            self._rows[series] = (held, stamps)
            held[cells], stamps[cells] = values, times
            return
        held, stamps = row
        before, old = stamps[cells], held[cells]
        same = before == times
        self.conflicts += int((same & (old != values)).sum())
        better = (times > before) | (same & (values > old))
        held[cells[better]], stamps[cells[better]] = values[better], times[better]

    def put(self, series: Series, values: Values, stamps: Times) -> None:
        """Take over a whole row, as the store holds it; stamps are -1 where there is no sample."""
        self._rows[series] = (values, stamps)

    def names(self) -> list[Series]:
        """All series, sorted."""
        return sorted(self._rows)

    def row(self, series: Series) -> tuple[Values, Times]:
        """A series' values and the times of its samples (-1 where there is none), both [T]."""
        return self._rows[series]

    def gaps(self, least_ns: int) -> list[int]:
        """Lengths [ns] of the breaks of at least ``least_ns`` between the first sample of any series and the last."""
        seen = np.zeros(len(self.times), dtype=bool)
        for _, stamps in self._rows.values():
            seen |= stamps >= 0
        lengths = (np.diff(np.flatnonzero(seen)) - 1) * self._step
        return [int(length) for length in lengths[lengths >= least_ns]]

    def panel(self, node: str) -> Panel:
        """The cells as a panel, series sorted."""
        names = self.names()
        values = np.empty((len(names), len(self.times)))
        for index, series in enumerate(names):
            values[index] = self._rows[series][0]
        return Panel(node, self.times, tuple(names), values)
