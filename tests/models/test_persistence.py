"""Windows in a row."""

import numpy as np
import pandas as pd
import pytest

from models.persistence import hourly, lasting, persist, run_length
from models.scorers import Place, place


def windows(*nodes: str, minutes: list[int] | None = None) -> Place:
    end = pd.to_datetime(
        [5 * 60 * (m if minutes is None else minutes[m]) for m in range(len(nodes))], unit="s", utc=True
    )
    return place(pd.DataFrame({"x": 0.0}, index=pd.MultiIndex.from_arrays([nodes, end])))


def test_what_goes_on_for_two_hours_counts_more_and_half_an_hour_as_before() -> None:
    quiet, sign = [[0.0]] * 40, [[3.0]]
    half, eighty, longer = (lasting(np.array(quiet + sign * n), windows(*"a" * (40 + n)))[-1, 0] for n in (6, 16, 24))
    assert half == pytest.approx(3 * np.mean([1, 1, 6 / 8, 6 / 16]))
    assert eighty == pytest.approx(3.0)
    assert longer == pytest.approx(3.0 + 0.5 * (3.0 - 2.0))


def test_a_lone_window_keeps_a_third_and_the_third_in_a_row_counts_fully() -> None:
    kept = persist(np.array([0.0, 0, 3, 3, 3, 0]), windows(*"aaaaaa"), 3)
    assert kept.tolist() == [0, 0, 1, 2, 3, 0]


def test_the_first_windows_of_a_node_use_what_is_there() -> None:
    assert persist(np.array([3.0, 3, 9, 9]), windows(*"aabb"), 3).tolist() == [3, 3, 9, 9]


def test_windows_behind_a_hole_do_not_confirm_each_other() -> None:
    assert persist(np.array([0.0, 0, 3]), windows(*"aaa", minutes=[0, 1, 50]), 2).tolist() == [0, 0, 3]


def test_rows_come_back_in_their_order() -> None:
    mixed = windows("a", "b", "a", "b")
    assert persist(np.array([0.0, 6, 4, 6]), mixed, 2).tolist() == [0, 6, 2, 6]


def test_each_column_persists_by_itself() -> None:
    kept = persist(np.array([[4.0, 0], [0, 4], [4, 4]]), windows(*"aaa"), 2)
    assert kept.tolist() == [[4, 0], [0, 2], [2, 4]]


def test_more_windows_than_there_are_is_no_error() -> None:
    assert persist(np.array([2.0]), windows("a"), 6).tolist() == [2]


def test_run_length_counts_marked_windows_of_a_node_in_a_row() -> None:
    marked = np.array([1, 1, 0, 1, 1, 1], dtype=bool)
    assert run_length(marked, windows(*"aaaabb")).tolist() == [1, 2, 0, 1, 1, 2]
    assert run_length(np.ones(9, dtype=bool), windows(*"a" * 9), most=6)[-1] == 6


def test_what_lasts_eighty_minutes_counts_fully_and_a_lone_window_for_the_mean_of_its_shares() -> None:
    steady = lasting(np.full((16, 1), 3.0), windows(*"a" * 16))
    lone = lasting(np.array([[0.0]] * 15 + [[3.0]]), windows(*"a" * 16))
    assert steady[-1, 0] == pytest.approx(3)
    assert lone[-1, 0] == pytest.approx(3 * (1 / 2 + 1 / 4 + 1 / 8 + 1 / 16) / 4)


def test_a_burst_counts_for_little_more_the_stronger_it_is() -> None:
    strong, stronger = (lasting(np.array([[0.0], [size]]), windows(*"aa"))[-1, 0] for size in (5.0, 9.0))
    assert strong < stronger < 1.1 * strong


def test_an_hour_of_a_mild_sign_outweighs_a_strong_burst() -> None:
    mild = lasting(np.full((16, 1), 3.5), windows(*"a" * 16))
    burst = lasting(np.array([[0.0]] * 12 + [[9.0]] * 4), windows(*"a" * 16))
    assert mild[-1, 0] > burst[-1, 0]


def test_what_lasts_looks_back_by_time_and_never_to_another_node() -> None:
    values = np.array([[9.0], [9.0], [0.0], [0.0]])
    assert lasting(values, windows(*"aabb"))[2:].tolist() == [[0], [0]]
    behind_a_hole = lasting(values, windows(*"aaaa", minutes=[0, 1, 40, 41]))
    assert behind_a_hole[2:].tolist() == [[0], [0]]


def test_the_last_row_is_the_same_with_more_history_before_it() -> None:
    values = np.random.default_rng(0).random((40, 2)).astype(np.float32)
    whole = lasting(values, windows(*"a" * 40))
    assert lasting(values[-24:], windows(*"a" * 24))[-1].tobytes() == whole[-1].tobytes()


def test_an_hour_of_a_node_counts_once_by_its_largest() -> None:
    found = hourly(np.arange(26.0)[:, None], windows(*"a" * 13, *"b" * 13))
    assert found[:, 0].tolist() == [11, 12, 13 + 10, 13 + 12]
