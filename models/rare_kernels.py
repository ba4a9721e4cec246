"""Compiled loops of `oddness` for a column that seldom moves: how often it does, how far, and from where.

What a column rests at may differ by state of work: clocks stand at one value while a GPU is idle and at another while
it computes. In a state in which the column is never at rest nothing is rare, and only the distance counts.
"""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled
from models.ordering import ascending, commonest, median, spread
from models.tail_kernels import PRIOR_ROWS, PRIOR_SHAPE

Singles = NDArray[np.float32]
Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

OVERLAP = 4.0  # what is odd lasts: of windows every 5 minutes four rows tell as much as one
RARE = 0.5  # a column whose commonest value holds at least this share of the rows moves rarely
LEAST = 100  # rows of a state with fewer are judged by all states'
_EVENTS = 5.0  # moves of a rare column after which a node's own size of them weighs as much as the fleet's
_PRIOR_WINDOWS = 10.0  # of the fleet's rate of moves beside a node's own
_CHATTER = 3.0  # a node that moves so many times as often as the middle one is no measure for the others
_LEAST_MOVE = 0.15  # the inverse exponent of a rare column's moves, however alike they are
_OFTEN = 0.9  # rate of moves at most, and in a state in which it is never at rest


@compiled
def _median(some: Doubles, count: int) -> float:
    """Of the first ``count`` values, which are put in another order (quickselect, Hoare 1961)."""
    if count == 0:
        return np.nan
    wanted = count // 2
    low, high = 0, count - 1
    while low < high:
        pivot = some[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while some[left] < pivot:
                left += 1
            while some[right] > pivot:
                right -= 1
            if left <= right:
                some[left], some[right] = some[right], some[left]
                left += 1
                right -= 1
        if wanted <= right:
            high = right
        elif wanted >= left:
            low = left
        else:
            break
    if count % 2:
        return float(some[wanted])
    return float(0.5 * (some[wanted] + some[:wanted].max()))


@compiled
def learn_rare(
    column: Singles,
    edges: Codes,
    state: Codes,
    middle: float,
    own: bool,
    tables: tuple[Any, Any, Any, Any, Any, Any],
    at: int,
    room: tuple[Any, Any, Any, Any, Any, Any],
) -> None:
    """Fill the tables of `usual_kernels.learn` for a column that seldom moves.

    What a node is drawn towards is the middle one of the nodes, and what peers are measured with: one that chatters
    is no measure for the others.

    Parameters
    ----------
    middle
        The value that most rows hold.
    room
        As of `usual_kernels`.
    """
    centre, scale, rate = tables[0], tables[1], tables[2]
    nodes, states = centre.shape[0] - 1, centre.shape[1]
    rests, restless = np.full(states, middle), np.zeros(states)
    _rest(column, state, rests, restless, room)
    shares, sizes, often = np.empty(nodes), np.empty(nodes), np.empty(nodes)
    met, moved = 0, 0
    for node in range(nodes):
        known, hits, mean = _moves(column, state, edges[node], edges[node + 1], rests, restless)
        if known:
            shares[met], often[met] = _share(hits, known), hits
            met += 1
        if hits:
            sizes[moved] = mean
            moved += 1
    known, hits, mean = _moves(column, state, 0, len(column), rests, restless)
    usual = _share(hits, known)
    share = min(usual, _median(shares, met)) if met else usual
    size = _median(sizes, moved) if moved else log(max(abs(middle) * 0.1, 1.0))
    scale[:, :, at], rate[:, :, at] = exp(size), share
    for which in range(states):
        centre[:, which, at] = rests[which]
    for node in range(nodes if own else 0):
        known, hits, mean = _moves(column, state, edges[node], edges[node + 1], rests, restless)
        weight = hits / (hits + _EVENTS)
        scale[node, :, at] = exp(max(size + weight * (mean - size), size + log(0.2)))
        rate[node, :, at] = (hits / OVERLAP + _PRIOR_WINDOWS * share) / (known / OVERLAP + _PRIOR_WINDOWS)
    most = _CHATTER * (_median(often, met) if met else 0.0) + OVERLAP
    _learn_states(column, edges, state, rests, restless, usual, most, tables, at)


@compiled
def _rest(
    column: Singles, state: Codes, rests: Doubles, restless: Doubles, room: tuple[Any, Any, Any, Any, Any, Any]
) -> None:
    """Where the column rests in each state that holds enough rows; where it never does, its median and spread there.

    Parameters
    ----------
    rests
        [S], begun with the value that most rows of all states hold.
    restless
        [S], begun with zeros; the spread of a state in which no value is held by most rows.
    """
    held = room[3]
    for which in range(len(rests)):
        count = 0
        for row in range(len(column)):
            if state[row] == which and not np.isnan(column[row]):
                held[count] = column[row]
                count += 1
        if count < LEAST:
            continue
        value, times, _ = commonest(held[:count])
        if times >= RARE * count:
            rests[which] = value
            continue
        ascending(held[:count], room[0], room[1])
        ordered = np.empty(count, dtype=np.float32)
        for place in range(count):
            ordered[place] = held[room[0][place]]
        rests[which] = median(ordered)
        restless[which] = spread(ordered, rests[which])


@compiled
def _moves(
    column: Singles, state: Codes, low: int, high: int, rests: Doubles, restless: Doubles
) -> tuple[int, int, float]:
    """Known values, values away from where the column rests, and the mean logarithm of by how much."""
    known, hits, grown = 0, 0, 0.0
    for row in range(low, high):
        if np.isnan(column[row]) or restless[state[row]] > 0:
            continue
        known += 1
        if column[row] != rests[state[row]]:
            hits += 1
            grown += log(abs(column[row] - rests[state[row]]))
    return known, hits, grown / max(hits, 1)


@compiled
def _share(hits: int, known: int) -> float:
    return float((hits / OVERLAP + 0.5) / (known / OVERLAP + 1))


@compiled
def _learn_states(
    column: Singles,
    edges: Codes,
    state: Codes,
    rests: Doubles,
    restless: Doubles,
    usual: float,
    most: float,
    tables: tuple[Any, Any, Any, Any, Any, Any],
    at: int,
) -> None:
    """How much oftener a rare column moves in a state, and how heavy the tail of its moves is (Hill 1975).

    A node with more than ``most`` moves chatters and is left out of the tail.
    """
    scale, rate, shape = tables[1], tables[2], tables[5]
    nodes, states = scale.shape[0] - 1, scale.shape[1]
    known, hits = np.zeros(states), np.zeros(states)
    grown, count = 0.0, 0.0
    for node in range(nodes):
        beyond, moves = 0.0, 0.0
        for row in range(edges[node], edges[node + 1]):
            now = state[row]
            if np.isnan(column[row]) or restless[now] > 0:
                continue
            known[now] += 1
            if column[row] != rests[now]:
                hits[now] += 1
                beyond += max(log((1 + abs(column[row] - rests[now]) / scale[node, now, at]) / 2), 0.0)
                moves += 1
        if moves <= most:
            grown += beyond
            count += moves
    for which in range(states):
        often = (hits[which] / OVERLAP + _PRIOR_WINDOWS * usual) / (known[which] / OVERLAP + _PRIOR_WINDOWS)
        for node in range(nodes + 1):
            rate[node, which, at] = min(rate[node, which, at] * often / usual, _OFTEN)
            if restless[which] > 0:
                rate[node, which, at] = _OFTEN
                scale[node, which, at] = restless[which]
    found = (grown / OVERLAP + PRIOR_SHAPE * PRIOR_ROWS) / (count / OVERLAP + PRIOR_ROWS)
    shape[:, at] = max(found, _LEAST_MOVE)
