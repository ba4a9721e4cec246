"""Stretches of nodes to saves of jobs."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from features.checkpoint_events import Event, figures, gather, ran_together, skewed, stragglers, timeline
from features.checkpoint_spells import Spell
from features.settings import CheckpointSettings
from tests.features.checkpoint_data import STEP, sessions, spell

SETTINGS = CheckpointSettings()
NONE = sessions()


def only(*spells: Spell, sessions: pd.DataFrame = NONE) -> Event:
    (event,), _ = gather(spells, sessions, SETTINGS)
    return event


def test_nodes_that_write_together_are_one_save() -> None:
    event = only(spell("a"), spell("b", 1), spell("c", 3))
    assert [part.node for part in event.parts] == ["a", "b", "c"]
    assert (event.end - event.start) / STEP == 7


def test_a_stretch_cut_at_midnight_is_one_part() -> None:
    event = only(spell("a", 0, 3), spell("a", 3, 2))
    assert len(event.parts) == 1
    assert event.parts[0].seconds == 150


def test_saves_far_apart_are_two() -> None:
    events, _ = gather([spell("a"), spell("a", 20)], NONE, SETTINGS)
    assert len(events) == 2


def test_two_jobs_that_save_at_once_are_two_events_where_sessions_tell_them_apart() -> None:
    spells = [spell("a"), spell("b"), spell("c"), spell("d")]
    told = sessions(("x", -10, 50, ["a", "b"]), ("y", -10, 50, ["c", "d"]))
    events, _ = gather(spells, told, SETTINGS)
    assert [(event.job, event.expected, len(event.parts)) for event in events] == [("x", 2, 2), ("y", 2, 2)]
    assert len(gather(spells, NONE, SETTINGS)[0]) == 1


def test_a_try_without_an_end_holds_its_nodes() -> None:
    told = sessions(("x", -10, 50, ["a"]))
    told["ended"] = pd.Series([None], dtype="datetime64[ns, UTC]")
    assert only(spell("a", 500), sessions=told).job == "x"


def test_nodes_below_the_threshold_together_are_counted_and_left_out() -> None:
    events, below = gather([spell("a", rate=0.2e9), spell("b", rate=0.2e9)], NONE, SETTINGS)
    assert (events, below) == ([], {"save": 1})


def test_one_busy_node_carries_a_slow_one_over_the_threshold() -> None:
    assert len(only(spell("a", rate=0.2e9), spell("b", rate=1e9)).parts) == 2


def told(event: Event, spells: Sequence[Spell]) -> dict[str, Any]:
    return figures(event, SETTINGS, STEP, timeline(spells), {})


def test_figures_of_a_save_add_up() -> None:
    spells = [spell("a"), spell("b")]
    out = told(only(*spells), spells)
    assert out["bytes"] == 2 * 4 * 30e9
    assert out["bytes_per_second"] == pytest.approx(2e9)
    assert out["node_bytes_per_second"] == pytest.approx(1e9)
    assert out["link_share"] == pytest.approx(1e9 / 25e9)
    assert out["storage_share"] == pytest.approx(2e9 / 250e9)
    assert out["queue_share"] == pytest.approx(0.2)
    assert out["gpu_hours"] == pytest.approx(16 * 120 / 3600)
    assert out["gpu_hours_idle"] == pytest.approx(0.9 * 16 * 120 / 3600)


def test_the_storage_bears_other_jobs_bytes_too() -> None:
    spells = [spell("a"), spell("c", rate=3e9)]
    events, _ = gather(spells, sessions(("x", -9, 50, ["a"]), ("y", -9, 50, ["c"])), SETTINGS)
    assert told(events[0], spells)["storage_share"] == pytest.approx(4e9 / 250e9)


def test_a_table_that_was_ever_fuller_than_the_setting_is_larger() -> None:
    spells = [spell("a", slots_seen=65536.0)]
    assert told(only(*spells), spells)["slot_table"] == 65536


def test_each_connection_has_a_table_of_its_own() -> None:
    spells = [spell("a", slots_seen=200.0, connections=4)]
    assert told(only(*spells), spells)["slot_table"] == 512


def test_what_no_node_tells_is_not_a_number() -> None:
    nan = float("nan")
    spells = [spell("a", operations=nan, queue_seconds=nan, response_seconds=nan, in_flight=nan, use=nan, gpus=0)]
    out = told(only(*spells), spells)
    untold = ("queue_share", "response_milliseconds", "slots_in_use", "gpu_hours_idle")
    assert [str(out[name]) for name in untold] == ["nan"] * 4
    assert out["gpu_hours"] == pytest.approx(8 * 120 / 3600)


def test_a_node_that_ends_long_after_its_peers_is_a_straggler() -> None:
    late = only(spell("a"), spell("b"), spell("c"), spell("d"), spell("e", cells=12))
    assert stragglers(late, SETTINGS, STEP, {}) == ["e"]
    assert told(late, [])["tail_share"] == pytest.approx(8 / 12)


def test_a_node_one_scrape_late_is_none() -> None:
    assert stragglers(only(spell("a"), spell("b"), spell("c", cells=5)), SETTINGS, STEP, {}) == []


def test_a_lost_scrape_makes_no_straggler() -> None:
    event = only(spell("a"), spell("b"), spell("c"), spell("d", cells=7, lost=1))
    assert stragglers(event, SETTINGS, STEP, {}) == []


def test_half_of_the_nodes_are_no_stragglers() -> None:
    event = only(spell("a"), spell("b"), spell("c", cells=12), spell("d", cells=12), spell("e", cells=12))
    assert stragglers(event, SETTINGS, STEP, {}) == []


def save_at(first: int, late: int) -> Event:
    return only(spell("a", first), spell("b", first), spell("c", first), spell("d", first + late))


def test_a_node_that_begins_and_ends_late_every_time_has_another_clock() -> None:
    events = [save_at(100 * k, 3) for k in range(6)]
    assert skewed(events, STEP) == {"d": 90.0}
    assert stragglers(events[0], SETTINGS, STEP, {"d": 90.0}) == []


def test_a_slow_node_has_no_other_clock() -> None:
    slow = [only(*(spell(n, 100 * k) for n in "abc"), spell("d", 100 * k, 9)) for k in range(6)]
    assert skewed(slow, STEP) == {}


def test_two_saves_that_ran_into_each_other_are_noticed() -> None:
    assert ran_together(only(spell("a"), spell("b"), spell("c", 4), spell("d", 4)), STEP)
    assert not ran_together(only(spell("a"), spell("b"), spell("c", 1), spell("d", 1)), STEP)
