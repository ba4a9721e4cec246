"""Compiled loops of models that score every row of a wide matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from features.compiling import compiled

Doubles = NDArray[np.float64]
Codes = NDArray[np.int64]

_TOGETHER = 64


@compiled
def largest(values: Doubles, used: Codes, centre: Doubles, scale: Doubles, most: int) -> Doubles:
    """For each row the largest distances from the centre [n, most], in scales, descending; NaN is no distance.

    Parameters
    ----------
    values
        [n, C].
    used
        [K] columns, with their ``centre`` and ``scale`` [K].
    """
    out = np.zeros((len(values), most))
    for row in range(len(values)):
        top = out[row]
        for number in range(len(used)):
            away = abs(values[row, used[number]] - centre[number]) / scale[number]
            if away > top[most - 1]:
                place = most - 1
                while place and top[place - 1] < away:
                    top[place] = top[place - 1]
                    place -= 1
                top[place] = away
    return out


@compiled
def path_lengths(
    values: NDArray[np.float32], roots: Codes, nodes: Codes, threshold: Doubles, path: Doubles, longest: int
) -> Doubles:
    """For each row the sum over trees of the path length of its leaf [n].

    A few rows go down a tree together, as many steps as the longest path has: no step waits for another row's.

    Parameters
    ----------
    values
        [n, C], none of them NaN.
    roots
        Numbers of the trees' first nodes.
    nodes
        [N, 3], left, right and column; a leaf's next nodes are itself.
    threshold, path
        [N]; up to the threshold a row goes left.
    """
    out = np.zeros(len(values))
    at = np.empty(_TOGETHER, dtype=np.int64)
    for low in range(0, len(values), _TOGETHER):
        count = min(_TOGETHER, len(values) - low)
        for root in roots:
            at[:count] = root
            for _ in range(longest):
                for one in range(count):
                    node = at[one]
                    at[one] = nodes[node, 0 if values[low + one, nodes[node, 2]] <= threshold[node] else 1]
            for one in range(count):
                out[low + one] += path[at[one]]
    return out


@compiled
def trailing(
    values: NDArray[Any],
    order: Codes,
    node: Codes,
    end: Codes,
    apart: int,
    counts: NDArray[np.bool_],
    weight: NDArray[Any],
    level: float,
    share: float,
    out: NDArray[Any],
) -> None:
    """Each row's sum of its node's last rows, weighed by how many windows ago they were, and what goes on for long.

    Parameters
    ----------
    values, out
        [n, M]; ``out`` begins with zeros.
    order
        [n], by node and time.
    node, end, apart
        [n] of the rows in that order, time in the unit of ``apart``, which is one window.
    counts
        [n], rows without count as zeros.
    weight
        [L].
    level, share
        Of the mean over all L windows ``share`` of what is beyond ``level`` is added.
    """
    long = len(weight)
    mean = np.zeros(values.shape[1], dtype=values.dtype)
    for place in range(len(order)):
        into = out[order[place]]
        mean[:] = 0
        for back in range(min(long, place + 1)):
            if node[place - back] != node[place]:
                break
            ago = (end[place] - end[place - back]) // apart
            if ago >= long:
                break
            if counts[order[place - back]]:
                part, factor = values[order[place - back]], weight[ago]
                for column in range(len(into)):
                    into[column] += part[column] * factor
                    mean[column] += part[column]
        for column in range(len(into)):
            into[column] += max(mean[column] / long - level, 0.0) * share


def owned(values: NDArray[Any], kind: Any) -> NDArray[Any]:
    """Rows side by side and writable, of one type: loops are compiled anew for each other kind of array."""
    return np.require(values, kind, ["C", "W"])
