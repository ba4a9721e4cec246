from pathlib import Path

import numpy as np
import pandas as pd
import pandas.testing as pdt

from features import matrix
from pipelines import rows

ENDS = np.array([300, 600, 900], dtype=np.int64) * 1_000_000_000
NAN = np.nan


def frame(**columns: list[float]) -> pd.DataFrame:
    made = pd.DataFrame(columns, index=matrix.index_of("n1", ENDS), dtype=np.float32)
    return made[sorted(made.columns)]


def kinds(folder: Path, **columns: list[float]) -> rows.Kinds:
    path = folder / "day.parquet"
    path.write_bytes(rows.write(frame(**columns), ENDS))
    return rows.kinds(path)


def test_a_file_is_read_back_bit_for_bit(tmp_path: Path) -> None:
    made = frame(a__mean=[1, 2, NAN], a__maximum=[1, 2, NAN], b__mean=[0, 0, 0], c__mean=[-0.0, 0, 0])
    (tmp_path / "day.parquet").write_bytes(rows.write(made, ENDS))
    pdt.assert_frame_equal(rows.read(tmp_path / "day.parquet", "n1"), made)


def test_a_column_without_a_value_on_any_day_is_idle(tmp_path: Path) -> None:
    first = kinds(tmp_path, a__mean=[NAN] * 3, b__mean=[NAN] * 3)
    second = kinds(tmp_path, a__mean=[NAN] * 3, b__mean=[1, 2, 3])
    assert rows.idle([first, second]) == {"a__mean": "no value"}


def test_of_columns_that_are_alike_on_every_day_the_first_stays(tmp_path: Path) -> None:
    first = kinds(tmp_path, a__mean=[1, 2, 3], b__mean=[1, 2, 3], c__mean=[1, 2, 3])
    second = kinds(tmp_path, a__mean=[4, 5, 6], b__mean=[4, 5, 6], c__mean=[4, 5, 7])
    assert rows.idle([first, second]) == {"b__mean": "same as a__mean"}


def test_a_metric_that_never_moved_keeps_a_column_of_its_own(tmp_path: Path) -> None:
    day = kinds(tmp_path, a__maximum=[0, 0, 0], a__mean=[0, 0, 0], b__maximum=[0, 0, 0])
    assert rows.idle([day]) == {"a__mean": "same as a__maximum"}


def test_a_column_that_is_absent_from_a_day_is_not_its_twin(tmp_path: Path) -> None:
    first = kinds(tmp_path, a__mean=[1, 2, 3])
    second = kinds(tmp_path, a__mean=[4, 5, 6], b__mean=[4, 5, 6])
    assert rows.idle([first, second]) == {}
    assert rows.idle([second, first]) == {}
