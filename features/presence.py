"""What is missing: a GPU, an exporter, a node, some metrics; and values that stand still.

A scrape or two is lost at random every hour, so absence is judged by runs: something is gone when it was there (in
20 minutes or the longer window, in the ``staleness`` before, or by the list of known GPUs) and is absent from all of
the tail. Five kinds of absence are told apart: one GPU gone, its exporter down, the node down, some metrics gone from
one GPU only, some metrics gone altogether (an exporter's upgrade).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import meaning, names
from features.compiling import compiled
from features.panel import step_of
from features.settings import FeatureSettings, to_nanoseconds
from features.tables import Panel
from features.windows import as_ns, look

# With 2 % of scrapes lost at random, four in a row happen to a GPU once in 6 million cells; two minutes is also
# longer than an exporter's restart at the usual 30 s.
_TAIL_NS = 120_000_000_000
_LEAST_TAIL = 3
_LEAST_FROZEN = (5, 10)  # series and samples of each: fewer may well be constant
_REPLACED_NS = 600_000_000_000  # a GPU first seen this much later may stand in for one that is gone
_NEVER = np.iinfo(np.int64).max  # first seen: not on the list
_BY_PROMETHEUS = re.compile(r"up(\{|$)|scrape_")  # written by the server, there even when the node is not
_GPU_UP = re.compile(r'up\{.*job="[^"]*(dcgm|nvidia|gpu)', re.IGNORECASE)

WHAT = (
    "gpu_missing",  # GPUs gone while their exporter answers
    "exporter_down",  # 1: the GPUs' exporter or the node's is gone and the other is not
    "node_down",  # 1: nothing comes from the node
    "frozen",  # 1: every GPU value stands still while the node's move
    "silent_seconds",  # from the last sample of any kind to the window's end
    "gpu_gap_seconds",  # longest run without a sample of some GPU
    "node_gap_seconds",  # longest run without a sample of the node itself
    "gpu_metrics_lost_ratio",  # of a GPU's metrics: gone from it, still there on a sibling; the worst GPU
    "metrics_lost_ratio",  # of the node's metrics: gone altogether
    "metrics_new_ratio",  # of the node's metrics: not there before the tail
)
COLUMNS = tuple(names.column("presence", what) for what in WHAT)
LOST_GPUS = names.column("presence", "gpu_missing")


class Roster(NamedTuple):
    """The GPUs of one node that anyone has ever seen: UUIDs, PCI addresses, times of the first sample [ns].

    A node that only logs and never had a metric sends none: nothing of it can be missing.
    """

    gpus: tuple[str, ...] = ()
    pci: tuple[str, ...] = ()
    first: tuple[int, ...] = ()
    sends: bool = True


class _Span(NamedTuple):
    """Cells of one window: what it may look back to, its own first, the tail's first, and the one past its last."""

    context: int
    start: int
    tail: int
    stop: int


class _Sight(NamedTuple):
    """What of a panel had samples, by cell."""

    has: NDArray[np.bool_]  # [S, T]
    own: NDArray[np.bool_]  # [T], a series of the node itself
    gpu: NDArray[np.bool_]  # [G, T]
    gpu_of: NDArray[np.int64]  # [S], row in gpu; -1 the node's own, -2 Prometheus' own
    gpu_up: NDArray[np.float64]  # [T], what "up" says of the GPUs' exporter; NaN unknown
    metric_of: NDArray[np.int64]  # [S]


def roster(gpus: pd.DataFrame, node: str, *, sends: bool = True) -> Roster:
    """The node's rows of `GPUS`; only when each was first seen is used, as the last time lies in the future.

    Parameters
    ----------
    sends
        Whether metrics of the node are known; one with a GPU has them in any case.
    """
    mine = gpus[gpus["node"] == node].sort_values("gpu")
    first = as_ns(mine["first"]) if len(mine) else np.empty(0, dtype=np.int64)
    return Roster(tuple(mine["gpu"]), tuple(mine["pci"]), tuple(first.tolist()), sends or len(mine) > 0)


def columns(raw: Panel, ends_ns: NDArray[np.int64], settings: FeatureSettings, known: Roster) -> NDArray[np.float32]:
    """`COLUMNS` of one node, float32 [W, len(COLUMNS)].

    Parameters
    ----------
    raw
        Values as exported, from `features.windows.reach` before the first end on.
    """
    if not known.sends:
        return np.zeros((len(ends_ns), len(WHAT)), dtype=np.float32)
    step = step_of(raw.times)
    ids = sorted({series.gpu for series in raw.series if series.gpu} | set(known.gpus))
    sight = _look(raw, ids)
    listed = [known.gpus.index(gpu) if gpu in known.gpus else -1 for gpu in ids]
    first = np.array([known.first[at] if at >= 0 else _NEVER for at in listed], dtype=np.int64)
    pci = [known.pci[at] if at >= 0 else "" for at in listed]
    length, before = look(settings), to_nanoseconds(settings.panel.staleness)
    tail_ns = max(_TAIL_NS, _LEAST_TAIL * step)
    out = np.zeros((len(ends_ns), len(WHAT)), dtype=np.float32)
    for row, end in enumerate(ends_ns.tolist()):
        edges = [end - length - before, end - length, end - tail_ns, end]
        span = _Span(*np.searchsorted(raw.times, edges).tolist())
        met = first < end - tail_ns
        out[row] = (
            *_gone(sight, span, met, first, pci),
            _frozen(raw.values, sight.gpu_of, span.start, span.stop)
            if sight.gpu[:, span.tail : span.stop].any()
            else 0.0,
            *_gaps(sight, span, met & ~_replaced(*_lost(sight, span, met), first, pci), step),
            *_metrics(sight, span),
        )
    return out


class _Named(NamedTuple):
    """What metrics' names say, each [S]."""

    by_prometheus: NDArray[np.bool_]
    gpu_up: NDArray[np.bool_]
    metric_of: NDArray[np.int64]  # -1: the target's


@lru_cache(maxsize=64)
def _read(metrics: tuple[str, ...]) -> _Named:
    """Of a node's metrics, in order; most nodes have the same ones."""
    metric_of = pd.factorize(np.array(metrics, dtype=object))[0].astype(np.int64)
    # the target's series come and go with the failure: an exporter may give each code a series of its own
    metric_of[[at for at, metric in enumerate(metrics) if meaning.is_target(metric)]] = -1
    own = np.array([bool(_BY_PROMETHEUS.match(metric)) for metric in metrics], dtype=bool)
    return _Named(own, np.array([bool(_GPU_UP.match(metric)) for metric in metrics], dtype=bool), metric_of)


def _look(raw: Panel, ids: list[str]) -> _Sight:
    """Who had samples when."""
    has = ~np.isnan(raw.values)
    position = {gpu: row for row, gpu in enumerate(ids)}
    named = _read(tuple(series.metric for series in raw.series))
    gpu_of = np.array([position.get(series.gpu, -1) for series in raw.series], dtype=np.int64)
    gpu_of[(gpu_of < 0) & named.by_prometheus] = -2
    gpu = np.zeros((len(ids), len(raw.times)), dtype=bool)
    for row in range(len(ids)):
        gpu[row] = has[gpu_of == row].any(axis=0)
    says = np.flatnonzero(named.gpu_up)
    gpu_up = np.fmin.reduce(raw.values[says], axis=0) if len(says) else np.full(len(raw.times), np.nan)
    return _Sight(has, has[gpu_of == -1].any(axis=0), gpu, gpu_of, gpu_up, named.metric_of)


def _gone(
    sight: _Sight, span: _Span, met: NDArray[np.bool_], first: NDArray[np.int64], pci: list[str]
) -> tuple[float, float, float]:
    """``gpu_missing``, ``exporter_down``, ``node_down``."""
    lost, there = _lost(sight, span, met)
    own = bool(sight.own[span.tail : span.stop].any())
    if not own and not there.any():
        return 0.0, 0.0, 1.0
    if there.any():
        unexplained = int((lost & ~_replaced(lost, there, first, pci)).sum())
        own_exporter_gone = bool(sight.own[span.context : span.tail].any()) and not own
        return float(unexplained), float(own_exporter_gone), 0.0
    answers = sight.gpu_up[span.tail : span.stop]
    known = answers[~np.isnan(answers)]
    if len(known) and known[-1] > 0:  # the exporter answers and has no GPU left to tell of
        return float(lost.sum()), 0.0, 0.0
    return 0.0, float(lost.any()), 0.0


def _lost(sight: _Sight, span: _Span, met: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which GPUs were known or seen and are not there at the window's end, and which are there [G]."""
    there: NDArray[np.bool_] = np.asarray(sight.gpu[:, span.tail : span.stop].any(axis=1))
    before: NDArray[np.bool_] = np.asarray(sight.gpu[:, span.context : span.tail].any(axis=1))
    return (met | before) & ~there, there


def _replaced(
    lost: NDArray[np.bool_], there: NDArray[np.bool_], first: NDArray[np.int64], pci: list[str]
) -> NDArray[np.bool_]:
    """Which of the lost GPUs [G] another has taken the place of: at its PCI address, or come in later."""
    free = [row for row in np.flatnonzero(there) if first[row] != _NEVER]
    found = np.zeros(len(lost), dtype=bool)
    for row in np.flatnonzero(lost & (first != _NEVER)):
        for other in free:
            same_place = pci[row] == pci[other] if pci[row] and pci[other] else True
            if same_place and first[other] > first[row] + _REPLACED_NS:
                free.remove(other)
                found[row] = True
                break
    return found


@compiled
def _frozen(values: NDArray[np.float64], gpu_of: NDArray[np.int64], start: int, stop: int) -> float:
    """1 when all the GPUs' values stand still in the cells ``[start, stop)`` while some of the node's own move."""
    still_rows, node_moves = 0, False
    for row in range(values.shape[0]):
        of_gpu = gpu_of[row] >= 0
        if gpu_of[row] < -1 or (node_moves and not of_gpu):
            continue
        samples, moves, first = 0, False, np.nan
        for cell in range(start, stop):
            value = values[row, cell]
            if not np.isnan(value):
                samples += 1
                first = value if samples == 1 else first
                moves |= value != first
        if samples < _LEAST_FROZEN[1]:
            continue
        if of_gpu and moves:
            return 0.0
        still_rows += of_gpu
        node_moves |= moves
    return 1.0 if still_rows >= _LEAST_FROZEN[0] and node_moves else 0.0


def _gaps(sight: _Sight, span: _Span, met: NDArray[np.bool_], step: int) -> tuple[float, float, float]:
    """``silent_seconds``, ``gpu_gap_seconds``, ``node_gap_seconds``; runs too short to mean anything count as 0."""
    second = step / 1e9
    own = sight.own[span.start : span.stop]
    any_gpu = sight.gpu[:, span.start : span.stop]
    both = own | any_gpu.any(axis=0)
    silent = len(both) - 1 - int(np.flatnonzero(both)[-1]) if both.any() else len(both)
    expected = met | sight.gpu[:, span.context : span.stop].any(axis=1)
    gpu_gap = max((_longest(~row) for row in any_gpu[expected]), default=0)
    own_gap = _longest(~own) if sight.own[span.context : span.stop].any() or not any_gpu.any() else 0
    return tuple(run * second if run >= _LEAST_TAIL else 0.0 for run in (silent, gpu_gap, own_gap))  # type: ignore[return-value]  # three in, three out


def _longest(flags: NDArray[np.bool_]) -> int:
    """Length of the longest run of True."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags.astype(np.int8), [0]))))
    return int((edges[1::2] - edges[::2]).max()) if len(edges) else 0


def _metrics(sight: _Sight, span: _Span) -> tuple[float, float, float]:
    """``gpu_metrics_lost_ratio``, ``metrics_lost_ratio``, ``metrics_new_ratio``."""
    counted = sight.metric_of >= 0
    # one sample may be a chance; a series is taken for there when it gave two
    before = counted & (sight.has[:, span.context : span.tail].sum(axis=1) > 1)
    now = counted & sight.has[:, span.tail : span.stop].any(axis=1)
    ever = counted & sight.has[:, span.context : span.tail].any(axis=1)
    size = int(sight.metric_of.max(initial=-1)) + 1
    had = np.bincount(sight.metric_of[before], minlength=size) > 0
    has = np.bincount(sight.metric_of[now], minlength=size) > 0
    knew = np.bincount(sight.metric_of[ever], minlength=size) > 0
    there = sight.gpu[:, span.tail : span.stop].any(axis=1)
    alive = np.append(there, [sight.own[span.tail : span.stop].any()] * 2)[sight.gpu_of]
    lost_here = before & ~now & alive & (sight.gpu_of >= 0)
    lost_here[counted] &= has[sight.metric_of[counted]]
    worst = 0.0
    if lost_here.any():
        gpus = len(sight.gpu)
        lost = np.bincount(sight.gpu_of[lost_here], minlength=gpus)
        owned = np.bincount(sight.gpu_of[before & (sight.gpu_of >= 0)], minlength=gpus)
        worst = float((lost / np.maximum(owned, 1)).max())
    if not now.any():  # a dead node or exporter is told elsewhere
        return worst, 0.0, 0.0
    some_alive = np.bincount(sight.metric_of[before & alive], minlength=size) > 0
    lost_everywhere = had & ~has & some_alive
    new = has & ~knew if had.any() else np.zeros(size, dtype=bool)
    return worst, float(lost_everywhere.sum() / max(1, had.sum())), float(new.sum() / max(1, has.sum()))


def lost_gpu(raw: Panel, end_ns: int, settings: FeatureSettings, known: Roster) -> str:
    """The GPU that is gone, or else was longest away, in the window that ends at ``end_ns``; "" when none was."""
    ids = sorted({series.gpu for series in raw.series if series.gpu} | set(known.gpus))
    sight = _look(raw, ids)
    start, stop = np.searchsorted(raw.times, [end_ns - look(settings), end_ns]).tolist()
    away = [(_longest(~row[start:stop]), not row[stop - 1 : stop].any()) for row in sight.gpu]
    worst = max(range(len(ids)), key=lambda at: (away[at][1], away[at][0]), default=-1)
    return ids[worst] if worst >= 0 and away[worst][0] >= _LEAST_TAIL else ""


def status(X: pd.DataFrame) -> pd.Series:
    """Per row "ok", "stale" (its GPU values can't be trusted) or "down", from the presence columns."""
    down = X[COLUMNS[2]].to_numpy() > 0
    stale = (X[COLUMNS[1]].to_numpy() > 0) | (X[COLUMNS[3]].to_numpy() > 0) | (X[COLUMNS[4]].to_numpy() > 0)
    return pd.Series(np.where(down, "down", np.where(stale, "stale", "ok")), index=X.index, dtype="str")
