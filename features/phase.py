"""What a node's job is doing: idle, loading, computing, saving, a mixture, or work on some of the GPUs only.

A node is odd only against nodes that do the same work, and a change of work is a state of its own: a job's start
makes all its nodes odd together against their own past. Told per cell from the utilisation of its GPUs and the bytes
it moves to and from shared storage; without utilisation the state is unknown.
"""

from __future__ import annotations

import re
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from features import meaning, names
from features.panel import step_of
from features.settings import FeatureSettings, to_nanoseconds
from features.tables import Panel

UNKNOWN, IDLE, LOADING, COMPUTING, SAVING, MIXED, PARTLY = range(7)
STATES = ("unknown", "idle", "loading", "computing", "saving", "mixed", "partly")

_PERCENT = re.compile(r"DCGM_FI_DEV_GPU_UTIL|nvidia_smi_utilization_gpu|nvidia_gpu_duty_cycle|(?i:gpu_?util\w*)")
_SHARE = re.compile(r"DCGM_FI_PROF_GR_ENGINE_ACTIVE|nvidia_smi_utilization_gpu_ratio")
_WATTS = re.compile(
    r"DCGM_FI_DEV_POWER_USAGE|nvidia_smi_power_draw_(average_|instant_)?watts|nvidia_gpu_power_usage\w*"
)
_STORAGE = r"(?i).*(nfs|lustre|gpfs|beegfs|ceph|weka).*"
_READ = re.compile(_STORAGE + r"read.*bytes.*")
_WRITE = re.compile(_STORAGE + r"writ.*bytes.*")
_IDLE_BELOW, BUSY_FROM = 10.0, 50.0  # percent, mean over the node's GPUs, or of one
# The 504-GPU study (arXiv 2605.09370) tells a load by 2 GB/s of reads with low GPU use and a save by 20 GB/s of
# writes over 63 nodes: 32 and 317 MB/s a node. Writes are seldom spread evenly, so a third of that.
_LOADING_BYTES, SAVING_BYTES = 32e6, 100e6
_NOW_NS = 150_000_000_000  # "now" is the window's last two and a half minutes: five cells outvote a lost one
_CHANGING = 10  # added to the group of a window in which the GPUs took up or laid down work

WHAT = ("now", "group", *(f"{state}_ratio" for state in STATES[1:]), "changes")
COLUMNS = tuple(names.column("phase", what) for what in WHAT)
GROUP = names.column("phase", "group")


def cells(clean: Panel) -> NDArray[np.int8]:
    """The state in each cell, int8 [T], one of the module's codes."""
    seconds = step_of(clean.times) / 1e9
    use = utilisation(clean)
    read = _moved(clean, _READ) / seconds
    written = _moved(clean, _WRITE) / seconds
    busy = use >= BUSY_FROM
    out = np.full(len(clean.times), MIXED, dtype=np.int8)
    out[use < _IDLE_BELOW] = IDLE
    out[busy] = COMPUTING
    most, least = _extremes(clean)
    out[(most >= BUSY_FROM) & (least < _IDLE_BELOW)] = PARTLY
    out[(read >= _LOADING_BYTES) & ~busy] = LOADING
    out[written >= SAVING_BYTES] = SAVING
    out[np.isnan(use)] = UNKNOWN
    return out


def use_of(clean: Panel, gpus: tuple[str, ...]) -> NDArray[np.float64]:
    """Percent of each GPU in each cell, [G, T]; NaN where it is not told."""
    return _by_gpu(clean, gpus, _uses(tuple(series.metric for series in clean.series)))


def watts_of(clean: Panel, gpus: tuple[str, ...]) -> NDArray[np.float64]:
    """Power that each GPU draws in each cell, [G, T]; NaN where it is not told."""
    rows = _of_name(_WATTS, tuple(series.metric for series in clean.series))
    return _by_gpu(clean, gpus, [(row, 1.0) for row in rows])


def _by_gpu(clean: Panel, gpus: tuple[str, ...], rows: list[tuple[int, float]]) -> NDArray[np.float64]:
    """Values of some series, each by its factor, by GPU [G, T]; of several of one GPU the largest."""
    place = {gpu: at for at, gpu in enumerate(gpus)}
    out = np.full((len(gpus), len(clean.times)), np.nan)
    for row, factor in rows:
        if (gpu := clean.series[row].gpu) in place:
            out[place[gpu]] = np.fmax(out[place[gpu]], clean.values[row] * factor)
    return out


def _extremes(clean: Panel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Percent of the busiest and of the idlest GPU in each cell, [T]; NaN where none is known."""
    rows = [clean.values[row] * factor for row, factor in _uses(tuple(series.metric for series in clean.series))]
    if not rows:
        return np.full(len(clean.times), np.nan), np.full(len(clean.times), np.nan)
    return np.fmax.reduce(rows), np.fmin.reduce(rows)


@lru_cache(maxsize=64)
def _uses(metrics: tuple[str, ...]) -> list[tuple[int, float]]:
    """Places of the metric that tells utilisation, percent before shares, and what makes percent of it."""
    for pattern, factor in ((_PERCENT, 1.0), (_SHARE, 100.0)):
        if rows := _of_name(pattern, metrics):
            return [(row, factor) for row in rows]
    return []


def tells_use(metric: str) -> bool:
    """Whether a metric is a GPU's utilisation."""
    name = meaning.name_of(metric)
    return bool(_PERCENT.fullmatch(name) or _SHARE.fullmatch(name))


def utilisation(clean: Panel) -> NDArray[np.float64]:
    """Percent, mean over the GPUs that tell it, [T]; NaN where none does."""
    out = np.full(len(clean.times), np.nan)
    metrics = tuple(series.metric for series in clean.series)
    for pattern, factor in ((_PERCENT, 1.0), (_SHARE, 100.0)):
        total, known = np.zeros(len(out)), np.zeros(len(out), dtype=np.int64)
        for row in _of_name(pattern, metrics):
            values = clean.values[row]
            present = ~np.isnan(values)
            total[present] += values[present] * factor
            known += present
        told = np.isnan(out) & (known > 0)
        out[told] = total[told] / known[told]
    return out


@lru_cache(maxsize=64)
def _of_name(pattern: re.Pattern[str], metrics: tuple[str, ...]) -> list[int]:
    """Places of the metrics whose name matches; nodes have the same ones."""
    return [at for at, metric in enumerate(metrics) if pattern.fullmatch(meaning.name_of(metric))]


def _moved(clean: Panel, pattern: re.Pattern[str]) -> NDArray[np.float64]:
    """Bytes a cell to or from shared storage, [T]: by metric the sum over mounts, of several metrics the largest."""
    by_name: dict[str, NDArray[np.float64]] = {}
    for row in _of_name(pattern, tuple(series.metric for series in clean.series)):
        series = clean.series[row]
        if not series.gpu:
            sums = by_name.setdefault(meaning.name_of(series.metric), np.zeros(len(clean.times)))
            present = ~np.isnan(clean.values[row])
            sums[present] += clean.values[row, present]
    return np.max(list(by_name.values()), axis=0) if by_name else np.zeros(len(clean.times))


def columns(clean: Panel, ends_ns: NDArray[np.int64], settings: FeatureSettings) -> NDArray[np.float32]:
    """`COLUMNS` of one node, float32 [W, len(COLUMNS)].

    ``now`` is the state most of the window's last minutes had, ``group`` says whose peer the window is: the state
    most of it had, plus 10 when the GPUs took up or laid down work in it; ``changes`` counts changes between runs
    of at least two cells.
    """
    state = cells(clean)
    length = to_nanoseconds(settings.window.length)
    out = np.zeros((len(ends_ns), len(WHAT)), dtype=np.float32)
    for row, end in enumerate(ends_ns.tolist()):
        start, late, stop = np.searchsorted(clean.times, [end - length, end - _NOW_NS, end]).tolist()
        known = state[start:stop][state[start:stop] != UNKNOWN]
        if not len(known):
            continue
        count = np.bincount(known, minlength=len(STATES))
        runs = _runs(known)
        idle = [run == IDLE for run in runs]
        changed = any(idle) and not all(idle)
        now = np.bincount(state[late:stop], minlength=len(STATES))[1:]
        out[row] = (
            int(now.argmax()) + 1 if now.any() else UNKNOWN,
            int(count.argmax()) + (_CHANGING if changed else 0),
            *(count[1:] / len(known)),
            max(0, len(runs) - 1),
        )
    return out


def _runs(known: NDArray[np.int8]) -> list[int]:
    """States of the runs of at least two cells, neighbours that are alike merged."""
    edges = np.flatnonzero(np.diff(known)) + 1
    out: list[int] = []
    for run in np.split(known, edges):
        if len(run) > 1 and (not out or out[-1] != run[0]):
            out.append(int(run[0]))
    return out
