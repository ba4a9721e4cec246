import warnings
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest
from tsfresh import extract_features
from tsfresh.feature_extraction.settings import from_columns

from features import matrix, names, presence, windows
from features.settings import FeatureSettings, SignalSettings, WindowSettings
from features.tables import EVENTS, FAILURES, Panel, Series, to_time

SETTINGS = FeatureSettings(window=WindowSettings(length=timedelta(minutes=20)))
STEP = 30_000_000_000
CELLS = 50
END = np.array([CELLS * STEP])
NOBODY = presence.Roster()
NAN = float("nan")
TEMP = "DCGM_FI_DEV_GPU_TEMP"
PAST = matrix.Past(FAILURES.empty(), EVENTS.empty())


def node(name: str = "n", seed: int = 0) -> Panel:
    rng = np.random.default_rng(seed)
    series = (Series("a:b"), Series("node_intr_total"), *(Series(TEMP, f"GPU-{gpu}") for gpu in "abc"))
    values = rng.normal(50, 2, (5, CELLS))
    values[1] = np.arange(CELLS) * 7
    values[2:] = [[60] * CELLS, [70] * CELLS, [95] * CELLS]
    return Panel(name, np.arange(CELLS) * STEP, series, values)


def row(panel: Panel, settings: FeatureSettings = SETTINGS) -> dict[str, float]:
    got = matrix.node_rows(panel, END, settings, NOBODY, step_ns=STEP)
    return dict(zip(got.columns, got.iloc[0].astype(float).tolist(), strict=True))


def test_gpu_series_become_the_nodes_by_maximum_minimum_and_spread() -> None:
    got = row(node())
    assert [got[f"{TEMP}.{step}__mean"] for step in matrix.OVER_GPUS] == [95, 60, 35]


def test_the_spread_of_a_single_gpu_is_unknown() -> None:
    panel = node()
    panel.values[3:] = NAN
    got = row(panel)
    assert got[f"{TEMP}.gpu_max__mean"] == got[f"{TEMP}.gpu_min__mean"] == 60
    assert np.isnan(got[f"{TEMP}.gpu_spread__mean"])


def test_a_counter_gives_columns_of_its_increases_only() -> None:
    got = row(node())
    assert got["node_intr_total__sum_values"] == 40 * 7
    assert "node_intr_total__mean" not in got


def test_a_row_holds_what_tsfresh_itself_gives_on_the_window() -> None:
    panel = node()
    long = pd.DataFrame({"id": 0, "time": np.arange(40), names.escape("a:b"): panel.values[0, 10:]})
    wanted = [column for column in row(panel) if column.startswith(names.escape("a:b"))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = extract_features(
            long,
            column_id="id",
            column_sort="time",
            kind_to_fc_parameters=from_columns(wanted),
            n_jobs=0,
            disable_progressbar=True,
        )
    assert len(wanted) == len(SETTINGS.signals.gauge)
    assert [row(panel)[column] for column in wanted] == pytest.approx(theirs[wanted].iloc[0].tolist(), rel=1e-6)


def test_an_empty_window_has_the_same_columns_and_knows_nothing() -> None:
    panel = node()
    panel.values[:] = NAN
    got = row(panel)
    metrics = [value for column, value in got.items() if not column.startswith(("presence.", "phase."))]
    assert list(got) == list(row(node()))
    assert np.isnan(metrics).all()
    assert got["presence.node_down__value"] == 1


def test_a_calculator_that_gives_infinity_gives_nothing() -> None:
    settings = FeatureSettings(signals=SignalSettings(gauge={"variation_coefficient": None, "mean": None}, counter={}))
    panel = node()
    panel.values[0] = 0
    assert np.isfinite([value for value in row(panel, settings).values() if not np.isnan(value)]).all()


def test_a_panel_that_covers_less_than_was_asked_is_unknown_there() -> None:
    short = matrix.cover(node().between(20 * STEP, 30 * STEP), 15 * STEP, 32 * STEP, STEP)
    assert short.times.tolist() == [cell * STEP for cell in range(15, 32)]
    assert np.isnan(short.values[0]).tolist() == [True] * 5 + [False] * 10 + [True] * 2


def test_joined_rows_come_in_the_order_of_the_windows_and_an_unknown_one_is_nan() -> None:
    rows = matrix.stack(
        matrix.node_rows(node(name, seed), END, SETTINGS, NOBODY, step_ns=STEP) for seed, name in enumerate("abcd")
    )
    asked = windows.at("abcde", [int(END[0])], SETTINGS.window).iloc[[4, 2, 0]]
    got = matrix.join(rows, asked, SETTINGS, PAST).X
    assert got.index.get_level_values("node").tolist() == ["e", "c", "a"]
    assert got.index.get_level_values("end").unique().tolist() == [to_time(int(END[0]))]
    known = got["presence.frozen__value"].isna().tolist()
    assert known == [True, False, False]
    assert got.columns.is_monotonic_increasing
    assert got["a-3Ab.peer__mean"].notna().tolist() == [False, True, True]


def test_every_column_can_be_split_back() -> None:
    rows = matrix.node_rows(node(), END, SETTINGS, NOBODY, step_ns=STEP)
    asked = windows.at(["n"], [int(END[0])], SETTINGS.window)
    for column in matrix.join(rows, asked, SETTINGS, PAST).X.columns:
        metric, steps, calculator = names.split(column)
        assert names.column(metric, *steps, calculator=calculator) == column


@pytest.mark.parametrize(
    ("column", "gpu"),
    [
        (f"{TEMP}.gpu_max__mean", "GPU-c"),
        (f"{TEMP}.gpu_max.peer__mean", "GPU-c"),
        (f"{TEMP}.gpu_min__mean", "GPU-a"),
        (f"{TEMP}.gpu_spread__maximum", "GPU-c"),
        ("a-3Ab__mean", ""),
        ("presence.gpu_missing__value", ""),
    ],
)
def test_the_suspect_is_the_gpu_that_makes_the_columns_value(column: str, gpu: str) -> None:
    assert matrix.suspect(node(), column, int(END[0]), settings=SETTINGS, known=NOBODY, step_ns=STEP) == gpu


def test_of_missing_gpus_the_suspect_is_the_one_that_is_gone() -> None:
    panel = node()
    panel.values[3, 40:] = NAN
    column = "presence.gpu_missing__value"
    assert matrix.suspect(panel, column, int(END[0]), settings=SETTINGS, known=NOBODY, step_ns=STEP) == "GPU-b"
