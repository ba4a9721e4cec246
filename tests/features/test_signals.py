import numba.core.caching
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from tsfresh import extract_features
from tsfresh.feature_extraction.feature_calculators import set_property
from tsfresh.feature_extraction.settings import ComprehensiveFCParameters, MinimalFCParameters, from_columns

from features import compiling, signals
from features.settings import SignalSettings
from features.tables import SchemaError, UsageError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
NAN = np.nan
DEFAULT = SignalSettings().gauge


def windows(
    values: list[float], *bounds: tuple[int, int]
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64]]:
    starts, ends = np.array(bounds, np.int64).reshape(-1, 2).T
    return np.array([values], float), starts, ends


def value(values: list[float], calculator: str, **parameters: object) -> float:
    _, out = signals.columns(*windows(values, (0, len(values))), {calculator: [parameters] if parameters else None})
    return float(out[0, 0, 0])


def test_columns_carry_tsfreshs_names_in_the_order_of_the_settings() -> None:
    parts, out = signals.columns(*windows([1, 2, 3, 5], (0, 4)), DEFAULT)
    assert parts == ("mean", "maximum", "minimum", "standard_deviation", 'linear_trend__attr_"slope"')
    assert out[0, 0].tolist() == pytest.approx([2.75, 5, 1, 2.1875**0.5, 1.3])


def test_values_and_names_are_those_of_extract_features() -> None:
    settings = {**MinimalFCParameters(), **DEFAULT, "ar_coefficient": [{"coeff": 1, "k": 2}], "quantile": [{"q": 0.1}]}
    x = np.random.default_rng(1).normal(size=40).cumsum()
    frame = pd.DataFrame({"id": 0, "value": x})
    wanted = extract_features(
        frame, column_id="id", default_fc_parameters=settings, n_jobs=0, disable_progressbar=True
    ).iloc[0]
    parts, out = signals.columns(x[None], np.array([0]), np.array([40]), settings)
    assert {f"value__{part}" for part in parts} == set(wanted.index)
    assert out[0, 0].tolist() == pytest.approx([wanted[f"value__{part}"] for part in parts], abs=1e-9, rel=1e-9)


def test_tsfresh_reads_all_columns_back() -> None:
    settings = ComprehensiveFCParameters()
    parts = signals.parts_of(settings, timed=True)
    assert len(parts) > 780
    again = from_columns([f"m__{part}" for part in parts])["m"]
    assert signals.parts_of(again, timed=True) == parts


def test_gaps_are_closed_before_a_window_is_judged() -> None:
    _, out = signals.columns(*windows([NAN, 1, NAN, 2, 3, NAN, 9], (0, 6)), DEFAULT)
    _, closed = signals.columns(*windows([1, 2, 3], (0, 3)), DEFAULT)
    assert np.array_equal(out, closed)


def test_an_empty_window_gives_nan_for_every_calculator() -> None:
    settings = ComprehensiveFCParameters()
    for unwanted in ("matrix_profile", "linear_trend_timewise"):
        settings.pop(unwanted, None)
    _, out = signals.columns(*windows([1, NAN, NAN, 2], (1, 3), (2, 2)), settings)
    assert np.isnan(out).all()


def test_the_end_of_a_window_is_excluded() -> None:
    _, out = signals.columns(*windows([1, 2, 300], (0, 2)), {"maximum": None})
    assert out.tolist() == [[[2.0]]]


def test_what_tsfresh_refuses_is_nan() -> None:
    assert np.isnan(value([1.0], "linear_trend", attr="slope"))
    assert np.isnan(value([1e17] * 5, "binned_entropy", max_bins=10))


def test_a_calculator_without_a_fast_form_is_tsfreshs_own() -> None:
    assert value([1, 0, 0, 1, 1, 1], "lempel_ziv_complexity", bins=2) == pytest.approx(4 / 6)  # 1, 0, 01, 11


def test_parameters_outside_the_fast_form_go_to_tsfresh() -> None:
    assert value([1, 2, 3, 4, 5, 6], "agg_linear_trend", attr="slope", chunk_len=2, f_agg="sum") == pytest.approx(4)


def test_a_calculator_of_ones_own_is_accepted() -> None:
    @set_property("fctype", "simple")  # type: ignore[untyped-decorator]  # tsfresh has no types
    def last(x: NDArray[np.float64]) -> float:
        return float(x[-1])

    parts, out = signals.columns(*windows([1, 2, NAN], (0, 3)), {last: None})
    assert (parts, out.tolist()) == (("last",), [[[2.0]]])


def test_time_based_columns_need_the_length_of_a_cell() -> None:
    settings = {"linear_trend_timewise": [{"attr": "slope"}]}
    data = windows([0, NAN, 2, 3], (0, 4))
    assert signals.columns(*data, settings)[0] == ()
    _, out = signals.columns(*data, settings, step_ns=1_800_000_000_000)
    assert out[0, 0, 0] == pytest.approx(2.0)  # one more each half hour, the gap not closed


def test_a_column_asked_for_twice_comes_once() -> None:
    parts, _ = signals.columns(*windows([1, 2], (0, 2)), {"quantile": [{"q": 0.5}, {"q": 0.5}]})
    assert parts == ("quantile__q_0.5",)


def test_an_unknown_calculator_is_one_clear_line() -> None:
    with pytest.raises(UsageError, match="no calculator 'meen'"):
        signals.columns(*windows([1], (0, 1)), {"meen": None})


def test_parameters_that_tsfresh_refuses_are_one_clear_line() -> None:
    with pytest.raises(UsageError, match="refuses the parameters"):
        signals.columns(*windows([1], (0, 1)), {"number_peaks": [{"m": 1}]})


def test_a_window_outside_the_cells_is_refused() -> None:
    with pytest.raises(SchemaError, match="outside the 2 cells"):
        signals.columns(*windows([1, 2], (0, 3)), DEFAULT)


def test_no_series_and_no_windows_give_empty_columns() -> None:
    assert signals.columns(np.empty((0, 5)), np.array([0]), np.array([5]), DEFAULT)[1].shape == (0, 1, 5)
    assert signals.columns(np.empty((2, 5)), np.array([], int), np.array([], int), DEFAULT)[1].shape == (2, 0, 5)


def test_a_folder_without_room_for_compiled_code_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.core.caching.CompileResultCacheImpl, "_locator_classes", [])

    def double(x: float) -> float:
        return 2 * x

    assert compiling.compiled(double)(2.0) == 4.0
