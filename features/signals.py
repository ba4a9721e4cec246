"""Metric windows to tsfresh columns: compiled calculators for most, tsfresh's own for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import kernels
from features.calculators import Column, Job, Parameters, Windows, job
from features.kernels import Floats, Ints
from features.tables import SchemaError, UsageError

Settings = Mapping[Any, list[Parameters] | None]
_Asked = tuple[Callable[..., Any], list[Parameters], dict[str, int]]  # function, its parameters, part to slot
# What a calculator raises on a window that it can't judge (too short, no spread).
_REFUSALS = (ValueError, IndexError, ArithmeticError, np.linalg.LinAlgError)


def columns(
    values: Floats, starts: Ints, ends: Ints, settings: Settings, *, step_ns: int | None = None
) -> tuple[tuple[str, ...], Floats]:
    """Every calculator of ``settings`` over every window of every series.

    A window's value is what tsfresh gives on the samples present in it, in order, with the gaps closed;
    NaN where tsfresh gives NaN, and where it refuses the window (an empty one, always). Values of the fast
    calculators agree with tsfresh's within 1e-9 of max(1, abs(value)), counts and flags exactly; as float32
    within 6e-8 of the value more. A value depends on the window's own samples alone, bit for bit.

    Parameters
    ----------
    values
        float64 [S, T], a row for each series; NaN where a cell holds no sample. Infinite values belong
        sorted out before.
    starts, ends
        int64 [W], cells of each window, the end excluded.
    settings
        As tsfresh's ``default_fc_parameters``: calculator (name or function) to a list of parameters or None.
    step_ns
        Length of a cell, for calculators that read the time (linear_trend_timewise); without it they
        are left out, as tsfresh does.

    Returns
    -------
    parts : tuple of str
        C column parts as tsfresh names them, e.g. ``linear_trend__attr_"slope"``; each once.
    out : float64 [S, W, C]

    Raises
    ------
    UsageError
        tsfresh does not know a calculator, or refuses its parameters.
    SchemaError
        The arrays do not fit together.
    """
    starts, ends = np.asarray(starts, np.int64), np.asarray(ends, np.int64)
    _check(values, starts, ends)
    parts, fast, asked = _plan(settings, timed=step_ns is not None)
    windows = _pack(values, starts, ends)
    out = np.full((*windows.lows.shape, len(parts)), np.nan)
    unsure: list[tuple[_Asked, NDArray[np.bool_]]] = []
    for found, wanted in fast:
        doubt = found.run(windows, wanted, out)
        if doubt is not None and doubt.any():
            names = {parts[column.slot]: column.slot for column in wanted}
            unsure.append(((_function(wanted[0].calculator), [c.parameters for c in wanted], names), doubt))
    everywhere = windows.highs > windows.lows
    _ask(values, starts, ends, windows, [(one, everywhere) for one in asked] + unsure, step_ns, out)
    return parts, out


def parts_of(settings: Settings, *, timed: bool = False) -> tuple[str, ...]:
    """The column parts that `columns` gives for these settings, without any data."""
    return _plan(settings, timed=timed)[0]


def _check(values: Floats, starts: Ints, ends: Ints) -> None:
    if values.ndim != 2 or values.dtype != np.float64:
        raise SchemaError(f"signals: wanted float64 values [S, T], found {values.dtype} of shape {values.shape}")
    if starts.shape != ends.shape or starts.ndim != 1:
        raise SchemaError(f"signals: wanted starts and ends [W], found shapes {starts.shape} and {ends.shape}")
    if starts.size and (starts.min() < 0 or ends.max() > values.shape[1] or (ends < starts).any()):
        raise SchemaError(f"signals: a window lies outside the {values.shape[1]} cells; cut it at the panel's edges")


def _pack(values: Floats, starts: Ints, ends: Ints) -> Windows:
    packed = np.empty(values.shape)
    lows, highs = (np.empty((values.shape[0], starts.size), np.int64) for _ in range(2))
    if packed.size:
        kernels.pack(np.ascontiguousarray(values), starts, ends, packed, lows, highs)
    else:
        lows[:] = highs[:] = 0
    return Windows(packed, lows, highs)


def _function(calculator: Any) -> Callable[..., Any]:
    # Here and not above: tsfresh takes seconds to load, and a job whose columns all have a fast form needs none.
    from tsfresh.feature_extraction import feature_calculators  # noqa: PLC0415  # see above

    found: Callable[..., Any] | None = (
        calculator if callable(calculator) else getattr(feature_calculators, str(calculator), None)
    )
    if found is None or not hasattr(found, "fctype"):
        raise UsageError(f"tsfresh has no calculator {calculator!r}; its documentation lists them")
    return found


def _plan(settings: Settings, *, timed: bool) -> tuple[tuple[str, ...], list[tuple[Job, list[Column]]], list[_Asked]]:
    """The parts, the jobs of fast columns, and what tsfresh is asked on every window."""
    parts: dict[str, int] = {}
    fast: dict[int, tuple[Job, list[Column]]] = {}
    asked: list[_Asked] = []
    for calculator, given in settings.items():
        rest: list[Parameters] = []
        for parameters in given or [{}]:
            found = None if callable(calculator) else job(calculator, parameters)
            if found is None:
                rest.append(parameters)
                continue
            part = _part(calculator, parameters)
            if part not in parts:
                parts[part] = len(parts)
                group = fast.setdefault(id(found.run), (found, []))
                group[1].append(Column(parts[part], calculator, parameters))
        if not rest:
            continue
        function = _function(calculator)
        if timed or getattr(function, "index_type", None) is not pd.DatetimeIndex:
            slots = {part: parts.setdefault(part, len(parts)) for part in _probe(function, rest)}
            asked.append((function, rest, slots))
    return tuple(parts), list(fast.values()), asked


def _part(calculator: str, parameters: Parameters) -> str:
    """A column's part as tsfresh's ``convert_to_output_format`` writes it."""
    values = (
        (key, f'"{parameters[key]}"' if isinstance(parameters[key], str) else parameters[key])
        for key in sorted(parameters)
    )
    return "__".join((calculator, *(f"{key}_{value}" for key, value in values)))


def _named(calculator: str, key: str) -> str:
    return f"{calculator}__{key}" if key else calculator


def _probe(function: Callable[..., Any], given: list[Parameters]) -> list[str]:
    """The parts a calculator names, asked on a series that none refuses."""
    times = pd.date_range("2020-01-01", periods=128, freq="30s")
    series = pd.Series(np.random.default_rng(0).normal(size=times.size), times)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [part for part, _ in _call(function, given, series)]
    except Exception as error:  # whatever it is, the parameters brought it about
        raise UsageError(f"tsfresh's {function.__name__} refuses the parameters {given}: {error!r}") from error


def _call(function: Callable[..., Any], given: list[Parameters], series: pd.Series) -> Iterable[tuple[str, float]]:
    """One calculator on one series, as ``tsfresh.extract_features`` calls it."""
    x = series if getattr(function, "input", None) == "pd.Series" else series.to_numpy()
    if getattr(function, "fctype", None) == "combiner":
        return [(_named(function.__name__, key), value) for key, value in function(x, param=given)]
    return [(_part(function.__name__, parameters), function(x, **parameters)) for parameters in given]


def _ask(
    values: Floats,
    starts: Ints,
    ends: Ints,
    windows: Windows,
    asked: list[tuple[_Asked, NDArray[np.bool_]]],
    step_ns: int | None,
    out: Floats,
) -> None:
    """Let tsfresh itself say the values of the marked windows."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for (function, given, slots), marked in asked:
            timed = getattr(function, "index_type", None) is pd.DatetimeIndex
            for s, w in zip(*np.nonzero(marked), strict=True):
                x = windows.packed[s, windows.lows[s, w] : windows.highs[s, w]].copy()
                index = None
                if timed:
                    cells = np.flatnonzero(~np.isnan(values[s, starts[w] : ends[w]]))
                    index = pd.to_datetime(cells * (step_ns or 0), unit="ns")
                try:
                    for part, value in _call(function, given, pd.Series(x, index)):
                        if part in slots:
                            out[s, w, slots[part]] = value
                except _REFUSALS:
                    out[s, w, list(slots.values())] = np.nan
