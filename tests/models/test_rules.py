"""A failure that has begun is an alarm."""

import pandas as pd

from features.tables import EVENTS, conform
from models.rules import began
from tests.models.planted import windows_of

STRIDE = 300_000_000_000


def events(*rows: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(rows, columns=["node", "time", "kind"])
    frame["time"] = pd.to_datetime(frame["time"] + "Z", utc=True).dt.as_unit("ns")
    frame["last"] = frame["time"]
    return conform(frame, EVENTS)


def test_each_event_marks_the_window_whose_last_stride_holds_it() -> None:
    windows = windows_of(2, 1)
    found = events(
        ("node00", "2026-01-01T10:02", "hardware"),
        ("node00", "2026-01-01T11:00", "hardware"),  # on the edge: the window that ends at 11:00 does not hold it
        ("node77", "2026-01-01T12:02", "hardware"),
    )
    marked = windows[began(windows, found, STRIDE)]
    assert list(zip(marked["node"], marked["end"].dt.strftime("%H:%M"), strict=True)) == [
        ("node00", "10:05"),
        ("node00", "11:05"),
    ]


def test_without_events_nothing_is_marked() -> None:
    assert not began(windows_of(1, 1), events(), STRIDE).any()
