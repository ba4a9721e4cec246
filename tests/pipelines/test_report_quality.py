"""What was missing is counted, and silent nodes are named."""

import numpy as np
import pandas as pd

from features.tables import Matrix
from pipelines import report_quality
from tests.models.planted import windows_of


def matrix_with(silent: list[int]) -> Matrix:
    windows = windows_of(2, 0.25)
    X = pd.DataFrame({report_quality._SILENT: np.zeros(len(windows), dtype=np.float32), "a": 1.0, "b": np.nan})
    X.loc[silent, report_quality._SILENT] = 600.0
    X.index = pd.MultiIndex.from_frame(windows[["node", "end"]])
    return Matrix(windows, X)


def test_windows_in_a_row_are_one_gap() -> None:
    found = report_quality.gaps(matrix_with([3, 4, 5, 20]))
    assert found["count"] == 2
    assert [round(gap["hours"] * 60) for gap in found["longest"]] == [15, 5]


def test_no_silence_is_no_gap() -> None:
    assert report_quality.gaps(matrix_with([]))["count"] == 0


def test_the_share_of_missing_values_is_of_all_values() -> None:
    assert abs(report_quality.missing(matrix_with([]))["missing_share"] - 1 / 3) < 1e-6
