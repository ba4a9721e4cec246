"""Samples of one node as exported to values that can be compared.

What happens to a cell, in this order: values that stand for "not available" and values the metric can't have become
NaN; of a mask of reasons why clocks are low the bad ones are counted; a counter becomes its increase since the last
known value; series that differ only in a label of ``sum_over`` become one. Metrics that tell the failure itself are
left out.

Every clean cell depends only on raw cells of its own series within ``staleness`` before it, so a panel that begins
anywhere gives the same cells from ``staleness`` after its beginning on, bit for bit.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from features import meaning
from features.compiling import compiled
from features.settings import PanelSettings, to_nanoseconds
from features.tables import Panel, Series

# DCGM's codes for "not available" (dcgm_structs.h): int32 0x7ffffff0..f, int64 0x7ffffffffffffff0..f, which float64
# holds as 2^63, and 2^47 and up for floats, times 100 where an exporter made percent of it.
_INT32_BLANK = (0x7FFFFFF0, 0x7FFFFFFF)
_INT64_BLANK = 2.0**63 - 2048
_FLOAT_BLANK = 2.0**47
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)",?')


def clean(raw: Panel, settings: PanelSettings, tally: Counter[str] | None = None) -> Panel:
    """A node's panel with blanks and impossible values gone, counters as increases, CPUs folded, no target.

    Parameters
    ----------
    raw
        Values as exported.
    tally
        Counts are added to it: ``blank``, ``out_of_range`` and ``infinite`` cells, ``resets`` and ``glitches`` of
        counters, ``target_series`` left out.

    Returns
    -------
    Panel
        The same times; series by metric and GPU, in the order of their names; counters hold the increase per cell
        in the counter's unit.
    """
    counts: Counter[str] = Counter() if tally is None else tally
    kept = sorted((series, row) for row, series in enumerate(raw.series) if not meaning.is_target(series.metric))
    counts["target_series"] += len(raw.series) - len(kept)
    values = raw.values[[row for _, row in kept]] if kept else np.empty((0, len(raw.times)))
    said = _read(tuple(series.metric for series, _ in kept), settings.model_dump_json())
    counter = said.counter
    infinite, blank, outside = _blank(values, said.dcgm, counter, said.low, said.high)
    # a count of nothing is none: the tally holds what was seen
    counts.update({k: n for k, n in (("infinite", infinite), ("blank", blank), ("out_of_range", outside)) if n})
    if said.reasons.any():
        values[said.reasons] = _bad_reasons(values[said.reasons])
    if counter.any():
        lookback = max(1, to_nanoseconds(settings.staleness) // step_of(raw.times))
        grown, resets, glitches = increases(values[counter], lookback, settings.glitch_ratio)
        values[counter] = grown
        counts["resets"] += int(resets)
        counts["glitches"] += int(glitches)
    names, folded = _fold([series for series, _ in kept], values, counter, said.without)
    return Panel(raw.node, raw.times, names, folded)


class _Said(NamedTuple):
    """What metrics' names say, each [S]; ``without`` are the names without the labels that are folded."""

    counter: NDArray[np.bool_]
    dcgm: NDArray[np.bool_]
    reasons: NDArray[np.bool_]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    without: tuple[str, ...]


@lru_cache(maxsize=64)
def _read(metrics: tuple[str, ...], settings: str) -> _Said:
    """Of the metrics of a node, in order; most nodes have the same ones."""
    known = PanelSettings.model_validate_json(settings)
    limits = [meaning.bounds(metric, known) or (-np.inf, np.inf) for metric in metrics]
    low, high = np.array(limits).reshape(-1, 2).T.copy()
    return _Said(
        np.array([meaning.kind(metric, known) == "counter" for metric in metrics], dtype=bool),
        np.array([metric.startswith("DCGM_") for metric in metrics], dtype=bool),
        np.array([bool(meaning.REASONS.fullmatch(meaning.name_of(metric))) for metric in metrics], dtype=bool),
        low,
        high,
        tuple(without_labels(metric, known.sum_over) for metric in metrics),
    )


def step_of(times: NDArray[np.int64]) -> int:
    """Length of a grid's cell in nanoseconds; a minute where there are too few cells to tell."""
    return int(times[1] - times[0]) if len(times) > 1 else 60_000_000_000


@compiled
def _blank(
    values: NDArray[np.float64],
    dcgm: NDArray[np.bool_],
    counter: NDArray[np.bool_],
    low: NDArray[np.float64],
    high: NDArray[np.float64],
) -> tuple[int, int, int]:
    """Set to NaN, in place, what is no value of its row's metric; how many were infinite, blank, out of range."""
    infinite, blank, outside = 0, 0, 0
    for row in range(values.shape[0]):
        # A counter of bytes or energy may pass 2^47; only the exact code is none of its values.
        above = _INT64_BLANK if counter[row] else _FLOAT_BLANK
        for cell in range(values.shape[1]):
            value = values[row, cell]
            if np.isinf(value):
                infinite += 1
            elif dcgm[row] and (_INT32_BLANK[0] <= value <= _INT32_BLANK[1] or value >= above):
                blank += 1
            elif value < low[row] or value > high[row]:
                outside += 1
            else:
                continue
            values[row, cell] = np.nan
    return infinite, blank, outside


def _bad_reasons(masks: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many of `meaning.SLOWED` each mask holds; NaN stays."""
    known = ~np.isnan(masks)
    whole = np.where(known, np.clip(masks, 0, 2.0**53), 0.0).astype(np.int64)
    return np.where(known, np.sum([(whole & bit) > 0 for bit in meaning.SLOWED], axis=0), np.nan)


@compiled
def increases(values: NDArray[np.float64], lookback: int, glitch_ratio: float) -> tuple[NDArray[np.float64], int, int]:
    """Each cell's increase over what the counter had reached in the ``lookback`` cells before it.

    The level reached is the highest known value there since the last reset in them; a fall of at most
    ``glitch_ratio`` of it is a glitch (two replicas, a late write) and adds 0, a deeper one is a reset and adds the
    new value. NaN where the cell or all ``lookback`` cells before it are unknown.

    Parameters
    ----------
    values
        float64 [S, T], counters as exported.

    Returns
    -------
    tuple
        float64 [S, T] increases, and how many cells were resets and glitches.
    """
    rows, cells = values.shape
    out = np.full((rows, cells), np.nan)
    resets = 0
    glitches = 0
    for row in range(rows):
        for cell in range(1, cells):
            value = values[row, cell]
            if np.isnan(value):
                continue
            level = np.nan
            for before in range(max(0, cell - lookback), cell):
                known = values[row, before]
                if np.isnan(known):
                    continue
                if np.isnan(level) or known >= level or level - known > glitch_ratio * level:
                    level = known
            if np.isnan(level):
                continue
            if value >= level:
                out[row, cell] = value - level
            elif level - value <= glitch_ratio * level:
                out[row, cell] = 0.0
                glitches += 1
            else:
                out[row, cell] = value
                resets += 1
    return out, resets, glitches


@lru_cache(maxsize=1 << 16)
def without_labels(metric: str, labels: tuple[str, ...]) -> str:
    """The metric in its canonical form without the named labels."""
    name, brace, rest = metric.partition("{")
    if not brace:
        return metric
    kept = [f'{key}="{value}"' for key, value in _LABEL.findall(rest) if key not in labels]
    return f"{name}{{{','.join(kept)}}}" if kept else name


def _fold(
    series: list[Series], values: NDArray[np.float64], counter: NDArray[np.bool_], without: tuple[str, ...]
) -> tuple[tuple[Series, ...], NDArray[np.float64]]:
    """One series for those that differ only in folded labels: counters' increases by sum, gauges by mean.

    A gauge's sum would fall whenever one of its series is late. Rows are added one by one in the order of their
    names, so that a series without samples changes no bit of the result.
    """
    targets = [Series(metric, one.gpu) for metric, one in zip(without, series, strict=True)]
    if targets == series:
        return tuple(series), values
    names = sorted(set(targets))
    position = {name: row for row, name in enumerate(names)}
    mean = np.zeros(len(names), dtype=bool)
    into = np.array([position[target] for target in targets], dtype=np.int64)
    mean[into[~counter]] = True
    total = _add_up(np.ascontiguousarray(values), into, mean)
    return tuple(names), total


@compiled
def _add_up(values: NDArray[np.float64], into: NDArray[np.int64], mean: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Rows [S, T] added up to rows [N, T], or their means; NaN where all of a row's are."""
    total = np.zeros((mean.size, values.shape[1]))
    known = np.zeros(total.shape, np.int64)
    for row in range(values.shape[0]):
        for cell in range(values.shape[1]):
            value = values[row, cell]
            if not np.isnan(value):
                total[into[row], cell] += value
                known[into[row], cell] += 1
    for row in range(total.shape[0]):
        for cell in range(total.shape[1]):
            if known[row, cell] == 0:
                total[row, cell] = np.nan
            elif mean[row]:
                total[row, cell] /= known[row, cell]
    return total
