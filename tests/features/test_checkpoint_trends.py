"""How saves change with nodes, weeks and failures."""

from typing import Any

import pandas as pd
import pytest

from features.checkpoint_trends import before_failures, expected, scaling, weeks
from features.settings import CheckpointSettings
from tests.features.checkpoint_data import START, event

SETTINGS = CheckpointSettings()
DAY = pd.Timedelta(days=1)


def sized(nodes: int, rate: float, day: float = 0.0, **more: Any) -> dict[str, Any]:
    return event(nodes=nodes, node_bytes_per_second=rate, start=START + day * DAY, **more)


def shared(half_at: float) -> list[dict[str, Any]]:
    """Saves of 2 to 60 nodes that share a server: half of a node's throughput is left at so many nodes."""
    return [
        sized(nodes, 2e9 * (1 + 0.01 * k) / (1 + nodes / half_at), k) for k in range(8) for nodes in (2, 4, 12, 30, 60)
    ]


def test_the_knee_is_the_first_size_at_which_a_node_has_clearly_less() -> None:
    table, knee = scaling(shared(80), SETTINGS)
    assert [row["nodes_least"] for row in table] == [2, 4, 12, 30, 60]
    assert knee["nodes"] == 30
    assert knee["half_at_nodes"] == pytest.approx(80, rel=0.1)
    low, high = knee["half_at_interval"]
    assert low < knee["half_at_nodes"] < high
    assert "knee is at 30 nodes" in knee["sentence"]
    assert "beyond the 60 nodes seen" in knee["sentence"]


def test_one_small_save_that_broke_off_is_no_measure_of_the_others() -> None:
    table, knee = scaling([sized(1, 0.3e9), *shared(80)], SETTINGS)
    assert [row["p"] is None for row in table] == [True, True, False, False, False, False]
    assert table[1]["of_smallest"] == 1.0
    assert knee["nodes"] == 30


def test_without_a_shared_limit_no_knee_is_claimed() -> None:
    even = [sized(nodes, 2e9 * (1 + 0.01 * k)) for k in range(8) for nodes in (2, 4, 12, 30, 60)]
    _, knee = scaling(even, SETTINGS)
    assert knee["nodes"] is None
    assert knee["half_at_nodes"] is None
    assert knee["sentence"].startswith("No knee is shown up to 60 nodes")


def test_two_events_of_each_size_are_too_few_for_a_knee() -> None:
    _, knee = scaling([event for event in shared(10) if event["start"] < START + 2 * DAY], SETTINGS)
    assert knee["nodes"] is None


def test_one_size_says_nothing_of_scaling() -> None:
    assert "nothing can be said" in scaling([sized(8, 1e9), sized(8, 2e9)], SETTINGS)[1]["sentence"]
    assert "nothing can be said" in scaling([], SETTINGS)[1]["sentence"]


def test_a_size_lets_expect_a_throughput() -> None:
    assert expected(shared(80))[:2] == pytest.approx([2e9 / (1 + 2 / 80), 2e9 / (1 + 4 / 80)], rel=0.1)


def test_weeks_begin_on_monday() -> None:
    table, _ = weeks([sized(8, 1e9, 0), sized(8, 3e9, 1), sized(8, 2e9, 2)])  # 2026-01-04 is a Sunday
    assert [str(row["week"].date()) for row in table] == ["2025-12-29", "2026-01-05"]
    assert [row["node_bytes_per_second"] for row in table] == [1e9, 2.5e9]


def test_a_slow_decline_is_a_trend() -> None:
    _, trend = weeks([sized(8, 1e9 * (1 - 0.02 * k / 7), k) for k in range(28)])
    assert trend["percent_a_week"] == pytest.approx(-2, rel=0.1)
    assert trend["p"] < 0.001
    assert "changes by -2.0" in trend["sentence"]


def test_a_week_of_larger_jobs_is_no_trend() -> None:
    events = shared(80)
    grown = sorted(events, key=lambda one: one["nodes"])
    for k, one in enumerate(grown):
        one["start"] = START + k * DAY
    _, trend = weeks(grown)
    assert abs(trend["percent_a_week"]) < 0.5


def test_events_that_are_all_alike_have_no_trend() -> None:
    _, trend = weeks([sized(8, 1e9, k) for k in range(28)])
    assert (trend["percent_a_week"], trend["p"]) == (0.0, 1.0)


def test_few_events_tell_no_trend() -> None:
    _, trend = weeks([sized(8, 1e9, k) for k in range(7)])
    assert trend["p"] is None
    assert "tell no trend" in trend["sentence"]


def saves(slow_by: float) -> tuple[list[dict[str, Any]], pd.DataFrame]:
    """A save a day of four nodes; node k fails on day 2k + 1.5 and saves slower before it."""
    names = [f"n{k}" for k in range(8)]
    out = []
    for day in range(20):
        rates = {n: 1e9 * (1 - slow_by * (day == 2 * k + 1) + 0.001 * ((day * 7 + k) % 5)) for k, n in enumerate(names)}
        parts = [{"node": n, "bytes_per_second": rate, "start": START + day * DAY} for n, rate in rates.items()]
        out.append(sized(8, 1e9, day, by_node=parts))
    times = [START + (2 * k + 1.5) * DAY for k in range(8)]
    return out, pd.DataFrame({"node": names, "time": pd.Series(times, dtype="datetime64[ns, UTC]")})


def test_nodes_that_save_slower_before_they_fail_are_told() -> None:
    found = before_failures(*saves(0.2), SETTINGS)
    assert found["failures"] == 8
    assert found["median_change"] == pytest.approx(-0.2, abs=0.01)
    assert found["p"] < 0.05
    assert "differs" in found["sentence"]


def test_no_change_before_failures_is_told_as_none() -> None:
    found = before_failures(*saves(0.0), SETTINGS)
    assert found["p"] > 0.05
    assert "does not differ by more than chance" in found["sentence"]


def test_five_failures_are_too_few() -> None:
    events, failures = saves(0.2)
    found = before_failures(events, failures[:5], SETTINGS)
    assert found["p"] is None
    assert found["sentence"].startswith("5 failures")
