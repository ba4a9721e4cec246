"""Who is trained on what: folds that never let a model see what it is judged on.

A fold's test rows are blocks of time on nodes. Training rows are all the others, less those of the same
node nearer to a test row than the embargo, and less every row around the held-out incidents on every node
they touched. Rows that are early, or lie within the embargo of an incident's warning, are tested in that incident's
fold: another fold's model knows the incident, and in its test they would bar a warning that it is to learn from.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.settings import LabelSettings, to_nanoseconds
from features.tables import InputError
from features.windows import as_ns
from models.settings import EvaluationSettings

_DAY = 86_400_000_000_000
_SECOND = 1_000_000_000

Rows = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Fold:
    """Row numbers of the windows table: ``train`` to learn from, ``test`` to be scored.

    ``held_out`` names the failures whose windows are in no way part of ``train``.
    """

    number: int
    name: str
    train: Rows
    test: Rows
    held_out: tuple[str, ...] = ()


Folds = tuple[Fold, ...]


@dataclass(frozen=True)
class _Timeline:
    """Windows as arrays: node code, start and end in ns since 1970, and the code of a node's name."""

    node: NDArray[np.int64]
    start: Rows
    end: Rows
    codes: dict[str, int]


def _timeline(windows: pd.DataFrame) -> _Timeline:
    if windows.empty:
        raise InputError("no windows to judge on: the span of the metrics is shorter than one window")
    codes, names = pd.factorize(windows["node"], sort=True)
    return _Timeline(
        codes.astype(np.int64),
        as_ns(windows["start"]),
        as_ns(windows["end"]),
        {str(name): code for code, name in enumerate(names)},
    )


def _blocks(line: _Timeline, failures: pd.DataFrame, settings: LabelSettings, embargo: int = 0) -> list[Rows]:
    """For each failure the rows that overlap its warning, itself or its repair, on every node it touched.

    With an embargo also the rows from which it would reach a warning, and those that are early.
    """
    length = int(np.max(line.end - line.start))
    before = to_nanoseconds(settings.horizon) + length + embargo
    if embargo:
        before = max(before, to_nanoseconds(settings.early) + length)
    after = max(to_nanoseconds(settings.recovery), embargo)
    order = np.lexsort((line.end, line.node))
    bounds = np.searchsorted(line.node[order], np.arange(len(line.codes) + 1))
    found = []
    for first, last, nodes in zip(as_ns(failures["time"]), as_ns(failures["end"]), failures["nodes"], strict=True):
        parts = [np.empty(0, dtype=np.int64)]
        for node in {line.codes[name] for name in nodes if name in line.codes}:
            rows = order[bounds[node] : bounds[node + 1]]
            parts.append(rows[(line.end[rows] > first - before) & (line.start[rows] < last + after)])
        found.append(np.sort(np.concatenate(parts)))
    return found


def _near(line: _Timeline, test: Rows, embargo: int) -> Mask:
    """Windows of the same node that overlap a test window widened by the embargo on both sides."""
    base = int(line.start.min()) - embargo
    # Whole seconds, rounded towards "too near": nanoseconds times thousands of nodes overflow
    span = -(-(int(line.end.max()) + embargo - base) // _SECOND) + 2
    low = (line.start[test] - embargo - base) // _SECOND + line.node[test] * span
    high = -(-(line.end[test] + embargo - base) // _SECOND) + line.node[test] * span
    order = np.argsort(low, kind="stable")
    low, reach = low[order], np.maximum.accumulate(high[order])
    start = (line.start - base) // _SECOND + line.node * span
    end = -(-(line.end - base) // _SECOND) + line.node * span
    earlier = np.searchsorted(low, end, side="left")
    return np.asarray((earlier > 0) & (reach[np.maximum(earlier, 1) - 1] > start), dtype=bool)


def _fold(line: _Timeline, number: int, name: str, test: Rows, held: list[tuple[str, Rows]], *, embargo: int) -> Fold:
    barred = np.zeros(len(line.node), dtype=bool)
    barred[test] = True
    everything = np.concatenate([test, *(rows for _, rows in held)])
    if len(everything):
        barred |= _near(line, everything, embargo)
    return Fold(number, name, np.flatnonzero(~barred), test, tuple(failure for failure, _ in held))


def _deal(line: _Timeline, free: Mask, folds: int, seed: int) -> NDArray[np.int64]:
    """A fold number for each free row, the same for all rows of a node's day; -1 for the others."""
    day = line.end // _DAY
    day -= day.min()
    key = line.node * (int(day.max()) + 1) + day
    share = np.full(len(key), -1, dtype=np.int64)
    keys, inverse = np.unique(key[free], return_inverse=True)
    deck = np.random.default_rng(seed).permutation(len(keys))
    share[free] = (deck % folds)[inverse]
    return share


def _by_group(
    windows: pd.DataFrame,
    failures: pd.DataFrame,
    groups: list[tuple[str, list[int]]],
    labels: LabelSettings,
    settings: EvaluationSettings,
) -> Folds:
    """One fold for each group of failures; quiet node-days dealt to all folds, at least ``quiet_folds``."""
    line = _timeline(windows)
    blocks = _blocks(line, failures, labels)
    names = [str(name) for name in failures["failure"]]
    count = max(len(groups), settings.quiet_folds)
    owner = np.full(len(windows), -1, dtype=np.int64)
    # A window before two incidents is tested with the nearer one, which is the first to come: written last.
    order = np.argsort(-as_ns(failures["time"]), kind="stable") if len(failures) else np.empty(0, dtype=int)
    fold_of = {member: number for number, (_, members) in enumerate(groups) for member in members}
    embargo = to_nanoseconds(settings.embargo)
    for around in (_blocks(line, failures, labels, embargo), blocks):
        for member in order:
            owner[around[member]] = fold_of[int(member)]
    share = _deal(line, owner < 0, count, seed=0)
    owner = np.where(owner < 0, share, owner)
    padded = groups + [(f"quiet-{number}", []) for number in range(len(groups), count)]
    return tuple(
        _fold(
            line,
            number,
            name,
            np.flatnonzero(owner == number),
            [(names[member], blocks[member]) for member in members],
            embargo=embargo,
        )
        for number, (name, members) in enumerate(padded)
        if bool((owner == number).any())
    )


def leave_one_failure_out(
    windows: pd.DataFrame, failures: pd.DataFrame, labels: LabelSettings, settings: EvaluationSettings
) -> Folds:
    """A fold for each incident; with more than ``most_folds``, neighbours in time share one.

    Every window is tested exactly once. Without failures there are quiet folds only: models that need no
    labels can still be scored, and nothing can be said about failures.

    Raises
    ------
    InputError
        There is no window.
    """
    count = min(len(failures), settings.most_folds)
    shares = np.array_split(np.argsort(as_ns(failures["time"]), kind="stable"), count) if count else []
    groups = [
        (str(failures["failure"].iloc[share[0]]) + (f"+{len(share) - 1}" if len(share) > 1 else ""), share.tolist())
        for share in shares
    ]
    return _by_group(windows, failures, groups, labels, settings)


def leave_one_class_out(
    windows: pd.DataFrame, failures: pd.DataFrame, labels: LabelSettings, settings: EvaluationSettings
) -> Folds:
    """A fold for each XID code: every failure of that code is held out at once ("none" without a code)."""
    codes = ["none" if pd.isna(code) else str(int(code)) for code in failures["xid"]]
    groups = [(f"xid-{code}", [row for row, c in enumerate(codes) if c == code]) for code in sorted(set(codes))]
    return _by_group(windows, failures, groups, labels, settings)


def leave_one_node_out(
    windows: pd.DataFrame, failures: pd.DataFrame, labels: LabelSettings, settings: EvaluationSettings
) -> Folds:
    """A fold for each node (nodes share folds above ``most_folds``), with all its incidents wherever they spread."""
    line = _timeline(windows)
    blocks = _blocks(line, failures, labels)
    count = min(len(line.codes), settings.most_folds)
    if count < 2:
        raise InputError("leave one node out needs two nodes or more; the store holds one")
    owner = line.node % count
    embargo = to_nanoseconds(settings.embargo)
    folds = []
    for number in range(count):
        own = {name for name, code in line.codes.items() if code % count == number}
        held = [
            (str(failure), block)
            for failure, nodes, block in zip(failures["failure"], failures["nodes"], blocks, strict=True)
            if own & set(nodes)
        ]
        name = "+".join(sorted(own)[:3])
        folds.append(_fold(line, number, name, np.flatnonzero(owner == number), held, embargo=embargo))
    return tuple(folds)


def chronological(
    windows: pd.DataFrame, failures: pd.DataFrame, labels: LabelSettings, settings: EvaluationSettings
) -> Folds:
    """Train on the past only. The first share of time is never tested; the rest in ``quiet_folds`` steps.

    The first share is as long as a step, or longer until two failures lie in it. A step's training ends a horizon
    (or the embargo, if longer) before it begins: a label nearer than that would know a failure of the step.

    Raises
    ------
    InputError
        There is too little time, or too little after the second failure.
    """
    line = _timeline(windows)
    margin = max(to_nanoseconds(settings.embargo), to_nanoseconds(labels.horizon) + to_nanoseconds(labels.gap))
    margin += int(np.max(line.end - line.start))
    times, moments = as_ns(failures["time"]), np.unique(line.end)
    first = int(moments[len(moments) // (settings.quiet_folds + 1)])  # of watched time: a hole in it is no step
    known = np.sort(times[times > int(moments[0])])
    if len(known) > 1:
        first = max(first, int(known[1]) + margin)
    later = moments[moments >= first]
    if not len(later):
        raise InputError("the second failure is at the end of the data: nothing later to judge on")
    begins = np.linspace(0, len(later), settings.quiet_folds, endpoint=False).astype(np.int64)
    cuts = np.append(later[begins], later[-1] + 1)
    folds = []
    for number in range(settings.quiet_folds):
        low, high = cuts[number], cuts[number + 1]
        test = np.flatnonzero((line.end >= low) & (line.end < high))
        train = np.flatnonzero(line.end <= low - margin)
        held = tuple(str(f) for f, t in zip(failures["failure"], times, strict=True) if t >= low - margin)
        if len(test) and len(train):
            folds.append(Fold(number, f"step-{number}", train, test, held))
    if not folds:
        raise InputError("too little time to train on the past only; export a longer span")
    return tuple(folds)


def sample_quiet(fold: Fold, label: NDArray[np.float32], most: int, seed: int = 0) -> tuple[Fold, NDArray[np.float64]]:
    """The fold with its quiet training rows thinned to about ``most``, and a weight for each kept row.

    Runs of twelve rows are kept or dropped together (rows of a node over time stand together in the
    windows table), so that what needs neighbours in time still finds them. Rows of unknown label are dropped.
    """
    known = fold.train[~np.isnan(label[fold.train])]
    quiet = known[label[known] == 0]
    if len(quiet) <= most:
        return replace(fold, train=known), np.ones(len(known))
    runs = quiet // 12
    keys = np.unique(runs)
    kept = np.random.default_rng([seed, fold.number]).permutation(keys)[: max(1, round(len(keys) * most / len(quiet)))]
    chosen = quiet[np.isin(runs, kept)]
    rows = np.sort(np.concatenate([chosen, known[label[known] > 0]]))
    weights = np.where(label[rows] == 0, len(quiet) / len(chosen), 1.0)
    return replace(fold, train=rows), weights
