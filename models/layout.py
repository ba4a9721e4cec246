"""What the columns of a matrix are to a model: which metric, family and measurement, and whether against peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from features import phase
from features.families import FAMILIES, family, harm
from features.names import split
from features.tables import SchemaError

_STATES = frozenset({"phase", "history"})  # say where a node is, not that it is odd
_KINDS = frozenset({"presence", "logs", "phase", "history"})  # their first step is what another metric's name is


@dataclass(frozen=True)
class Metric:
    """A metric's columns: pairs (own, peer) of one measurement, -1 where one of the two is not there."""

    name: str
    family: int
    pairs: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Layout:
    """The metrics whose oddness counts, and the columns that only describe the node's state."""

    metrics: tuple[Metric, ...]
    states: tuple[int, ...]
    group: int  # column that says what the node's job does, -1 without
    harm: tuple[int, ...]  # of every column, see `features.families.harm`


STEADY, IDLE, CHANGING, PARTLY = range(4)  # what a window is compared with
STATES = 4


def states_of(values: NDArray[Any], layout: Layout) -> NDArray[np.int64]:
    """The state of each row [n]: its GPUs are at rest, at steady work, some of them only, or none of these.

    Steady where nothing is known.
    """
    out = np.full(len(values), STEADY, dtype=np.int64)
    if layout.group >= 0:
        group = np.nan_to_num(values[:, layout.group])
        out[group == phase.IDLE] = IDLE
        out[(group == phase.LOADING) | (group > phase.SAVING)] = CHANGING
        out[group == phase.PARTLY] = PARTLY
    return out


def read(columns: Sequence[str]) -> Layout:
    """Group columns by the grammar of `features.names`; a name outside it is a metric of its own."""
    groups: dict[str, dict[tuple[str, ...], list[int]]] = {}
    states, group, sides = [], -1, []
    for number, name in enumerate(columns):
        metric, steps, calculator = parts(name)
        own = tuple(step for step in steps if step != "peer")
        sides.append(harm(metric, own[-1] if own else "", calculator))
        if family(metric) in _STATES:
            states.append(number)
            if name == phase.GROUP:
                group = number
            continue
        pair = groups.setdefault(metric, {}).setdefault((*own, calculator), [-1, -1])
        pair[int("peer" in steps)] = number
    metrics = tuple(
        Metric(metric, FAMILIES.index(family(metric)), tuple((own, peer) for own, peer in pairs.values()))
        for metric, pairs in groups.items()
    )
    return Layout(metrics, tuple(states), group, tuple(sides))


def parts(name: str) -> tuple[str, tuple[str, ...], str]:
    """Metric (a pseudo-kind with its first step, as ``logs.unknown``), steps and calculator of a column."""
    try:
        metric, steps, calculator = split(name)
    except SchemaError:
        return name, (), "value"
    if metric in _KINDS and steps:
        return f"{metric}.{steps[0]}", steps[1:], calculator
    return metric, steps, calculator
