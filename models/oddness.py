"""How odd each metric of each window is, as a probability of its own.

For every column two questions: how far is the value from this node's own past in the same state (working, idle, in
between), and (its peer column) how far is the node from its peers at that moment. Each answer becomes -log10 of the
share of quiet windows in that state that are as far or further, and the smaller of the two counts: a whole fleet that
changes together is not odd, nor is a node that always differs. A column that rarely moves (rare events: errors,
replays, retries) is judged by its node's own rate of events, drawn towards the fleet's, so that a node that always
chatters has to chatter more. A metric's oddness is the largest over its columns, calibrated once more on days that its
columns' tails were not learned from: how often something new happens to a metric in quiet time can only be seen there.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from features.families import FAMILIES, role
from models import usual_kernels as kernels
from models.layout import IDLE, STATES, Layout, Metric
from models.parallel import in_parts
from models.tail_kernels import KNOTS

Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]

_TABLES = ("centre", "scale", "rate", "knots", "levels", "shape")
_MOST_ROWS = 40_000  # quiet rows that tails are learned from; more only cost time
_COLUMNS_AT_ONCE = 64
_METRICS_AT_ONCE = 4
_ROWS_AT_ONCE = 512  # what is read by rows and written by columns stays near


class Columns:
    """What is usual of each column, and how far from it quiet windows are.

    Attributes
    ----------
    nodes
        Names, sorted; the fleet has the tables' last row.
    tables
        See `usual_kernels.learn`.
    """

    def __init__(self, nodes: list[str], tables: dict[str, NDArray[Any]]) -> None:
        self.nodes, self.tables = nodes, tables

    @classmethod
    def fit(cls, values: NDArray[Any], node: NDArray[Any], state: Codes, layout: Layout) -> Self:
        """Learn from quiet rows [n, C]."""
        nodes = sorted({str(name) for name in node})
        made = cls(nodes, _blank(len(nodes) + 1, values.shape[1]))
        codes = made.codes(node)
        order = np.argsort(codes, kind="stable")[:: max(1, -(-len(codes) // _MOST_ROWS))]
        edges = np.searchsorted(codes[order], np.arange(len(nodes) + 1)).astype(np.int64)
        own = ~_peers(values.shape[1], layout)
        inside, tables, side = np.ascontiguousarray(state[order]), made._tuple(), np.array(layout.harm, dtype=np.int8)

        def some(low: int, high: int) -> None:
            part = np.empty((high - low, len(order)), dtype=np.float32)
            for row in range(0, len(order), _ROWS_AT_ONCE):
                part[:, row : row + _ROWS_AT_ONCE] = values[order[row : row + _ROWS_AT_ONCE], low:high].T
            _unfold(part, ~own[low:high])
            kernels.learn(part, edges, inside, own[low:high], side[low:high], tables, low)

        in_parts(values.shape[1], some, _COLUMNS_AT_ONCE)
        return made

    def codes(self, node: NDArray[Any]) -> Codes:
        """Row of each node; one that was never seen has the fleet's."""
        names = {name: code for code, name in enumerate(self.nodes)}
        found = {name: names.get(str(name), len(self.nodes)) for name in set(node.tolist())}
        return np.array([found[name] for name in node.tolist()], dtype=np.int64)

    def metrics(
        self, values: NDArray[Any], node: NDArray[Any], state: Codes, layout: Layout
    ) -> tuple[Singles, NDArray[np.int32]]:
        """For each metric [n, M] the largest over its measurements of the smaller surprise, and that column."""
        count = len(layout.metrics)
        out = np.zeros((count, len(values)), dtype=np.float32)
        which = np.zeros((count, len(values)), dtype=np.int32)
        peers = _peers(values.shape[1], layout)
        turned = np.empty((values.shape[1], len(values)), dtype=np.float32)
        codes, tables, side = self.codes(node), self._tuple(), np.array(layout.harm, dtype=np.int8)
        for number, metric in enumerate(layout.metrics):
            which[number] = max(metric.pairs[0])

        def turn(low: int, high: int) -> None:
            for row in range(0, len(values), _ROWS_AT_ONCE):
                turned[low:high, row : row + _ROWS_AT_ONCE] = values[row : row + _ROWS_AT_ONCE, low:high].T
            _unfold(turned[low:high], peers[low:high])

        def some(low: int, high: int) -> None:
            pairs = [(m, *pair) for m in range(low, high) for pair in layout.metrics[m].pairs]
            kernels.tell(turned, codes, state, np.array(pairs, dtype=np.int64), side, tables, out, which)

        in_parts(len(turned), turn, _COLUMNS_AT_ONCE)
        in_parts(count, some, _METRICS_AT_ONCE)
        for number, metric in enumerate(layout.metrics):
            if _is_surprise(metric.name):
                which[number] = metric.pairs[0][0]
                out[number] = np.expm1(np.nan_to_num(turned[metric.pairs[0][0]]))
        asleep = np.flatnonzero([_sleeps(metric) for metric in layout.metrics])
        out[np.ix_(asleep, np.flatnonzero(state == IDLE))] = 0.0
        return out.T, which.T

    def _tuple(self) -> tuple[Any, Any, Any, Any, Any, Any]:
        return tuple(self.tables[name] for name in _TABLES)  # type: ignore[return-value]  # six of them

    def to_state(self) -> dict[str, Any]:
        """Plain arrays and names."""
        return {"nodes": self.nodes, **self.tables}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        tables = {name: np.array(state[name], order="C") for name in _TABLES}  # of its own: kernels take no read-only
        return cls([str(name) for name in state["nodes"]], tables)


def _sleeps(metric: Metric) -> bool:
    """Whether a metric tells of an idle GPU only how deep it sleeps: clocks, watts and use that are no fault."""
    return FAMILIES[metric.family] in {"clocks", "power", "utilisation"} and role(metric.name) != "fault"


def _is_surprise(metric: str) -> bool:
    """Whether a metric is a surprise already: log1p of -log10 of what a node's own rate of a line makes of it."""
    return metric == "logs.burst_max" or metric.startswith("logs.device_")


def _blank(rows: int, columns: int) -> dict[str, NDArray[Any]]:
    single = np.float32
    return {
        "centre": np.zeros((rows, STATES, columns), dtype=single),
        "scale": np.ones((rows, STATES, columns), dtype=single),
        "rate": np.ones((rows, STATES, columns), dtype=single),
        "knots": np.zeros((STATES, columns, KNOTS)),
        "levels": np.zeros((STATES, columns, KNOTS)),
        "shape": np.full((STATES, columns), 0.5),
    }


def _peers(count: int, layout: Layout) -> Mask:
    """Which of the columns [C] hold a node's distance from its peers."""
    out = np.zeros(count, dtype=bool)
    out[[peer for metric in layout.metrics for _, peer in metric.pairs if peer >= 0]] = True
    return out


def _unfold(columns: Singles, peers: Mask) -> None:
    """Undo the logarithm of peer columns in place: a tail falls as a power of the distance, not of its logarithm."""
    for row in np.flatnonzero(peers):
        columns[row] = np.sign(columns[row]) * np.expm1(np.minimum(np.abs(columns[row]), 60.0))
