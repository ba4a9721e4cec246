"""Which tsfresh calculators have a fast form, with which parameters, and what runs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr

from features import kernels, order_kernels, rank_kernels, spectra, trend_kernels
from features.kernels import Floats, Ints

Parameters = dict[str, Any]
Unsure = NDArray[np.bool_] | None


class Windows(NamedTuple):
    """Packed series [S, T] and the windows' bounds in them [S, W]."""

    packed: Floats
    lows: Ints
    highs: Ints


class Column(NamedTuple):
    """One wanted value: its place in the output, its calculator and the parameters."""

    slot: int
    calculator: str
    parameters: Parameters


@dataclass(frozen=True)
class Job:
    """Columns that one kernel fills; ``run`` gives the windows [S, W] whose values tsfresh itself must say."""

    run: Callable[[Windows, list[Column], Floats], Unsure]
    keys: tuple[str, ...] = ()  # the parameters' names in alphabetical order
    accepts: Callable[[Parameters], bool] = field(default=lambda _: True)


def _fixed(kernel: Callable[..., None], names: tuple[str, ...]) -> Job:
    """A kernel that writes several statistics without parameters."""

    def run(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
        slots = np.full(len(names), -1)
        for column in columns:
            slots[names.index(column.calculator)] = column.slot
        kernel(*windows, slots, out)
        return None

    return Job(run)


def _levels(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    slots = np.full(len(kernels.LEVELS), -1)
    for column in columns:
        slots[kernels.LEVELS.index(column.parameters.get("attr", column.calculator))] = column.slot
    kernels.levels(*windows, slots, out)
    return None


def _table(columns: list[Column], row: Callable[[Column], list[float]]) -> tuple[Floats, Ints]:
    """The columns' parameters as numbers [P, K], and their slots, sorted from the last parameter to the first."""
    rows = np.array([row(column) for column in columns], np.float64)
    order = np.lexsort(rows.T)
    return rows[order], np.array([column.slot for column in columns])[order]


def _numeric(kernel: Callable[..., None], *keys: str, accepts: Callable[[Parameters], bool]) -> Job:
    """A kernel whose parameters are numbers as they stand."""

    def run(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
        parameters, slots = _table(columns, lambda column: [column.parameters[key] for key in keys])
        kernel(*windows, parameters, slots, out)
        return None

    return Job(run, keys, accepts)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def _numbers(parameters: Parameters) -> bool:
    return all(map(_is_number, parameters.values()))


def _whole(least: int) -> Callable[[Parameters], bool]:
    def accepts(parameters: Parameters) -> bool:
        return all(
            isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= least
            for value in parameters.values()
        )

    return accepts


def _share(parameters: Parameters) -> bool:
    return _numbers(parameters) and all(0 <= value <= 1 for value in parameters.values())


def _spreads(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    kinds = ("large_standard_deviation", "ratio_beyond_r_sigma")
    parameters, slots = _table(columns, lambda c: [kinds.index(c.calculator), c.parameters["r"]])
    rank_kernels.spreads(*windows, parameters, slots, out)
    return None


def _bounds(column: Column) -> list[float]:
    """Least and most, both inside, and whether the share is asked for."""
    given = column.parameters
    if column.calculator == "range_count":
        return [given["min"], np.nextafter(given["max"], -np.inf) if given["max"] > -np.inf else np.nan, 0]
    if column.calculator == "value_count":
        return [given["value"], given["value"], 0]
    return [given["t"], np.inf, 1] if column.calculator == "count_above" else [-np.inf, given["t"], 1]


def _intervals(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    rank_kernels.intervals(*windows, *_table(columns, _bounds), out)
    return None


def _agg_autocorrelation(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    parameters, slots = _table(columns, lambda c: [_AGGREGATES.index(c.parameters["f_agg"]), c.parameters["maxlag"]])
    order_kernels.agg_autocorrelation(*windows, parameters, slots, out)
    return None


def _change_quantiles(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    parameters, slots = _table(
        columns,
        lambda c: [
            ("mean", "var").index(c.parameters["f_agg"]),
            c.parameters["isabs"],
            c.parameters["qh"],
            c.parameters["ql"],
        ],
    )
    rank_kernels.change_quantiles(*windows, parameters, slots, out)
    return None


def _linear_trend(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    """What `kernels.levels` does not write: probability and standard errors."""
    parameters, slots = _table(columns, lambda c: [trend_kernels.ATTRIBUTES.index(c.parameters["attr"])])
    unsure = np.zeros(windows.lows.shape, np.bool_)
    trend_kernels.linear_trend(*windows, parameters, slots, out, unsure)
    count = windows.highs - windows.lows
    for column in columns:
        if column.parameters["attr"] == "pvalue":
            out[:, :, column.slot] = _probability(out[:, :, column.slot], count)
    return unsure


def _agg_linear_trend(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    parameters, slots = _table(
        columns,
        lambda c: [
            trend_kernels.ATTRIBUTES.index(c.parameters["attr"]),
            c.parameters["chunk_len"],
            trend_kernels.AGGREGATES.index(c.parameters["f_agg"]),
        ],
    )
    unsure = np.zeros(windows.lows.shape, np.bool_)
    trend_kernels.agg_linear_trend(*windows, parameters, slots, out, unsure)
    count = windows.highs - windows.lows
    for column in columns:
        if column.parameters["attr"] == "pvalue":
            chunks = -(-count // column.parameters["chunk_len"])
            out[:, :, column.slot] = _probability(out[:, :, column.slot], chunks)
    return unsure


def _probability(rvalue: Floats, count: Ints) -> Floats:
    """Two-sided probability of a correlation; of two points the kernel has said it already."""
    tiny = 1e-20  # as linregress has it
    with np.errstate(all="ignore"):
        t = rvalue * np.sqrt((count - 2) / ((1.0 - rvalue + tiny) * (1.0 + rvalue + tiny)))
        return np.where(count > 2, 2 * stdtr(count - 2.0, -np.abs(t)), rvalue)


def _benford(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    decades = np.array([float(f"{digit}e{power}") for power in range(-323, 309) for digit in range(1, 10)][:-8])
    law = np.log10(1 + 1 / np.arange(1.0, 10.0))
    unsure = np.zeros(windows.lows.shape, np.bool_)
    rank_kernels.benford(*windows, decades, law, columns[0].slot, out, unsure)
    return unsure


def _coefficients(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    wanted = [(column.parameters["attr"], column.parameters["coeff"]) for column in columns]
    spectra.coefficients(*windows, wanted, [column.slot for column in columns], out)
    return None


def _moments(windows: Windows, columns: list[Column], out: Floats) -> Unsure:
    wanted = [column.parameters["aggtype"] for column in columns]
    return spectra.moments(*windows, wanted, [column.slot for column in columns], out)


_AGGREGATES = ("mean", "median", "var", "std")
_TREND = ("slope", "intercept", "rvalue")
LEVEL_JOB = Job(_levels)
_TREND_JOB = Job(_linear_trend)


def _change_accepts(parameters: Parameters) -> bool:
    quantiles = {"ql": parameters["ql"], "qh": parameters["qh"]}
    return _share(quantiles) and isinstance(parameters["isabs"], bool | int) and parameters["f_agg"] in {"mean", "var"}


def _agg_trend_accepts(parameters: Parameters) -> bool:
    return (
        parameters["attr"] in trend_kernels.ATTRIBUTES
        and parameters["f_agg"] in trend_kernels.AGGREGATES
        and _whole(1)({"chunk_len": parameters["chunk_len"]})
    )


def _agg_autocorrelation_accepts(parameters: Parameters) -> bool:
    return parameters["f_agg"] in _AGGREGATES and _whole(1)({"maxlag": parameters["maxlag"]})


def _coefficient_accepts(parameters: Parameters) -> bool:
    return parameters["attr"] in spectra.PARTS and _whole(0)({"coeff": parameters["coeff"]})


def _segment_accepts(parameters: Parameters) -> bool:
    return _whole(0)(parameters) and parameters["segment_focus"] < parameters["num_segments"]


_SHAPES = _fixed(kernels.shapes, kernels.SHAPES)
_REPEATS = _fixed(rank_kernels.repeats, rank_kernels.REPEATS)
_RUNS = _fixed(order_kernels.runs, order_kernels.RUNS)
_PLACES = _fixed(order_kernels.places, order_kernels.PLACES)
_CHANGES = _fixed(order_kernels.changes, order_kernels.CHANGES)
_SPREADS = Job(_spreads, ("r",), _numbers)

JOBS: dict[str, Job] = {
    **dict.fromkeys(kernels.LEVELS[:12], LEVEL_JOB),
    **dict.fromkeys(kernels.SHAPES, _SHAPES),
    **dict.fromkeys(rank_kernels.REPEATS, _REPEATS),
    **dict.fromkeys(order_kernels.RUNS, _RUNS),
    **dict.fromkeys(order_kernels.PLACES, _PLACES),
    **dict.fromkeys(order_kernels.CHANGES, _CHANGES),
    "large_standard_deviation": _SPREADS,
    "ratio_beyond_r_sigma": _SPREADS,
    **{
        name: Job(_intervals, keys, _numbers)
        for name, keys in {
            "range_count": ("max", "min"),
            "value_count": ("value",),
            "count_above": ("t",),
            "count_below": ("t",),
        }.items()
    },
    "cid_ce": _numeric(order_kernels.cid_ce, "normalize", accepts=lambda p: isinstance(p["normalize"], bool)),
    "c3": _numeric(order_kernels.c3, "lag", accepts=_whole(0)),
    "time_reversal_asymmetry_statistic": _numeric(order_kernels.time_reversal, "lag", accepts=_whole(0)),
    "autocorrelation": _numeric(order_kernels.autocorrelation, "lag", accepts=_whole(0)),
    "number_peaks": _numeric(order_kernels.number_peaks, "n", accepts=_whole(1)),
    "number_crossing_m": _numeric(order_kernels.number_crossing_m, "m", accepts=_numbers),
    "index_mass_quantile": _numeric(order_kernels.index_mass_quantile, "q", accepts=_numbers),
    "energy_ratio_by_chunks": _numeric(
        order_kernels.energy_ratio, "num_segments", "segment_focus", accepts=_segment_accepts
    ),
    "agg_autocorrelation": Job(_agg_autocorrelation, ("f_agg", "maxlag"), _agg_autocorrelation_accepts),
    "quantile": _numeric(rank_kernels.quantile, "q", accepts=_share),
    "symmetry_looking": _numeric(rank_kernels.symmetry_looking, "r", accepts=_numbers),
    "mean_n_absolute_max": _numeric(rank_kernels.mean_n_absolute_max, "number_of_maxima", accepts=_whole(1)),
    "change_quantiles": Job(_change_quantiles, ("f_agg", "isabs", "qh", "ql"), _change_accepts),
    "binned_entropy": _numeric(rank_kernels.binned_entropy, "max_bins", accepts=_whole(1)),
    "benford_correlation": Job(_benford),
    "agg_linear_trend": Job(_agg_linear_trend, ("attr", "chunk_len", "f_agg"), _agg_trend_accepts),
    "fft_coefficient": Job(_coefficients, ("attr", "coeff"), _coefficient_accepts),
    "fft_aggregated": Job(_moments, ("aggtype",), lambda p: p["aggtype"] in spectra.MOMENTS),
}


def job(calculator: str, parameters: Parameters) -> Job | None:
    """What computes one column fast, or None where only tsfresh can."""
    if calculator == "linear_trend" and set(parameters) == {"attr"}:
        if parameters["attr"] in _TREND:
            return LEVEL_JOB
        return _TREND_JOB if parameters["attr"] in trend_kernels.ATTRIBUTES else None
    found = JOBS.get(calculator)
    if found is None or tuple(sorted(parameters)) != found.keys or not found.accepts(parameters):
        return None
    return found
