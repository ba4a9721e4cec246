"""Every fast calculator against tsfresh's own function, on the data that break such code."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tsfresh.feature_extraction.settings import EfficientFCParameters, MinimalFCParameters

from features import signals
from features.calculators import job

Floats = NDArray[np.float64]
Calculators = dict[str, list[dict[str, Any]] | None]
BEYOND: Calculators = {  # parameters that tsfresh's Efficient set does not ask for
    "linear_trend": [{"attr": "intercept_stderr"}],
    "agg_linear_trend": [{"attr": "pvalue", "chunk_len": 5, "f_agg": "mean"}],
    "agg_autocorrelation": [{"f_agg": "std", "maxlag": 3}],
    "binned_entropy": [{"max_bins": 3}],
    "number_peaks": [{"n": 2}],
    "value_count": [{"value": np.nan}],
    "quantile": [{"q": 0.0}, {"q": 1.0}],
}


def fast() -> Calculators:
    """What of the Efficient set has a fast form, and a little more."""
    found: Calculators = {}
    for calculator, given_ in EfficientFCParameters().items():
        kept = [one for one in (given_ or [{}]) + (BEYOND.get(calculator) or []) if job(calculator, one)]
        if kept:
            found[calculator] = kept if given_ else None
    return found


FAST = fast()
RANDOM = np.random.default_rng(7)
SHAPES: dict[str, Floats] = {
    "random walk": RANDOM.normal(size=300).cumsum(),
    "zeros": np.zeros(300),
    "a constant whose mean is not itself": np.full(300, 0.1),
    "a large constant": np.full(300, 1e15 + 0.3),
    "integers": RANDOM.integers(-3, 9, 300).astype(float),
    "spikes": np.where(RANDOM.random(300) < 0.03, 1e9, 0.0),
    "a counter at 1e15": 1e15 + RANDOM.integers(0, 1000, 300).cumsum().astype(float),
    "steps of a large counter": 1e15 + RANDOM.integers(0, 3, 300).astype(float),
    "a straight line": np.linspace(0.0, 29.9, 300),
    "two values": np.where(np.arange(300) % 2, 0.1, 0.3),
    "noise near zero": RANDOM.normal(size=300) * 1e-9,
    "tenths": RANDOM.normal(size=300).round(1),
}
BOUNDS = ((0, 40), (10, 50), (90, 130), (0, 300), (5, 6), (5, 7), (11, 14), (60, 64), (20, 29), (200, 300))


def reference(x: Floats, calculators: Calculators) -> Iterator[tuple[str, float]]:
    """What tsfresh says about one window, NaN where it refuses it; every parameter is asked on its own."""
    series = pd.Series(x)
    for calculator, given_ in calculators.items():
        function = signals._function(calculator)
        together = getattr(function, "fctype", None) == "combiner"
        for parameters in [given_] if together and given_ else [[one] for one in given_ or [{}]]:
            try:
                with warnings.catch_warnings(), np.errstate(all="ignore"):
                    warnings.simplefilter("ignore")
                    yield from [(part, float(found)) for part, found in signals._call(function, parameters, series)]
            except (ValueError, IndexError, ArithmeticError):
                yield from [(part, np.nan) for part in signals._probe(function, parameters)]


def differences(values: Floats, bounds: tuple[tuple[int, int], ...], calculators: Calculators) -> list[str]:
    starts, ends = np.array(bounds, np.int64).T
    parts, out = signals.columns(values, starts, ends, calculators)
    wrong = []
    for s, row in enumerate(values):
        for w, (start, end) in enumerate(bounds):
            x = row[start:end]
            x = x[~np.isnan(x)]
            for part, wanted in reference(x, calculators) if x.size else ((part, np.nan) for part in parts):
                found = out[s, w, parts.index(part)]
                same = (np.isnan(found) and np.isnan(wanted)) or abs(found - wanted) <= 1e-9 * max(1, abs(wanted))
                if not same:
                    wrong.append(f"series {s}, window {start}:{end}, {part}: {found!r}, tsfresh {wanted!r}")
    return wrong


def test_the_minimal_set_and_forty_calculators_more_are_fast() -> None:
    assert set(MinimalFCParameters()) <= set(FAST)
    whole = [name for name, given_ in EfficientFCParameters().items() if len(FAST.get(name) or []) >= len(given_ or [])]
    assert len(set(whole) & set(FAST)) >= 50


# tsfresh needs a second for its eighty forms of change_quantiles on a dozen windows: every tenth stands for all
FEW: Calculators = {name: given_[::10] if given_ and len(given_) > 40 else given_ for name, given_ in FAST.items()}


@pytest.mark.parametrize("calculator", FAST)
def test_a_calculator_gives_tsfreshs_values(calculator: str) -> None:
    values, asked = np.array(list(SHAPES.values())), {calculator: FAST[calculator]}
    if FEW[calculator] == FAST[calculator]:
        assert differences(values, BOUNDS, asked) == []
        return
    # every shape, every window and every parameter, but not each with each
    assert differences(values, BOUNDS, {calculator: FEW[calculator]}) == []
    assert differences(values[::3], BOUNDS[:2], asked) == []


def test_windows_with_gaps_give_tsfreshs_values_of_the_samples_present() -> None:
    values = np.array(list(SHAPES.values()))
    values[np.random.default_rng(3).random(values.shape) < 0.3] = np.nan
    values[:, 95:125] = np.nan
    assert differences(values, ((0, 40), (90, 130), (95, 125), (123, 127)), FEW) == []


@st.composite
def awkward(draw: st.DrawFn) -> Floats:
    """A short series of few or many different values, at any scale, perhaps with gaps."""
    few = draw(st.lists(st.floats(-1e6, 1e6, allow_subnormal=False), min_size=1, max_size=5))
    scale = draw(st.sampled_from([1e-6, 1.0, 1e3]))
    offset = draw(st.sampled_from([0.0, 0.1, -7.0, 1e9, 1e15]))
    size = draw(st.integers(1, 60))
    pick = draw(st.lists(st.integers(0, len(few) - 1), min_size=size, max_size=size))
    values = offset + scale * np.array(few)[pick]
    if draw(st.booleans()):
        values = values + np.arange(size)
    values[draw(st.lists(st.integers(0, size - 1), max_size=size // 2))] = np.nan
    return values


@given(awkward())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_drawn_series_give_tsfreshs_values(values: Floats) -> None:
    assert differences(values[None], ((0, values.size),), FEW) == []


def test_a_window_gives_the_same_bits_alone_and_in_any_batch() -> None:
    values = np.array(list(SHAPES.values()))
    values[np.random.default_rng(5).random(values.shape) < 0.1] = np.nan
    starts, ends = np.arange(0, 260, 10), np.arange(40, 300, 10)
    _, whole = signals.columns(values, starts, ends, FAST)
    for s in range(0, len(values), 3):
        for w in (0, 7, 25):
            cut = values[s : s + 1, starts[w] : ends[w]].copy()
            _, alone = signals.columns(cut, np.array([0]), np.array([cut.shape[1]]), FAST)
            assert np.array_equal(alone[0, 0], whole[s, w], equal_nan=True)
