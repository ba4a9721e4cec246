"""A GPU against the other GPUs of its node."""

import numpy as np
import pytest

from features import matrix, siblings
from features.presence import Roster
from features.settings import FeatureSettings
from features.tables import Panel, Series

NAN = float("nan")
STEP = 30_000_000_000
TEMP = "DCGM_FI_DEV_GPU_TEMP"
POWER = "DCGM_FI_DEV_POWER_USAGE"
KNOWN = Roster(("GPU-a", "GPU-b", "GPU-c"), ("0000:4b:00", "0000:3b:00", "0000:18:00"), (0, 0, 0))


AT_WORK = 97.0


WINDOW = np.array([0]), np.array([10])
UNTOLD = np.full((3, 10), NAN)


def distance(
    *values: float, use: tuple[float, ...] | None = None, watts: tuple[float, ...] | None = None
) -> list[float]:
    """Of GPUs that have one value each in all ten cells of a window."""
    told = (values, use or (AT_WORK,) * len(values), watts or (NAN,) * len(values))
    held, busy, drawn = (np.repeat(np.array(each)[:, None], 10, axis=1) for each in told)
    found = siblings.distances(held, siblings.peers(range(len(values)), busy, drawn, 1), *WINDOW)
    return [round(float(value), 3) for value in found[:, 0]]


def test_a_gpu_is_as_far_from_its_siblings_as_a_share_of_the_larger_of_the_two() -> None:
    assert distance(50, 100, 100, 200) == [-0.5, 0, 0, 0.5]


def test_what_all_gpus_do_together_is_no_distance() -> None:
    assert distance(300, 300, 300) == distance(700, 700, 700) == [0, 0, 0]


def test_gpus_that_all_do_nothing_are_alike() -> None:
    assert distance(0, 0, 0) == [0, 0, 0]
    assert distance(0, 0, 7) == [0, 0, 0]


def test_of_two_gpus_nobody_says_which_is_odd() -> None:
    assert np.isnan(distance(50, NAN, 100)).all()


def test_a_gpu_without_samples_has_no_distance_and_its_siblings_keep_theirs() -> None:
    found = distance(60, 60, NAN, 80)
    assert found[:2] == [0, 0]
    assert np.isnan(found[2])
    assert found[3] == 0.25


def test_where_some_gpus_work_only_these_are_compared() -> None:
    found = distance(1400, 1400, 210, 700, use=(AT_WORK, AT_WORK, 0, AT_WORK))
    assert found[:2] == [0, 0]
    assert np.isnan(found[2])
    assert found[3] == -0.5


def test_a_gpu_with_a_load_of_its_own_is_not_compared() -> None:
    assert np.isnan(distance(60, 60, 45, 60, use=(AT_WORK, AT_WORK, 70, AT_WORK))[2])


def test_a_gpu_that_draws_far_less_power_does_other_work() -> None:
    found = distance(60, 60, 45, 60, 63, watts=(300, 310, 120, 300, 270))
    assert found[:2] == [0, 0]
    assert np.isnan(found[2])
    assert found[4] == pytest.approx(0.05, abs=0.01)


def test_without_utilisation_all_are_compared() -> None:
    assert distance(50, 100, 100, use=(NAN, NAN, NAN)) == [-0.5, 0, 0]


@pytest.mark.parametrize(("settled", "expected"), [(3, 0.0), (8, NAN)])
def test_a_gpu_is_compared_only_once_it_has_worked_for_a_while(settled: int, expected: float) -> None:
    use = np.full((3, 10), AT_WORK)
    use[2, :5] = 0.0  # begins in the window's middle, cold
    values = np.full((3, 10), 60.0)
    values[2, :7] = 40.0
    found = siblings.distances(values, siblings.peers(range(3), use, UNTOLD, settled), *WINDOW)
    np.testing.assert_equal(found[2, 0], expected)


def test_a_lost_scrape_of_utilisation_is_no_change_of_work() -> None:
    use = np.full((3, 10), AT_WORK)
    use[2, 5] = NAN
    found = siblings.distances(np.full((3, 10), 60.0), siblings.peers(range(3), use, UNTOLD, 4), *WINDOW)
    assert found[:, 0].tolist() == [0, 0, 0]


def test_places_go_by_pci_address() -> None:
    assert siblings.places(KNOWN, ("GPU-a", "GPU-b", "GPU-c")) == {"GPU-c": 0, "GPU-b": 1, "GPU-a": 2}


def test_a_gpu_that_is_put_in_has_the_place_of_the_one_it_replaces() -> None:
    later = Roster((*KNOWN.gpus, "GPU-0new"), (*KNOWN.pci, "0000:3b:00"), (*KNOWN.first, 99))
    places = siblings.places(later, ())
    assert places["GPU-0new"] == places["GPU-b"] == 1
    assert {places["GPU-a"], places["GPU-c"]} == {0, 2}


def test_without_addresses_a_new_gpu_moves_no_other_from_its_place() -> None:
    unplaced = Roster(("GPU-b", "GPU-c", "GPU-a"), ("", "", ""), (0, 0, 99))
    assert siblings.places(unplaced, ("GPU-x",)) == {"GPU-b": 0, "GPU-c": 1, "GPU-a": 2, "GPU-x": 3}


def rows(temperatures: dict[str, float], known: Roster = KNOWN) -> dict[str, float]:
    series = tuple(Series(TEMP, gpu) for gpu in temperatures) + tuple(Series(POWER, gpu) for gpu in temperatures)
    values = np.array([[value] * 50 for value in temperatures.values()] + [[400.0] * 50] * len(temperatures))
    panel = Panel("n", np.arange(50) * STEP, series, values)
    got = matrix.node_rows(panel, np.array([50 * STEP]), FeatureSettings(), known, step_ns=STEP)
    return {name: round(float(got[name].iloc[0]), 3) for name in map(str, got) if siblings.is_own(name)}


def test_each_gauge_of_gpus_has_a_column_for_each_place() -> None:
    got = rows({"GPU-a": 60, "GPU-b": 60, "GPU-c": 80})
    assert {name: value for name, value in got.items() if name.startswith(TEMP)} == {
        f"{TEMP}.gpu_0__from_siblings": 0.25,
        f"{TEMP}.gpu_1__from_siblings": 0,
        f"{TEMP}.gpu_2__from_siblings": 0,
    }
    assert [value for name, value in got.items() if name.startswith(POWER)] == [0, 0, 0]


def test_counters_have_no_such_columns() -> None:
    values = np.arange(50) * np.array([[100.0], [100.0], [400.0]])
    series = tuple(Series("DCGM_FI_DEV_POWER_VIOLATION", gpu) for gpu in KNOWN.gpus)
    panel = Panel("n", np.arange(50) * STEP, series, values)
    got = matrix.node_rows(panel, np.array([50 * STEP]), FeatureSettings(), KNOWN, step_ns=STEP)
    assert not [name for name in map(str, got) if siblings.is_own(name)]


def test_a_lost_gpu_moves_no_siblings_column() -> None:
    four = Roster((*KNOWN.gpus, "GPU-d"), (*KNOWN.pci, "0000:5d:00"), (0, 0, 0, 0))
    with_all = rows({"GPU-a": 60, "GPU-b": 60, "GPU-c": 80, "GPU-d": 60}, four)
    without = rows({"GPU-a": 60, "GPU-c": 80, "GPU-d": 60}, four)
    assert without.items() <= with_all.items()


@pytest.mark.parametrize(("column", "gpu"), [("gpu_0", "GPU-c"), ("gpu_2", "GPU-a")])
def test_the_suspect_of_such_a_column_is_the_gpu_in_that_place(column: str, gpu: str) -> None:
    panel = Panel("n", np.arange(50) * STEP, tuple(Series(TEMP, one) for one in KNOWN.gpus), np.full((3, 50), 60.0))
    found = matrix.suspect(
        panel, f"{TEMP}.{column}__from_siblings", 50 * STEP, settings=FeatureSettings(), known=KNOWN, step_ns=STEP
    )
    assert found == gpu
