from datetime import timedelta

import numpy as np
import pandas as pd

from features import labels, windows
from features.settings import LabelSettings, WindowSettings
from features.tables import FAILURES, LABELS, check, conform, to_ns

WINDOW = WindowSettings(length=timedelta(minutes=20), stride=timedelta(minutes=5))
SETTINGS = LabelSettings(
    early=timedelta(minutes=30),
    horizon=timedelta(minutes=20),
    gap=timedelta(minutes=1),
    recovery=timedelta(minutes=10),
)


def failures(*rows: tuple[str, str, str, list[str]]) -> pd.DataFrame:
    frame = pd.DataFrame(
        [
            {"failure": name, "time": pd.Timestamp(time), "end": pd.Timestamp(end), "node": nodes[0], "nodes": nodes}
            for name, time, end, nodes in rows
        ],
    )
    return conform(frame, FAILURES) if rows else FAILURES.empty()


def labelled(given: pd.DataFrame, node: str = "a") -> dict[str, float]:
    rows = windows.make(["a", "b"], to_ns("2026-01-01T00:00:00Z"), to_ns("2026-01-01T03:00:00Z"), WINDOW)
    got = check(labels.label(rows, given, SETTINGS), LABELS)
    mine = rows["node"] == node
    return dict(zip(rows.loc[mine, "end"].dt.strftime("%H:%M"), got.loc[mine, "label"].astype(float), strict=True))


def test_windows_that_end_in_the_horizon_before_the_gap_are_warnings() -> None:
    got = labelled(failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a"])))
    assert [end for end, value in got.items() if value == 1] == ["00:40", "00:45", "00:50", "00:55"]


def test_a_window_that_ends_earlier_than_the_horizon_but_not_long_is_neither_quiet_nor_a_warning() -> None:
    got = labelled(failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a"])))
    assert got["00:25"] == 0
    assert [end for end, value in got.items() if np.isnan(value)][:2] == ["00:30", "00:35"]


def test_a_warning_of_one_failure_is_not_early_for_the_next() -> None:
    both = failures(
        ("next", "2026-01-01T01:20:00Z", "2026-01-01T01:20:00Z", ["a"]),
        ("first", "2026-01-01T00:55:00Z", "2026-01-01T00:55:00Z", ["a"]),
    )
    got = labelled(both)
    assert got["00:50"] == 1


def test_no_window_that_overlaps_the_incident_or_its_repair_is_called_quiet() -> None:
    got = labelled(failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:04:00Z", ["a"])))
    # last line 01:04, repaired 01:14; the window 01:10-01:30 still holds repair time
    assert [end for end, value in got.items() if np.isnan(value)] == [
        "00:30", "00:35",  # early
        "01:00", "01:05", "01:10", "01:15", "01:20", "01:25", "01:30",
    ]  # fmt: skip
    assert got["01:35"] == 0


def test_a_node_that_was_only_drawn_in_is_neither_quiet_nor_a_warning() -> None:
    got = labelled(failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a", "b"])), node="b")
    assert not any(value == 1 for value in got.values())
    assert [end for end, value in got.items() if np.isnan(value)][:4] == ["00:40", "00:45", "00:50", "00:55"]


def test_a_node_the_incident_did_not_touch_is_quiet_all_along() -> None:
    got = labelled(failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a"])), node="b")
    assert set(got.values()) == {0.0}


def test_lead_is_counted_to_the_nearest_failure_ahead() -> None:
    rows = windows.at(["a"], [to_ns("2026-01-01T00:50:00Z")], WINDOW)
    both = failures(
        ("later", "2026-01-01T01:05:00Z", "2026-01-01T01:05:00Z", ["a"]),
        ("sooner", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a"]),
    )
    got = labels.label(rows, both, SETTINGS)
    assert got.iloc[0].to_dict() == {"label": 1.0, "failure": "sooner", "lead_seconds": 600.0}


def test_without_failures_every_window_is_quiet_and_names_none() -> None:
    rows = windows.at(["a"], [to_ns("2026-01-01T00:50:00Z")], WINDOW)
    got = labels.label(rows, failures(), SETTINGS)
    assert got["label"].tolist() == [0.0]
    assert got["failure"].tolist() == [""]


def test_what_a_fold_must_purge_is_every_overlap_on_every_node_touched() -> None:
    rows = windows.make(["a", "b", "c"], to_ns("2026-01-01T00:00:00Z"), to_ns("2026-01-01T02:00:00Z"), WINDOW)
    minute = 60_000_000_000
    hit = labels.touches(
        rows,
        failures(("f", "2026-01-01T01:00:00Z", "2026-01-01T01:00:00Z", ["a", "b"])),
        10 * minute,
        5 * minute,
    )
    assert rows.loc[hit, "node"].unique().tolist() == ["a", "b"]
    assert rows.loc[hit & (rows["node"] == "b"), "end"].dt.strftime("%H:%M").tolist() == [
        "00:55", "01:00", "01:05", "01:10", "01:15", "01:20",
    ]  # fmt: skip
