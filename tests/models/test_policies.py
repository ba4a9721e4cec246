import numpy as np
import pytest

from models import policies


def record(*troubles: tuple[float, int], size: int = 10, length: float = 30) -> policies.Record:
    days, nodes = zip(*troubles, strict=True)
    return policies.Record(
        np.array(days, dtype=float), np.array(nodes, dtype=np.int64), np.full(len(days), 2.0), size, length
    )


REPEATING = record((1, 0), (2, 0), (3, 0), (4, 1), (5, 0), (25, 0))


def test_a_node_taken_out_at_its_first_failure_has_none_until_it_is_back() -> None:
    avoided, out, refused = policies.replay(REPEATING, after=1, spare=5, hold_days=14)
    assert avoided.tolist() == [False, True, True, False, True, False]
    assert out == [(0, 1, 15), (1, 4, 18), (0, 25, 30)]
    assert refused == 0


def test_waiting_for_a_second_failure_avoids_one_less() -> None:
    avoided, _, _ = policies.replay(REPEATING, after=2, spare=5, hold_days=14)
    assert avoided.tolist() == [False, False, True, False, True, False]


def test_failures_longer_ago_than_the_hold_are_forgotten() -> None:
    avoided, out, _ = policies.replay(record((1, 0), (20, 0), (21, 0)), after=2, spare=5, hold_days=5)
    assert not avoided.any()
    assert out == [(0, 21, 26)]


def test_no_more_nodes_are_out_than_there_are_spares() -> None:
    found = policies.judge(record((1, 0), (2, 1), (3, 2), (4, 1)), after=1, spare=1, hold_days=14)
    assert (found["most_out"], found["refused"]) == (1, 3)
    assert found["avoided"]["count"] == 0


def test_a_rule_is_held_against_as_many_nodes_taken_out_at_random() -> None:
    found = policies.judge(REPEATING, after=1, spare=5, hold_days=14)
    assert (found["avoided"]["count"], found["avoided"]["of"]) == (3, 6)
    assert found["avoided_by_chance"] == pytest.approx((4 + 1) / 10, abs=0.1)
    assert found["node_hours_saved"] == 6
    assert found["node_hours_out"] == 24 * (14 + 14 + 5)
    assert found["p"] < 0.25


def test_a_cluster_where_every_node_fails_once_gains_nothing() -> None:
    found = policies.judge(record(*((k, k) for k in range(10))), after=1, spare=10, hold_days=30)
    assert found["avoided"]["count"] == 0
    assert found["p"] == 1


def test_a_failure_without_a_cost_is_avoided_but_not_priced() -> None:
    free = policies.Record(REPEATING.days, REPEATING.nodes, np.full(6, np.nan), 10, 30)
    found = policies.judge(free, after=1, spare=5, hold_days=14)
    assert found["node_hours_saved"] is None
    assert found["unpriced"] == found["avoided"]["count"]


def test_the_grid_judges_every_rule() -> None:
    rules = policies.table(REPEATING, (1, 2), (1, 4), 14)
    assert [(rule["exclude_after"], rule["spare_nodes"]) for rule in rules] == [(1, 1), (1, 4), (2, 1), (2, 4)]
