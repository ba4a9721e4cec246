"""Windows in a row."""

import numpy as np
import pandas as pd

from models.persistence import persist, run_length
from models.scorers import Place, place


def windows(*nodes: str, minutes: list[int] | None = None) -> Place:
    end = pd.to_datetime(
        [5 * 60 * (m if minutes is None else minutes[m]) for m in range(len(nodes))], unit="s", utc=True
    )
    return place(pd.DataFrame({"x": 0.0}, index=pd.MultiIndex.from_arrays([nodes, end])))


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
