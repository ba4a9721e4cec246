"""Compiled loops of `oddness`: what is usual of a column, the tail of how far quiet windows are from it, and how odd
windows are.

A column's values lie together, [C, n]. Everything is told by node (rows of the tables, the fleet in the last) and by
the state the windows are in (see `layout.states_of`).
"""

from __future__ import annotations

from math import log10
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled
from models.ordering import ascending, commonest, deal, median, spread
from models.rare_kernels import LEAST, OVERLAP, RARE, learn_rare
from models.tail_kernels import MOST, surprise, tail

Singles = NDArray[np.float32]
Codes = NDArray[np.int64]

_TRUST = 200.0  # rows of a node after which its own past weighs as much as the fleet's


@compiled
def learn(
    values: Singles,
    edges: Codes,
    state: Codes,
    own: NDArray[np.bool_],
    side: NDArray[np.int8],
    tables: tuple[Any, Any, Any, Any, Any, Any],
    first: int,
) -> None:
    """Fill the tables for these columns.

    Parameters
    ----------
    values
        [c, m] quiet rows, those of a node side by side.
    edges
        [N + 1], node k's rows are edges[k] to edges[k + 1].
    state
        [m].
    own
        [c], whether a column is judged by the node's own past (else by the fleet's).
    side
        [c], 1 where only what is above the usual is odd, -1 where only what is below, else 0; of columns that move
        often.
    tables
        centre, scale, rate [N + 1, S, C], knots, levels [S, C, KNOTS], shape [S, C]; a rate below 1 is that of a
        column that seldom moves, whose tail is ``rate ((1 + away) / 2) ** (-1 / shape)`` without knots: ``rate`` for
        a move of the usual size or less.
    first
        Number of the first column in the tables.
    """
    nodes, states = tables[0].shape[0] - 1, tables[0].shape[1]
    room = _room(values.shape[1], nodes, states)
    code = state.copy()  # of node and state
    for node in range(nodes):
        code[edges[node] : edges[node + 1]] += node * states
    for number in range(values.shape[0]):
        column, at = values[number], first + number
        middle, times, count = commonest(column)
        if count == 0:
            continue
        if 2 * times <= count or times < RARE * count:
            ascending(column, room[0], room[1])
            ordered = room[3][:count]
            for place in range(count):
                ordered[place] = column[room[0][place]]
            middle, times = median(ordered), 0
            for place in range(count):
                times += ordered[place] == middle
        if times >= RARE * count:
            learn_rare(column, edges, state, middle, own[number], tables, at, room)
        else:
            _learn_usual(column, count, state, code, own[number], middle, tables, at, room)
            _learn_tails(column, edges, state, own[number], side[number], tables, at, room)


@compiled
def _room(count: int, nodes: int, states: int) -> tuple[Any, Any, Any, Any, Any, Any]:
    """Arrays that a column's values are put in order in: two of words, distances, values, bounds of groups,
    and what is usual in each state.
    """
    return (
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.uint64),
        np.empty(count, dtype=np.float32),
        np.empty(count, dtype=np.float32),
        np.empty(nodes * states + 1, dtype=np.int64),
        np.empty((states, 2)),
    )


@compiled
def _learn_usual(
    column: Singles,
    count: int,
    state: Codes,
    code: Codes,
    own: bool,
    middle: float,
    tables: tuple[Any, Any, Any, Any, Any, Any],
    at: int,
    room: tuple[Any, Any, Any, Any, Any, Any],
) -> None:
    """Centre and scale of each state, and of each node in it drawn towards them.

    Parameters
    ----------
    count
        Known values; the first so many of the room's words are their rows, ascending by value, and the first so many
        of its second row of singles the values.
    code
        [m] of node and state.
    middle
        Median of all values.
    """
    centre, scale = tables[0], tables[1]
    nodes, states = centre.shape[0] - 1, centre.shape[1]
    rows, dealt = room[0], room[3]
    wide = spread(dealt[:count], middle)
    bounds = room[4][: states + 1]
    deal(column, rows, count, state, bounds, dealt)
    for which in range(states):
        held = dealt[bounds[which] : bounds[which + 1]]
        usual, unit = middle, wide
        if len(held) >= LEAST:
            usual = median(held)
            unit = spread(held, usual)
            if not unit > 0:
                unit = wide
        for node in range(nodes + 1):
            centre[node, which, at], scale[node, which, at] = usual, unit
        room[5][which, 0], room[5][which, 1] = usual, unit
    if not own:
        return
    bounds = room[4]
    deal(column, rows, count, code, bounds, dealt)
    for node in range(nodes):
        for which in range(states):
            group = node * states + which
            held = dealt[bounds[group] : bounds[group + 1]]
            if len(held) == 0:
                continue
            usual, unit = room[5][which, 0], room[5][which, 1]
            trust = len(held) / (len(held) + _TRUST)
            mine = usual + trust * (median(held) - usual)
            centre[node, which, at] = mine
            scale[node, which, at] = max(unit + trust * (spread(held, mine) - unit), 0.2 * unit)


@compiled
def _learn_tails(
    column: Singles,
    edges: Codes,
    state: Codes,
    own: bool,
    side: int,
    tables: tuple[Any, Any, Any, Any, Any, Any],
    at: int,
    room: tuple[Any, Any, Any, Any, Any, Any],
) -> None:
    """How far quiet rows are from what is usual, in each state that holds enough rows, else in all."""
    centre, scale, _, knots, levels, shape = tables
    nodes, states = centre.shape[0] - 1, centre.shape[1]
    rows, away, dealt, bounds = room[0], room[2], room[3], room[4][: states + 1]
    away[:] = np.nan
    for node in range(nodes):
        by = node if own else nodes
        for row in range(edges[node], edges[node + 1]):
            away[row] = _away(column[row] - centre[by, state[row], at], side) / scale[by, state[row], at]
    count = ascending(away, rows, room[1])
    deal(away, rows, count, state, bounds, dealt)
    for which in range(states):
        if bounds[which + 1] - bounds[which] >= 3 * LEAST:
            found = dealt[bounds[which] : bounds[which + 1]].astype(np.float64)
        else:
            found = np.empty(count)
            for place in range(count):
                found[place] = away[rows[place]]
        shape[which, at] = tail(found, OVERLAP, knots[which, at], levels[which, at])


@compiled
def _away(distance: float, side: int) -> float:
    """How far a value is from what is usual, on the side that counts; NaN stays."""
    return abs(distance) if side == 0 or distance * side > 0 or np.isnan(distance) else 0.0


@compiled
def _told(value: float, by: int, now: int, at: int, side: int, tables: tuple[Any, Any, Any, Any, Any, Any]) -> float:
    """Surprise of one value of a column, judged as row ``by`` of the tables in a state."""
    centre, scale, rate, knots, levels, shape = tables
    away = _away(value - centre[by, now, at], side) / scale[by, now, at]
    often = rate[by, now, at]
    if often < 1:
        return 0.0 if away == 0 else min(log10(max((1 + away) / 2, 1.0)) / shape[now, at] - log10(often), MOST)
    return surprise(away, knots[now, at], levels[now, at], shape[now, at])


@compiled
def tell(
    values: Singles,
    node: Codes,
    state: Codes,
    pairs: Codes,
    side: NDArray[np.int8],
    tables: tuple[Any, Any, Any, Any, Any, Any],
    out: Singles,
    which: NDArray[np.int32],
) -> None:
    """For these metrics the largest over their measurements of the smaller of two surprises.

    Parameters
    ----------
    values
        [C, n], all columns.
    node
        [n] row of the tables; the fleet's for a node that was never seen.
    state
        [n].
    pairs
        [P, 3]: row of ``out``, own column, peer column (-1: none).
    side, tables
        [C] and as of `learn`.
    out, which
        [M, n] surprise, begun with zeros, and column it comes from.
    """
    fleet = tables[0].shape[0] - 1
    for number in range(len(pairs)):
        metric, own, peer = pairs[number]
        for row in range(values.shape[1]):
            now = state[row]
            found = 0.0
            if own >= 0:
                value = values[own, row]
                if np.isnan(value):
                    continue
                found = _told(value, node[row], now, own, side[own], tables)
            if peer >= 0 and (own < 0 or found > out[metric, row]):
                value = values[peer, row]
                if not np.isnan(value):
                    against = _told(value, fleet, now, peer, side[peer], tables)
                    found = against if own < 0 else min(found, against)
            if found > out[metric, row]:
                out[metric, row] = found
                which[metric, row] = own if own >= 0 else peer
