from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from features import history, windows
from features.settings import WindowSettings
from features.tables import EVENTS, FAILURES, conform, to_ns

NEVER = float(np.float32(np.log1p(7 * 86_400)))


def told(end: str, failures: pd.DataFrame, events: pd.DataFrame) -> dict[str, float]:
    rows = windows.at(["a"], [to_ns(end)], WindowSettings(length=timedelta(minutes=20)))
    got = history.columns(rows, failures, events)
    return dict(zip(history.WHAT, got.iloc[0].astype(float).tolist(), strict=True))


def failure(time: str, end: str | None = None, nodes: tuple[str, ...] = ("a",)) -> pd.DataFrame:
    row = {"failure": "f", "time": pd.Timestamp(time), "end": pd.Timestamp(end or time), "node": nodes[0]}
    return conform(pd.DataFrame([{**row, "nodes": list(nodes)}]), FAILURES)


def event(time: str, kind: str) -> pd.DataFrame:
    row = {"node": "a", "time": pd.Timestamp(time), "last": pd.Timestamp(time), "xid": 63, "kind": kind}
    return conform(pd.DataFrame([row]), EVENTS)


def test_time_since_the_last_incident_is_counted_from_its_first_line_to_the_windows_start() -> None:
    got = told("2026-01-01T01:20:00Z", failure("2026-01-01T00:00:00Z"), EVENTS.empty())
    assert got["since_incident"] == pytest.approx(np.log1p(3600))
    assert got["incidents_7d"] == pytest.approx(np.log1p(1))


def test_an_incident_within_the_window_or_after_it_is_not_known() -> None:
    for time in ("2026-01-01T01:00:00Z", "2026-01-01T01:10:00Z", "2026-01-01T02:00:00Z"):
        got = told("2026-01-01T01:20:00Z", failure(time), EVENTS.empty())
        assert got["since_incident"] == NEVER
        assert got["incidents_7d"] == 0


def test_later_lines_of_a_running_incident_move_nothing() -> None:
    end = "2026-01-01T01:20:00Z"
    short = told(end, failure("2026-01-01T00:00:00Z"), EVENTS.empty())
    assert told(end, failure("2026-01-01T00:00:00Z", "2026-01-01T05:00:00Z"), EVENTS.empty()) == short


def test_a_node_that_was_drawn_in_remembers_the_incident_too() -> None:
    got = told("2026-01-01T01:20:00Z", failure("2026-01-01T00:00:00Z", nodes=("b", "a")), EVENTS.empty())
    assert got["incidents_7d"] > 0


def test_a_node_that_was_drawn_in_knows_nothing_before_its_own_first_event() -> None:
    incident = failure("2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z", nodes=("b", "a"))
    drawn = event("2026-01-01T00:02:00Z", "hardware")
    assert told("2026-01-01T00:21:00Z", incident, drawn)["since_incident"] == NEVER
    assert told("2026-01-01T00:23:00Z", incident, drawn)["since_incident"] == pytest.approx(np.log1p(60))


def test_more_than_a_week_ago_is_never() -> None:
    got = told("2026-01-10T00:00:00Z", failure("2026-01-01T00:00:00Z"), event("2026-01-01T00:00:00Z", "hardware"))
    assert got["since_incident"] == got["since_event"] == NEVER
    assert got["incidents_7d"] == got["events_7d"] == 0


def test_signs_of_wear_count_up_to_the_windows_end_and_are_no_events() -> None:
    got = told("2026-01-01T01:20:00Z", FAILURES.empty(), event("2026-01-01T01:10:00Z", "degradation"))
    assert got["degradation_1h"] == pytest.approx(np.log1p(1))
    assert got["since_event"] == NEVER


def test_what_is_to_be_foretold_does_not_count_as_wear() -> None:
    got = told("2026-01-01T01:20:00Z", FAILURES.empty(), event("2026-01-01T01:10:00Z", "hardware"))
    assert got["degradation_1h"] == 0
    assert got["since_event"] == NEVER
