"""Days of scores become Parquet once they are over."""

import errno
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest

from features.tables import ForeshockError, to_ns
from pipelines.writers import history, jsonlines
from tests.pipelines.job import rows


def lines(folder: Path, *stamps: str) -> None:
    for stamp in stamps:
        jsonlines.write(folder / "scores", stamp, rows(1.5, nodes=2))


def write(folder: Path, end: str) -> list[str]:
    history.write(folder / "scores", folder / "history", to_ns(end))
    return sorted(path.name for path in (folder / "history").glob("*"))


@pytest.mark.parametrize("end", ["2026-01-01T23:55:00Z", "2026-01-02T00:55:00Z"])
def test_a_day_that_late_runs_may_add_to_is_left_alone(tmp_path: Path, end: str) -> None:
    lines(tmp_path, "20260101T235500Z")
    assert write(tmp_path, end) == []


def test_a_day_that_is_over_is_one_file_of_its_rows(tmp_path: Path) -> None:
    lines(tmp_path, "20260101T235000Z", "20260101T235500Z", "20260102T000000Z")
    assert write(tmp_path, "2026-01-02T01:00:00Z") == ["2026-01-01.parquet"]
    found = pd.read_parquet(tmp_path / "history" / "2026-01-01.parquet")
    assert found["node"].tolist() == ["n0", "n1", "n0", "n1"]
    assert found["score"].tolist() == [1.5, 0.2, 1.5, 0.2]
    assert found["window_end"].nunique() == 2


def test_a_day_without_any_score_is_a_file_too(tmp_path: Path) -> None:
    silent = [{**row, "score": None, "probability": None} for row in rows(0.1, nodes=2)]
    jsonlines.write(tmp_path / "scores", "20260101T235500Z", silent)
    write(tmp_path, "2026-01-02T01:00:00Z")
    assert pd.read_parquet(tmp_path / "history" / "2026-01-01.parquet")["score"].isna().all()


def test_lines_older_than_a_month_are_in_parquet_only(tmp_path: Path) -> None:
    lines(tmp_path, "20260101T235500Z", "20260131T000000Z")
    assert write(tmp_path, "2026-02-02T02:00:00Z") == ["2026-01-01.parquet", "2026-01-31.parquet"]
    assert [path.name for path in (tmp_path / "scores").iterdir()] == ["20260131T000000Z.jsonl"]


def test_lines_that_can_t_be_taken_away_are_one_line(tmp_path: Path) -> None:
    lines(tmp_path, "20260101T235500Z")
    refuse = OSError(errno.EROFS, "Read-only file system")
    with mock.patch.object(Path, "unlink", side_effect=refuse), pytest.raises(ForeshockError, match="Read-only"):
        write(tmp_path, "2026-02-02T02:00:00Z")
