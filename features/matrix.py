"""The roof: tables in, Matrix out. It joins what the other rooms make and adds nothing of its own.

A row is made in two steps. `node_rows` needs one node's samples only and can be cached and done anywhere;
`join` looks across nodes (peers) and back (history), on the small rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import (
    checkpoint_columns,
    history,
    labels,
    log_columns,
    meaning,
    names,
    peers,
    phase,
    presence,
    siblings,
    signals,
)
from features.panel import clean, without_labels
from features.settings import Calculators, FeatureSettings, LabelSettings, PanelSettings, to_nanoseconds
from features.tables import Matrix, Panel
from features.templates import Templates
from features.windows import as_ns
from features.windows import reach as reach  # noqa: PLC0414  # asked for here as well

OVER_GPUS = ("gpu_max", "gpu_min", "gpu_spread")
_LARGEST = float(np.finfo(np.float32).max)


class Past(NamedTuple):
    """What is known of the nodes beside samples and lines."""

    failures: pd.DataFrame
    events: pd.DataFrame


class Lines(NamedTuple):
    """Masked log lines, frozen templates, and the nodes that have ever logged anything."""

    lines: pd.DataFrame
    templates: Templates
    heard: Collection[str] = ()


def cover(raw: Panel, start_ns: int, end_ns: int, step_ns: int) -> Panel:
    """The panel over exactly the cells of ``[start_ns, end_ns)``, unknown where it has none."""
    times = np.arange(-(-start_ns // step_ns) * step_ns, end_ns, step_ns, dtype=np.int64)
    if np.array_equal(times, raw.times):
        return raw
    values = np.full((len(raw.series), len(times)), np.nan)
    into = np.searchsorted(times, raw.times)
    held = into < len(times)
    held[held] &= times[into[held]] == raw.times[held]
    values[:, into[held]] = raw.values[:, held]
    return Panel(raw.node, times, raw.series, values)


def node_rows(
    raw: Panel,
    ends_ns: NDArray[np.int64],
    settings: FeatureSettings,
    known: presence.Roster,
    *,
    step_ns: int,
    tally: Counter[str] | None = None,
) -> pd.DataFrame:
    """Stateless columns of one node: its metrics, what is missing, what its job does.

    Parameters
    ----------
    raw
        Values as exported, from `reach` before the first end on; what it lacks is unknown.
    ends_ns
        Ends of the windows, multiples of the grid's step, nanoseconds since 1970.
    tally
        See `features.panel.clean`.

    Returns
    -------
    DataFrame
        float32, indexed by (node, end); the columns in the order of their names.
    """
    whole = cover(raw, int(ends_ns.min()) - reach(settings), int(ends_ns.max()), step_ns)
    tidy = clean(whole, settings.panel, tally)
    starts = np.searchsorted(tidy.times, ends_ns - to_nanoseconds(settings.window.length)).astype(np.int64)
    stops = np.searchsorted(tidy.times, ends_ns).astype(np.int64)
    parts: list[tuple[list[str], NDArray[np.float32]]] = [
        (list(presence.COLUMNS), presence.columns(whole, ends_ns, settings, known)),
        (list(phase.COLUMNS), phase.columns(tidy, ends_ns, settings)),
    ]
    if checkpoint_columns.tells(whole):
        parts.append((list(checkpoint_columns.COLUMNS), checkpoint_columns.columns(whole, ends_ns, settings)))
    counts = _counters(tuple(one.metric for one in tidy.series), settings.panel.model_dump_json())
    for counter, calculators in ((False, settings.signals.gauge), (True, settings.signals.counter)):
        rows = np.flatnonzero(counts == counter).tolist()
        if rows and calculators:
            parts.append(_signals(tidy, rows, starts, stops, calculators, step_ns=step_ns))
    settled = max(1, to_nanoseconds(settings.panel.staleness) // step_ns)  # all that is read before a window
    parts.append(_from_siblings(tidy, np.flatnonzero(~counts).tolist(), starts, stops, known, settled))
    titles = [title for part, _ in parts for title in part]
    values = np.concatenate([block for _, block in parts], axis=1)
    order, sorted_titles = _ordered(tuple(titles))
    return pd.DataFrame(values[:, order], index=index_of(raw.node, ends_ns), columns=sorted_titles)


@lru_cache(maxsize=64)
def _counters(metrics: tuple[str, ...], settings: str) -> NDArray[np.bool_]:
    """Which of a node's metrics count up; most nodes have the same ones."""
    known = PanelSettings.model_validate_json(settings)
    return np.array([meaning.kind(metric, known) == "counter" for metric in metrics], dtype=bool)


@lru_cache(maxsize=16)
def _ordered(titles: tuple[str, ...]) -> tuple[NDArray[np.int64], pd.Index]:
    """The order of columns' names, and them in it."""
    order = sorted(range(len(titles)), key=titles.__getitem__)
    return np.array(order, dtype=np.int64), pd.Index([titles[at] for at in order])


def index_of(node: str, ends_ns: NDArray[np.int64]) -> pd.MultiIndex:
    """Rows' identity: the node and each window's end."""
    ends = pd.DatetimeIndex(ends_ns, dtype="datetime64[ns]").tz_localize("UTC")
    return pd.MultiIndex.from_arrays([pd.Index([node] * len(ends), dtype="str"), ends], names=["node", "end"])


def _signals(
    tidy: Panel,
    rows: list[int],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    calculators: Calculators,
    *,
    step_ns: int,
) -> tuple[list[str], NDArray[np.float32]]:
    """Columns of the panel's rows of one kind: a node's own series as they are, GPUs' series over the GPUs."""
    values = tidy.values[rows]
    parts, out = signals.columns(values, starts, stops, calculators, step_ns=step_ns)
    out[np.isinf(out)] = np.nan
    series = [tidy.series[row] for row in rows]
    own, groups, titles = _titles(tuple((one.metric, one.gpu != "") for one in series), tuple(parts))
    blocks = [out[own].transpose(1, 0, 2).reshape(len(starts), -1)]
    for members in groups:
        of_gpus = out[members]
        high, low = np.fmax.reduce(of_gpus, axis=0), np.fmin.reduce(of_gpus, axis=0)
        spread = high - low
        spread[(~np.isnan(of_gpus)).sum(axis=0) < 2] = np.nan
        blocks += [high, low, spread]
    whole = np.concatenate(blocks, axis=1)
    return titles, np.clip(whole, -_LARGEST, _LARGEST).astype(np.float32)


def _from_siblings(
    tidy: Panel,
    rows: list[int],
    starts: NDArray[np.int64],
    stops: NDArray[np.int64],
    known: presence.Roster,
    settled: int,
) -> tuple[list[str], NDArray[np.float32]]:
    """How far each GPU is from its siblings, by each of the panel's gauges (``rows``)."""
    groups: dict[str, list[int]] = {}
    for row in rows:
        if tidy.series[row].gpu:
            groups.setdefault(tidy.series[row].metric, []).append(row)
    gpus = tuple(sorted({series.gpu for series in tidy.series if series.gpu}))
    place, number = siblings.places(known, gpus), {gpu: at for at, gpu in enumerate(gpus)}
    use, watts = phase.use_of(tidy, gpus), phase.watts_of(tidy, gpus)
    titles: list[str] = []
    blocks = [np.empty((len(starts), 0))]
    found: dict[tuple[int, ...], siblings.Peers] = {}  # nearly all metrics are of the same GPUs
    for metric, members in groups.items():
        where = [place[tidy.series[row].gpu] for row in members]
        of = tuple(number[tidy.series[row].gpu] for row in members)
        if of not in found:
            found[of] = siblings.peers(where, use[list(of)], watts[list(of)], settled)
        blocks.append(siblings.distances(tidy.values[members], found[of], starts, stops).T)
        titles += [
            names.column(metric, siblings.step(one), calculator=siblings.CALCULATOR) for one in sorted(set(where))
        ]
    return titles, np.clip(np.concatenate(blocks, axis=1), -_LARGEST, _LARGEST).astype(np.float32)


@lru_cache(maxsize=64)
def _titles(
    series: tuple[tuple[str, bool], ...], parts: tuple[str, ...]
) -> tuple[list[int], list[list[int]], list[str]]:
    """Of (metric, whether a GPU's): places of the node's own, places of each metric of GPUs, the columns' names."""
    own = [at for at, (_, of_gpu) in enumerate(series) if not of_gpu]
    groups: dict[str, list[int]] = {}
    for at, (metric, of_gpu) in enumerate(series):
        if of_gpu:
            groups.setdefault(metric, []).append(at)
    titles = [names.column(series[at][0], calculator=part) for at in own for part in parts]
    for metric in groups:
        titles += [names.column(metric, step, calculator=part) for step in OVER_GPUS for part in parts]
    return own, list(groups.values()), titles


def suspect(
    raw: Panel, column: str, end_ns: int, *, settings: FeatureSettings, known: presence.Roster, step_ns: int
) -> str:
    """The GPU that makes a column's value in the window that ends at ``end_ns``; "" when the column is of no GPU.

    The largest for ``gpu_max``, the smallest for ``gpu_min``, the farthest from its siblings' median for
    ``gpu_spread``, the one at that place for ``gpu_0``, the one that is gone for ``presence.gpu_missing``.
    """
    metric, steps, calculator = names.split(column)
    whole = cover(raw, end_ns - reach(settings), end_ns, step_ns)
    if metric == "presence":
        return presence.lost_gpu(whole, end_ns, settings, known) if steps and steps[0].startswith("gpu_") else ""
    if siblings.is_own(column):
        return _at_place(whole, siblings.place_of(column), known)
    over = next((step for step in steps if step in OVER_GPUS), "")
    if not over:
        return ""
    labels_of = settings.panel.sum_over
    own = [at for at, one in enumerate(whole.series) if one.gpu and without_labels(one.metric, labels_of) == metric]
    few = Panel(whole.node, whole.times, tuple(whole.series[at] for at in own), whole.values[own])
    tidy = clean(few, settings.panel)  # a clean cell depends on no other series
    rows = [row for row, one in enumerate(tidy.series) if one.gpu and one.metric == metric]
    if not rows:
        return ""
    kind = meaning.kind(metric, settings.panel)
    calculators = settings.signals.gauge if kind == "gauge" else settings.signals.counter
    length = to_nanoseconds(settings.window.length)
    start, stop = (np.searchsorted(tidy.times, [at]).astype(np.int64) for at in (end_ns - length, end_ns))
    parts, out = signals.columns(tidy.values[rows], start, stop, calculators, step_ns=step_ns)
    values = out[:, 0, parts.index(calculator)] if calculator in parts else np.full(len(rows), np.nan)
    if np.isnan(values).all():
        return ""
    if over == "gpu_spread":
        values = np.abs(values - np.nanmedian(values))
    at = int(np.nanargmin(values) if over == "gpu_min" else np.nanargmax(values))
    return tidy.series[rows[at]].gpu


def _at_place(whole: Panel, place: int, known: presence.Roster) -> str:
    """The GPU at a place of its node that has samples."""
    there = tuple(sorted({one.gpu for one in whole.series if one.gpu}))
    found = siblings.places(known, there)
    return next((gpu for gpu in reversed(there) if found[gpu] == place), "")


def stack(parts: Iterable[pd.DataFrame], columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Rows of several nodes or days under one set of columns, float32; what a part lacks is NaN."""
    frames = [part for part in parts if len(part)]
    names_of: list[list[str]] = []
    for at, part in enumerate(frames):
        alike = at > 0 and part.columns.is_(frames[at - 1].columns)
        names_of.append(names_of[-1] if alike else part.columns.tolist())  # an index gives its names slowly
    titles = sorted(set().union(*names_of)) if columns is None else list(columns)
    position = {title: at for at, title in enumerate(titles)}
    out = np.full((sum(map(len, frames)), len(titles)), np.nan, dtype=np.float32)
    row = 0
    for at_part, part in enumerate(frames):
        own = names_of[at_part]
        if at_part == 0 or (
            own is not names_of[at_part - 1] and own != names_of[at_part - 1]
        ):  # most nodes have the same columns
            held = [at for at, title in enumerate(own) if title in position]
            into = [position[own[at]] for at in held]
        out[row : row + len(part), into] = part.to_numpy()[:, held]
        row += len(part)
    index = frames[0].index if frames else index_of("", np.empty(0, dtype=np.int64))
    for part in frames[1:]:
        index = index.append(part.index)
    return pd.DataFrame(out, index=index, columns=titles)


def join(
    rows: pd.DataFrame,
    windows: pd.DataFrame,
    settings: FeatureSettings,
    past: Past,
    *,
    logs: Lines | None = None,
    label: LabelSettings | None = None,
) -> Matrix:
    """Stateless rows of every node to the windows' full rows.

    Parameters
    ----------
    rows
        From `node_rows`, of every node at every moment of the windows (peers), in any order; may hold more.
    windows
        Frame of `WINDOWS`: which rows are wanted, and in which order.
    past
        Failures and events; only what lies before a window's start is used.
    logs
        Without it the matrix has no log columns.
    label
        With it, and `past`, the labels are filled.
    """
    index = pd.MultiIndex.from_arrays([windows["node"], windows["end"]], names=["node", "end"])
    wanted = rows.index.get_indexer(index)
    parts = [rows, peers.columns(rows, settings.peers)]
    parts.append(history.columns(windows, past.failures, past.events))
    if logs is not None:
        parts.append(log_columns.columns(logs.lines, windows, logs.templates, logs.heard))
    titles = sorted(title for part in parts for title in part.columns)
    position = {title: at for at, title in enumerate(titles)}
    out = np.empty((len(windows), len(titles)), dtype=np.float32)
    for at, part in enumerate(parts):
        block = part.to_numpy(dtype=np.float32)
        into = [position[title] for title in part.columns]
        out[:, into] = block[wanted] if at < 2 else block  # the first two go by rows, the others by windows
    across = [position[title] for part in parts[:2] for title in part.columns]
    out[np.ix_(wanted < 0, np.array(across))] = np.nan
    X = pd.DataFrame(out, index=index, columns=titles)
    told = labels.label(windows, past.failures, label) if label is not None else pd.DataFrame()
    return Matrix(windows.reset_index(drop=True), X, told)


def with_logs(matrix: Matrix, logs: Lines) -> Matrix:
    """The matrix with log columns by these templates, in place of any it has; for folds, which mine their own."""
    told = log_columns.columns(logs.lines, matrix.windows, logs.templates, logs.heard)
    kept = [title for title in matrix.X.columns if not title.startswith("logs.")]
    held = matrix.X if len(kept) == matrix.X.shape[1] else matrix.X[kept]
    block = np.concatenate([held.to_numpy(), told.to_numpy(dtype=np.float32)], axis=1)
    return Matrix(matrix.windows, pd.DataFrame(block, matrix.X.index, [*kept, *told.columns]), matrix.labels)


def spans(windows: pd.DataFrame, settings: FeatureSettings) -> tuple[int, int]:
    """``[start, end)`` in nanoseconds of the samples that these windows' rows depend on."""
    end = as_ns(windows["end"])
    return int(end.min()) - reach(settings), int(end.max())
