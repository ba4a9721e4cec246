from collections import Counter

import numpy as np
import pytest
from numpy.typing import NDArray

from features import panel
from features.settings import PanelSettings
from features.tables import Panel, Series

NAN = float("nan")
STEP = 30_000_000_000


def raw(rows: dict[Series, list[float]]) -> Panel:
    cells = len(next(iter(rows.values())))
    return Panel("n", np.arange(cells) * STEP, tuple(rows), np.array(list(rows.values()), dtype=np.float64))


def cleaned(metric: str, values: list[float], tally: Counter[str] | None = None) -> list[float]:
    return panel.clean(raw({Series(metric): values}), PanelSettings(), tally).values[0].tolist()  # type: ignore[no-any-return]  # numpy says Any


def same(left: object, right: object) -> bool:
    return np.array_equal(np.asarray(left, dtype=float), np.asarray(right, dtype=float), equal_nan=True)


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 9223372036854775794),
        ("DCGM_FI_PROF_SM_ACTIVE", 140737488355328),
        ("DCGM_FI_PROF_DRAM_ACTIVE", 1.40737488355328e16),
        ("DCGM_FI_DEV_GPU_TEMP", 2147483632),
    ],
)
def test_dcgms_codes_for_not_available_are_missing_and_counted(metric: str, value: float) -> None:
    tally: Counter[str] = Counter()
    assert same(cleaned(metric, [value], tally), [NAN])
    assert tally["blank"] == 1


def test_an_energy_counter_above_two_to_the_47_is_a_value() -> None:
    assert same(cleaned("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", [2.0**47 + 100, 2.0**47 + 150]), [NAN, 50])


def test_utilisation_no_gpu_can_have_is_missing_and_counted() -> None:
    tally: Counter[str] = Counter()
    got = cleaned("DCGM_FI_DEV_GPU_UTIL", [0, 97, 4294967295, 0, 41232, 98], tally)
    assert same(got, [0, 97, NAN, 0, NAN, 98])
    assert tally["out_of_range"] == 2


def test_settings_can_say_a_metrics_bounds() -> None:
    settings = PanelSettings(bounds={"node_load1": (0.0, 10.0)})
    assert same(panel.clean(raw({Series("node_load1"): [1, 11]}), settings).values, [[1, NAN]])


def test_infinity_never_passes() -> None:
    assert same(cleaned("node_load1", [1, float("inf"), -float("inf")]), [1, NAN, NAN])


@pytest.mark.parametrize("metric", ["DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"])
def test_of_the_reasons_for_low_clocks_only_slowdowns_and_brakes_count(metric: str) -> None:
    idle, power_cap, heat, brake_and_hardware = 1, 4, 32 + 4, 128 + 8
    assert same(cleaned(metric, [idle, power_cap, heat, NAN, brake_and_hardware]), [0, 0, 1, NAN, 2])


def test_a_reset_adds_the_new_value_and_never_a_negative_rate() -> None:
    tally: Counter[str] = Counter()
    got = cleaned("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", [100, 150, 20, 50], tally)
    assert same(got, [NAN, 50, 20, 30])
    assert tally["resets"] == 1


def test_two_interleaved_replicas_add_only_what_was_really_counted() -> None:
    tally: Counter[str] = Counter()
    got = cleaned("node_intr_total", [500, 498, 510, 507, 520, 518], tally)
    assert np.nansum(got) == 20
    assert tally["resets"] == 0


def test_an_increase_reaches_over_a_short_gap_and_not_over_a_long_one() -> None:
    short = [10, *[NAN] * 9, 30]
    long = [10, *[NAN] * 10, 30]
    assert cleaned("x_total", short)[-1] == 20
    assert np.isnan(cleaned("x_total", long)[-1])


def test_the_target_is_left_out_and_counted() -> None:
    tally: Counter[str] = Counter()
    got = panel.clean(
        raw(
            {
                Series("DCGM_FI_DEV_XID_ERRORS", "GPU-a"): [0, 79],
                Series("DCGM_EXP_XID_ERRORS_COUNT", "GPU-a"): [0, 1],
                Series("DCGM_FI_DEV_GPU_TEMP", "GPU-a"): [60, 61],
            }
        ),
        PanelSettings(),
        tally,
    )
    assert got.series == (Series("DCGM_FI_DEV_GPU_TEMP", "GPU-a"),)
    assert tally["target_series"] == 2


def test_cpus_fold_into_one_series_after_their_increases() -> None:
    got = panel.clean(
        raw(
            {
                Series('node_cpu_seconds_total{cpu="0",mode="user"}'): [100, 110, 120],
                Series('node_cpu_seconds_total{cpu="1",mode="user"}'): [500, NAN, 530],
                Series('node_cpu_scaling_frequency_hertz{cpu="0"}'): [1, 2, 3],
                Series('node_cpu_scaling_frequency_hertz{cpu="1"}'): [3, NAN, 5],
            }
        ),
        PanelSettings(),
    )
    assert [series.metric for series in got.series] == [
        "node_cpu_scaling_frequency_hertz",
        'node_cpu_seconds_total{mode="user"}',
    ]
    assert same(got.values, [[2, 2, 4], [NAN, 10, 40]])


def test_a_clock_becomes_its_step() -> None:
    assert same(cleaned("node_time_seconds", [1000, 1030, 1060]), [NAN, 30, 30])


@pytest.fixture
def busy() -> Panel:
    rng = np.random.default_rng(1)
    values: NDArray[np.float64] = np.cumsum(rng.integers(0, 9, (4, 120)), axis=1).astype(float)
    values[rng.random(values.shape) < 0.2] = NAN
    values[1, 60:] -= np.nanmin(values[1, 60:])
    names = ("a_total", "DCGM_FI_DEV_GPU_TEMP", 'node_cpu_seconds_total{cpu="0"}', 'node_cpu_seconds_total{cpu="1"}')
    return Panel("n", np.arange(120) * STEP, tuple(Series(name) for name in names), values)


def test_a_panel_that_begins_anywhere_gives_the_same_cells_from_staleness_on(busy: Panel) -> None:
    settings = PanelSettings()
    whole = panel.clean(busy, settings).between(50 * STEP, 120 * STEP)
    late = panel.clean(busy.between(40 * STEP, 120 * STEP), settings).between(50 * STEP, 120 * STEP)
    assert np.array_equal(whole.values, late.values, equal_nan=True)


def test_what_comes_later_moves_no_cell_of_the_past(busy: Panel) -> None:
    poisoned = Panel(busy.node, busy.times, busy.series, busy.values.copy())
    poisoned.values[:, 70:] = 1e9
    before = panel.clean(busy, PanelSettings()).values[:, :70]
    after = panel.clean(poisoned, PanelSettings()).values[:, :70]
    assert np.array_equal(before, after, equal_nan=True)


def test_cleaning_changes_nothing_in_the_panel_it_was_given(busy: Panel) -> None:
    before = busy.values.copy()
    panel.clean(busy, PanelSettings())
    assert np.array_equal(before, busy.values, equal_nan=True)
