from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from pipelines import spill
from pipelines.spill import Spill

NAN = np.nan


def filled(folder: Path) -> tuple[list[list[float]], list[str]]:
    made = Spill(4, folder)
    made.put(np.array([2, 0]), pd.DataFrame({"b": [1.0, 2.0], "none": [NAN, NAN]}))
    made.put(np.array([3]), pd.DataFrame({"c": [3.0], "a": [4.0]}))
    made.put(np.array([1]), pd.DataFrame({"b": [5.0]}))
    values, names = made.finish()
    return values.tolist(), names


WANTED = [[NAN, 2.0, NAN], [NAN, 5.0, NAN], [NAN, 1.0, NAN], [4.0, NAN, 3.0]]


def test_rows_come_in_any_order_and_columns_without_a_value_go(tmp_path: Path) -> None:
    values, names = filled(tmp_path)
    assert names == ["a", "b", "c"]
    np.testing.assert_array_equal(values, WANTED)


def test_a_large_matrix_is_the_same_in_a_file_that_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spill, "IN_MEMORY", 0)
    monkeypatch.setattr(spill, "_AT_ONCE", 1)
    values, names = filled(tmp_path)
    assert names == ["a", "b", "c"]
    np.testing.assert_array_equal(values, WANTED)
    assert list(tmp_path.iterdir()) == []
