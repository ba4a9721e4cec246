"""One incident, one page."""

from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

from pipelines import paging
from pipelines.config import ScoringSettings
from pipelines.paging import FLEET, Alert

STRIDE = 300_000_000_000
SETTINGS = ScoringSettings(hold_off=timedelta(minutes=60), clear_windows=3, clear_ratio=0.8, fleet_share=0.3)

EARLY = timedelta(hours=1)


def advance(
    alerts: Mapping[str, Alert],
    rows: Sequence[Mapping[str, Any]],
    end_ns: int,
    settings: ScoringSettings = SETTINGS,
    silenced: Collection[str] = (),
) -> dict[str, Alert]:
    return paging.advance(alerts, rows, end_ns, settings, silenced, early=EARLY)


def row(node: str, score: float | None, *, failing: bool = False) -> dict[str, Any]:
    alarm = score is not None and score >= 1
    said: dict[str, Any] = {
        "node": node,
        "score": score,
        "alarm": alarm,
        "threshold": 0.5,
        "suspect_gpu": "GPU-1",
        "reasons": [],
    }
    return {**said, "failing": failing}


def run(*scores: float | None, settings: ScoringSettings = SETTINGS) -> list[dict[str, Alert]]:
    """The alerts after each window of one node among nine calm ones."""
    alerts: dict[str, Alert] = {}
    seen = []
    for number, score in enumerate(scores, 1):
        rows = [row("n1", score), *(row(f"calm{i}", 0.1) for i in range(9))]
        alerts = advance(alerts, rows, number * STRIDE, settings)
        seen.append(alerts)
    return seen


def test_a_calm_node_has_no_alert() -> None:
    assert run(0.2, 0.99)[-1] == {}


def test_a_node_over_the_threshold_for_long_is_one_alert() -> None:
    names = {after["n1"].alert for after in run(1.0, 1.5, 1.2)}
    assert names == {"19700101T000500Z-n1"}


def test_an_alert_keeps_its_highest_score_and_its_last_window() -> None:
    found = run(1.0, 1.5, 1.2)[-1]["n1"]
    assert (found.score, found.start, found.last) == (1.5, STRIDE, 3 * STRIDE)


def test_a_score_just_under_the_threshold_does_not_close_it() -> None:
    assert run(1.0, 0.9, 0.9, 0.9, 0.9)[-1]["n1"].end == 0


def test_enough_calm_windows_in_a_row_close_it() -> None:
    seen = run(1.0, 0.1, 0.1, 0.9, 0.1, 0.1, 0.1)
    assert [after["n1"].end for after in seen] == [0, 0, 0, 0, 0, 0, 7 * STRIDE]


def test_a_window_without_a_score_is_not_calm() -> None:
    assert run(1.0, None, None, None, None)[-1]["n1"].end == 0


def test_within_the_hold_off_it_is_opened_again_not_anew() -> None:
    seen = run(1.0, 0.1, 0.1, 0.1, 1.2)
    assert seen[-1]["n1"].alert == seen[0]["n1"].alert
    assert seen[-1]["n1"].end == 0


def test_after_the_hold_off_it_is_a_new_alert() -> None:
    seen = run(1.0, *[0.1] * 11, 1.2)
    assert seen[-1]["n1"].alert == "19700101T010500Z-n1"


def test_too_much_of_the_fleet_is_one_alert_and_opens_none_for_a_node() -> None:
    rows = [row(f"n{i}", 1.5 if i < 4 else 0.1) for i in range(10)]
    after = advance({}, rows, STRIDE, SETTINGS)
    assert set(after) == {FLEET}
    assert after[FLEET].reasons[0]["text"] == "4 of 10 nodes are over the threshold at once; the model is suspect"


def test_of_two_nodes_one_is_not_the_fleet() -> None:
    assert set(advance({}, [row("n1", 1.5), row("n2", 0.1)], STRIDE, SETTINGS)) == {"n1"}


def test_an_open_alert_goes_on_while_the_fleet_is_odd() -> None:
    before = advance({}, [row("n0", 1.5), *(row(f"n{i}", 0.1) for i in range(1, 10))], STRIDE, SETTINGS)
    after = advance(before, [row(f"n{i}", 1.5) for i in range(10)], 2 * STRIDE, SETTINGS)
    assert set(after) == {"n0", FLEET}
    assert after["n0"].last == 2 * STRIDE


def test_a_silenced_node_s_alert_is_marked() -> None:
    assert advance({}, [row("n1", 1.5)], STRIDE, SETTINGS, silenced={"n1"})["n1"].silenced


def test_a_node_that_is_down_can_be_silenced_and_heard_again() -> None:
    opened = advance({}, [row("n1", 1.5)], STRIDE)
    down = advance(opened, [row("n1", None)], 2 * STRIDE, silenced={"n1"})
    assert (down["n1"].silenced, down["n1"].end) == (True, 0)
    assert not advance(down, [row("n1", None)], 3 * STRIDE)["n1"].silenced


def test_an_alert_ends_once_its_node_had_no_score_for_longer_than_a_sign_shows() -> None:
    seen = run(1.0, *[None] * 13)
    assert [after["n1"].end for after in seen] == [0] * 13 + [14 * STRIDE]


def test_an_alert_of_a_node_that_left_the_fleet_ends_as_that_of_a_silent_one() -> None:
    alerts = advance({}, [row("n1", 1.5), row("n2", 0.1)], STRIDE)
    for number in range(2, 15):
        assert alerts["n1"].end == 0
        alerts = advance(alerts, [row("n2", 0.1)], number * STRIDE)
    assert alerts["n1"].end == 14 * STRIDE


def test_an_alert_that_a_score_near_the_threshold_holds_open_outlives_a_short_silence() -> None:
    assert run(1.0, *[0.9] * 20, None)[-1]["n1"].end == 0


def test_a_node_that_comes_back_calm_from_a_short_outage_closes_its_alert_as_ever() -> None:
    assert run(1.0, *[None] * 5, 0.1, 0.1, 0.1)[-1]["n1"].end == 9 * STRIDE


def test_a_node_that_comes_back_over_the_threshold_from_a_short_outage_is_the_same_alert() -> None:
    seen = run(1.0, *[None] * 12, 1.2)
    assert {after["n1"].alert for after in seen} == {"19700101T000500Z-n1"}
    assert seen[-1]["n1"].end == 0


def test_a_node_that_comes_back_over_the_threshold_long_after_is_a_new_alert() -> None:
    assert run(1.0, *[None] * 13, 1.2)[-1]["n1"].alert == "19700101T011500Z-n1"


def test_an_alert_that_a_clock_ahead_began_begins_no_later_than_it_goes_on() -> None:
    ahead = advance({}, [row("n1", 1.5)], 9 * STRIDE)
    assert advance(ahead, [row("n1", 1.5)], 2 * STRIDE)["n1"].start == 2 * STRIDE


def test_nodes_whose_failure_has_begun_are_not_the_model_s_doing_and_page_each() -> None:
    rows = [row(f"n{i}", 2.0 if i < 3 else 0.1, failing=i < 3) for i in range(8)]
    assert set(advance({}, rows, STRIDE)) == {"n0", "n1", "n2"}


def test_a_node_whose_failure_has_begun_pages_while_the_fleet_is_odd() -> None:
    rows = [row("n0", 2.0, failing=True), *(row(f"n{i}", 1.5 if i < 4 else 0.1) for i in range(1, 8))]
    after = advance({}, rows, STRIDE)
    assert set(after) == {"n0", FLEET}
    assert after[FLEET].reasons[0]["text"] == "3 of 7 nodes are over the threshold at once; the model is suspect"
