import numpy as np
import pandas as pd

from features.floods import FLOOD, folded, joined, stretch
from features.masking import lines_table
from features.settings import WindowSettings, parse_duration
from features.tables import LOGS, conform

MINUTE = 60_000_000_000


def table(*lines: tuple[str, int, str]) -> pd.DataFrame:
    """Masked lines from (node, second, message)."""
    rows = [
        {"node": node, "time": pd.Timestamp(second, unit="s", tz="UTC"), "message": text, "count": 1}
        for node, second, text in lines
    ]
    return lines_table(conform(pd.DataFrame(rows), LOGS)).table


def told(lines: pd.DataFrame) -> list[tuple[str, int, str, int]]:
    seconds = lines["time"].astype("int64") // 10**9
    return list(zip(lines["node"], seconds, lines["masked"], lines["count"], strict=True))


def test_few_lines_stay_as_they_are() -> None:
    lines = table(("a", 1, "x"), ("a", 2, "x"), ("a", 3, "y"))
    found, lost = folded(lines, MINUTE, 3)
    assert lost == 0
    pd.testing.assert_frame_equal(found, lines)


def test_a_flood_of_equal_lines_is_one_row_with_their_number() -> None:
    found, lost = folded(table(*(("a", k, "x") for k in range(6)), ("a", 70, "x")), MINUTE, 3)
    assert told(found) == [("a", 0, "x", 6), ("a", 70, "x", 1)]
    assert lost == 0


def test_equal_lines_of_different_minutes_stay_apart() -> None:
    found, _ = folded(table(*(("a", k, "x") for k in range(0, 120, 20))), 2 * MINUTE, 3)
    assert told(found) == [("a", 0, "x", 3), ("a", 60, "x", 3)]


def test_of_a_flood_of_different_lines_the_first_are_kept_and_the_rest_counted() -> None:
    found, lost = folded(table(*(("a", k, f"word{c}") for k, c in enumerate("zyxwv"))), MINUTE, 2)
    assert told(found) == [("a", 0, "wordz", 1), ("a", 1, "wordy", 1), ("a", 2, FLOOD, 3)]
    assert found["example"].tolist() == ["wordz", "wordy", FLOOD]
    assert lost == 3


def test_another_nodes_flood_and_another_stretchs_touch_no_line() -> None:
    flood = [("a", k, f"word{c}") for k, c in enumerate("zyxwv")]
    calm = [("b", 3, "b1"), ("a", 61, "later"), ("a", 62, "later")]
    found, _ = folded(table(*flood, *calm), MINUTE, 2)
    assert told(found)[2:] == [("a", 2, FLOOD, 3), ("b", 3, "b<NUM>", 1), ("a", 61, "later", 1), ("a", 62, "later", 1)]


def test_a_line_that_says_what_a_flood_is_called_makes_no_trouble() -> None:
    found, lost = folded(table(*(("a", k, text) for k, text in enumerate((FLOOD, "x", "y", "z")))), MINUTE, 3)
    assert told(found) == [("a", 0, FLOOD, 1), ("a", 1, "x", 1), ("a", 2, "y", 1), ("a", 3, FLOOD, 1)]
    assert lost == 1


def test_a_flood_is_the_same_alone_and_with_other_lines() -> None:
    rng = np.random.default_rng(0)
    lines = sorted(
        ("ab"[rng.integers(2)], int(second), f"w{'xyzuvw'[rng.integers(6)]}") for second in rng.integers(0, 300, 400)
    )
    whole, _ = folded(table(*lines), MINUTE, 5)
    alone, _ = folded(table(*(line for line in lines if line[1] // 60 == 2)), MINUTE, 5)
    assert [row for row in told(whole) if row[1] // 60 == 2] == told(alone)


def test_tables_joined_are_what_their_lines_give_together() -> None:
    lines = [("b", 5, "up 1"), ("a", 5, "up 2"), ("a", 70, "down"), ("b", 71, "up 3"), ("c", 1, "down")]
    parts = [table(*(line for line in lines if line[0] == node)) for node in "cab"]
    pd.testing.assert_frame_equal(joined(parts), table(*lines))


def test_a_stretch_divides_windows_and_days() -> None:
    def of(length: str, stride: str) -> int:
        return stretch(WindowSettings(length=parse_duration(length), stride=parse_duration(stride)))

    assert [of("20m", "5m"), of("10m", "4m"), of("7m", "7m")] == [5 * MINUTE, 2 * MINUTE, MINUTE]
