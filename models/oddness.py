"""How odd each metric of each window is, as a probability of its own.

For every column two questions: how far is the value from this node's own past, and (its peer column) how far is the
node from its peers at that moment. Each answer becomes -log10 of the share of quiet windows that are as far or further
(`Tails`), and the smaller of the two counts: a whole fleet that changes together is not odd, nor is a node that always
differs. A column that rarely moves (rare events: errors, replays, retries) is judged by its node's own rate of events,
drawn towards the fleet's, so that a node that always chatters has to chatter more. A metric's oddness is the largest
over its columns, calibrated once more on days that its columns' tails were not learned from: how often something new
happens to a metric in quiet time can only be seen there.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.layout import Layout
from models.scorers import Place, halves
from models.tails import Tails

Singles = NDArray[np.float32]
Mask = NDArray[np.bool_]
Codes = NDArray[np.int64]

_TRUST = 200.0  # rows of a node after which its own past weighs as much as the fleet's
_OVERLAP = 4.0  # windows of 20 minutes every 5 minutes: four rows tell as much as one
_RARE = 0.5  # a column whose commonest value holds at least this share of the rows moves rarely


def medians(values: NDArray[Any]) -> NDArray[np.float64]:
    """Medians down the rows [C], NaN left out; NaN for a column of nothing else."""
    ordered = np.sort(values, axis=0)
    count = np.count_nonzero(~np.isnan(values), axis=0)
    columns = np.arange(values.shape[1])
    low, high = np.maximum(count - 1, 0) // 2, count // 2
    if not len(values):
        return np.full(values.shape[1], np.nan)
    high = np.minimum(high, len(values) - 1)
    return np.where(count > 0, (ordered[low, columns].astype(np.float64) + ordered[high, columns]) / 2, np.nan)


class Usual:
    """What is usual for each column, on each node (rows) and in the fleet (the last row).

    Attributes
    ----------
    nodes
        Names, sorted.
    centre, scale
        [nodes + 1, C].
    rate
        [nodes + 1, C] share of windows in which a rarely moving column moves; 1 for the others.
    """

    def __init__(self, nodes: list[str], centre: Singles, scale: Singles, rate: Singles) -> None:
        self.nodes, self.centre, self.scale, self.rate = nodes, centre, scale, rate

    @classmethod
    def fit(cls, values: NDArray[Any], node: NDArray[Any]) -> Self:
        """Learn from quiet rows [n, C] and their nodes [n]."""
        nodes = sorted({str(name) for name in node})
        fleet = np.nan_to_num(medians(values))
        moved = np.abs(values - fleet)
        known = np.maximum(np.count_nonzero(~np.isnan(values), axis=0), 1)
        events = np.count_nonzero(moved > 0, axis=0)
        rare = events <= (1 - _RARE) * known
        size = np.nan_to_num(np.nansum(moved, axis=0) / np.maximum(events, 1))
        spread = 1.4826 * np.nan_to_num(medians(moved))
        scale = np.where(rare, np.where(events > 0, size, np.maximum(np.abs(fleet) * 0.1, 1.0)), spread)
        scale = np.where(scale > 0, scale, 1.0)
        share = (events / _OVERLAP + 0.5) / (known / _OVERLAP + 1)
        centres, scales, rates = [], [], []
        for name in nodes:
            own = values[node == name]
            count = np.count_nonzero(~np.isnan(own), axis=0)
            trust = count / (count + _TRUST)
            middle = np.where(rare, fleet, fleet + trust * np.nan_to_num(medians(own) - fleet))
            away = np.abs(own - middle)
            hits = np.count_nonzero(away > 0, axis=0)
            wide = np.where(rare, np.nansum(away, axis=0) / np.maximum(hits, 1), 1.4826 * np.nan_to_num(medians(away)))
            weight = np.where(rare, hits / (hits + 5.0), trust)
            centres.append(middle)
            scales.append(np.maximum(scale + weight * (wide - scale), 0.2 * scale))
            rates.append((hits / _OVERLAP + 10 * share) / (count / _OVERLAP + 10))
        rate = np.where(rare, np.vstack([*rates, share]), 1.0)
        centre, width = np.vstack([*centres, fleet]), np.vstack([*scales, scale])
        return cls(nodes, centre.astype(np.float32), width.astype(np.float32), rate.astype(np.float32))

    def codes(self, node: NDArray[Any]) -> Codes:
        """Row of each node; one that was never seen has the fleet's."""
        names = {name: code for code, name in enumerate(self.nodes)}
        return np.array([names.get(str(name), len(self.nodes)) for name in node], dtype=np.int64)

    def statistic(self, values: NDArray[Any], row: Codes, column: int) -> NDArray[np.float64]:
        """How far values [n] of one column are from usual: spreads, or for a rare event how improbable; NaN stays."""
        away = np.abs(values.astype(np.float64) - self.centre[row, column])
        away /= self.scale[row, column]
        if self.rate[-1, column] >= 1:
            return np.asarray(away, dtype=np.float64)
        improbable = 2 * np.log10(1 + away) - np.log10(self.rate[row, column])
        return np.asarray(np.where(away > 0, improbable, away), dtype=np.float64)

    def to_state(self) -> dict[str, Any]:
        """Plain arrays and names."""
        return {"nodes": self.nodes, "centre": self.centre, "scale": self.scale, "rate": self.rate}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls([str(name) for name in state["nodes"]], state["centre"], state["scale"], state["rate"])


class Columns:
    """The first layer: each column's tail against own past, and against peers."""

    def __init__(self, usual: Usual, tails: Tails) -> None:
        self.usual, self.tails = usual, tails

    @classmethod
    def fit(cls, values: NDArray[Any], node: NDArray[Any], layout: Layout) -> Self:
        """Learn from quiet rows."""
        usual = Usual.fit(values, node)
        row = usual.codes(node)
        fleet = np.full(len(row), len(usual.nodes), dtype=np.int64)
        peers = {peer for metric in layout.metrics for _, peer in metric.pairs}
        parts = [
            Tails.fit(usual.statistic(values[:, c], fleet if c in peers else row, c)[:, None], overlap=_OVERLAP)
            for c in range(values.shape[1])
        ]
        knots, levels, shape = (
            np.concatenate([getattr(p, key) for p in parts]) for key in ("knots", "levels", "shape")
        )
        return cls(usual, Tails(knots, levels, shape))

    def metrics(self, values: NDArray[Any], node: NDArray[Any], layout: Layout) -> tuple[Singles, NDArray[np.int32]]:
        """For each metric [n, M] the largest over its measurements of the smaller surprise, and that column."""
        row = self.usual.codes(node)
        fleet = np.full(len(row), len(self.usual.nodes), dtype=np.int64)

        def odd(column: int, rows: Codes) -> tuple[NDArray[np.float64], Mask]:
            found = values[:, column]
            return self.tails.one(self.usual.statistic(found, rows, column), column), np.isnan(found)

        out = np.zeros((len(values), len(layout.metrics)), dtype=np.float32)
        which = np.zeros((len(values), len(layout.metrics)), dtype=np.int32)
        for number, metric in enumerate(layout.metrics):
            which[:, number] = max(metric.pairs[0])
            for own, peer in metric.pairs:
                if own < 0:
                    found = odd(peer, fleet)[0]
                else:
                    found, _ = odd(own, row)
                    if peer >= 0:
                        against, unknown = odd(peer, fleet)
                        found = np.where(unknown, found, np.minimum(found, against))
                larger = found > out[:, number]
                which[larger, number] = own if own >= 0 else peer
                out[larger, number] = found[larger]
        return out, which

    def to_state(self) -> dict[str, Any]:
        """Plain arrays and names."""
        return {"usual": self.usual.to_state(), "tails": self.tails.to_state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(Usual.from_state(state["usual"]), Tails.from_state(state["tails"]))


class Oddness:
    """Both layers: calibrated surprise of each metric."""

    def __init__(self, columns: Columns, tails: Tails) -> None:
        self.columns, self.tails = columns, tails

    @classmethod
    def fit(cls, values: NDArray[Any], where: Place, quiet: Mask, layout: Layout) -> tuple[Self, Singles]:
        """Learn from the quiet rows; also the metrics' surprises of all rows, each by columns that never saw its day.

        A model that learns from windows must learn from these: the fit's own rows look less odd than new ones.
        """
        second = halves(where)
        raw = np.zeros((len(values), len(layout.metrics)), dtype=np.float32)
        for half in (False, True):
            learn, tell = quiet & (second == half), second != half
            if not learn.any():
                learn = quiet
            if tell.any():
                columns = Columns.fit(values[learn], where.node[learn], layout)
                raw[tell] = columns.metrics(values[tell], where.node[tell], layout)[0]
        tails = Tails.fit(raw[quiet], overlap=_OVERLAP)
        return cls(Columns.fit(values[quiet], where.node[quiet], layout), tails), tails.surprise(raw)

    def metrics(self, values: NDArray[Any], where: Place, layout: Layout) -> tuple[Singles, NDArray[np.int32]]:
        """Calibrated surprises [n, M] and the column each comes from."""
        raw, which = self.columns.metrics(values, where.node, layout)
        return self.tails.surprise(raw), which

    def to_state(self) -> dict[str, Any]:
        """Plain arrays and names."""
        return {"columns": self.columns.to_state(), "tails": self.tails.to_state()}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(Columns.from_state(state["columns"]), Tails.from_state(state["tails"]))
