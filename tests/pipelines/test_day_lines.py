"""A day of log lines is the same rows in the same file, whether it was held in memory or sorted on disk."""

import random
from pathlib import Path
from unittest.mock import patch

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from features.tables import LOGS
from pipelines import day_lines
from pipelines.day_lines import DayLines, lines_statistics

NEW_YEAR = pd.Timestamp("2026-01-01T00:00:00Z")


def batch(*lines: tuple[int, str, int, int], source: str = "app") -> object:
    """Lines of second, message, count and place in the input."""
    rows = [
        {
            "node": "old-name", "time": NEW_YEAR + pd.Timedelta(seconds=second), "source": source, "severity": "",
            "message": message, "kernel": False, "count": count, "seq": seq,
        }
        for second, message, count, seq in lines
    ]  # fmt: skip
    (made,) = pa.Table.from_pandas(pd.DataFrame(rows), preserve_index=False).to_batches()
    return made


def day(folder: Path, inputs: dict[int, list[object]], memory_bytes: int) -> list[list[object]]:
    lines = DayLines("n1", folder, memory_bytes)
    for number, batches in inputs.items():
        for rows in batches:
            lines.add(number, rows)
    table = pa.concat_tables(lines.groups())
    frame = table.to_pandas()
    assert set(frame["node"]) == {"n1"}
    assert list(folder.iterdir()) == []  # the database has no name
    return [
        list(row) for row in zip((frame["time"] - NEW_YEAR).dt.seconds, frame["message"], frame["count"], strict=True)
    ]


@pytest.mark.parametrize("memory_bytes", [1 << 30, 0])
def test_counts_of_one_input_are_summed_and_between_inputs_the_largest_holds(tmp_path: Path, memory_bytes: int) -> None:
    one = [batch((1, "b", 2, 0), (0, "z", 1, 1)), batch((1, "b", 1, 2))]
    other = [batch((1, "b", 2, 0), (1, "a", 1, 1))]
    assert day(tmp_path, {0: one, 1: other}, memory_bytes) == [[0, "z", 1], [1, "b", 3], [1, "a", 1]]


@pytest.mark.parametrize("lines_at_once", [1, 7, 10_000])
def test_a_day_on_disk_is_the_day_in_memory(tmp_path: Path, lines_at_once: int) -> None:
    draw = random.Random(3)  # noqa: S311  # any lines will do
    inputs = {
        number: [
            batch(*((draw.randrange(12), draw.choice("abcdé"), draw.randint(1, 3), place) for place in range(60)))
            for _ in range(3)
        ]
        for number in range(3)
    }
    wanted = day(tmp_path, inputs, 1 << 30)
    with patch.object(day_lines, "_AT_ONCE", lines_at_once):
        assert day(tmp_path, inputs, 0) == wanted


def test_row_groups_end_where_the_lines_say(tmp_path: Path) -> None:
    lines = [batch(*((second, "x" * 40, 1, second) for second in range(low, low + 10))) for low in range(0, 50, 10)]
    for memory_bytes in (1 << 30, 0):
        held = DayLines("n1", tmp_path, memory_bytes)
        for rows in lines:
            held.add(0, rows)
        with patch.object(day_lines, "GROUP_BYTES", 520), patch.object(day_lines, "_AT_ONCE", 7):
            assert [len(group) for group in held.groups()] == [13, 13, 13, 11]


def test_a_file_says_when_it_begins_and_ends_and_how_many_lines_it_holds(tmp_path: Path) -> None:
    held = DayLines("n1", tmp_path)
    held.add(0, batch((2, "b", 5, 0), (1, "a", 1, 1)))
    (group,) = held.groups()
    assert group.column_names == [*LOGS.columns, "seq"]
    assert group.schema.metadata is None  # a library's version in it would make other bytes of the same lines
    pq.write_table(group, tmp_path / "x")
    first = NEW_YEAR.value
    assert lines_statistics(tmp_path / "x") == {"first_ns": first + 10**9, "last_ns": first + 2 * 10**9, "lines": 6}
