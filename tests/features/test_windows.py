from datetime import timedelta

import pytest

from features import windows
from features.settings import FeatureSettings, WindowSettings
from features.tables import WINDOWS, InputError, check, to_ns

SETTINGS = WindowSettings(length=timedelta(minutes=20), stride=timedelta(minutes=5))
MINUTE = 60_000_000_000


def test_a_window_end_is_a_multiple_of_the_stride_and_the_whole_window_lies_within_the_span() -> None:
    got = windows.make(["b", "a"], to_ns("2026-01-01T00:01:00Z"), to_ns("2026-01-01T00:31:00Z"), SETTINGS)
    assert [f"{row.node} {row.start:%H:%M}-{row.end:%H:%M}" for row in got.itertuples()] == [
        "a 00:05-00:25",
        "a 00:10-00:30",
        "b 00:05-00:25",
        "b 00:10-00:30",
    ]
    check(got, WINDOWS)


def test_a_span_that_is_a_window_to_the_second_holds_that_window() -> None:
    start, end = to_ns("2026-01-01T00:00:00Z"), to_ns("2026-01-01T00:20:00Z")
    assert windows.ends(start, end, SETTINGS).tolist() == [end]
    assert windows.ends(start + 1, end, SETTINGS).tolist() == []
    assert windows.ends(start, end - 1, SETTINGS).tolist() == []


def test_the_newest_window_that_is_over_ends_at_the_last_stride_not_at_now() -> None:
    assert windows.latest_end(to_ns("2026-01-01T00:09:59Z"), SETTINGS) == to_ns("2026-01-01T00:05:00Z")
    assert windows.latest_end(to_ns("2026-01-01T00:10:00Z"), SETTINGS) == to_ns("2026-01-01T00:10:00Z")


def test_times_survive_the_way_to_nanoseconds_and_back() -> None:
    got = windows.make(["a"], 0, to_ns("1970-01-01T01:00:00Z"), SETTINGS)
    assert windows.as_times(windows.as_ns(got["end"])).equals(got["end"])


@pytest.mark.parametrize(("length", "stride", "step"), [(5, 5, 10), (5, 7, 2)])
def test_windows_that_a_stores_cells_cannot_hold_are_refused_with_the_cure(length: int, stride: int, step: int) -> None:
    settings = WindowSettings(length=timedelta(minutes=length), stride=timedelta(minutes=stride))
    with pytest.raises(InputError, match="--window"):
        windows.check(settings, step * MINUTE)


def test_rows_look_twenty_minutes_back_for_what_stands_still_even_if_their_windows_are_shorter() -> None:
    short = FeatureSettings(window=WindowSettings(length=timedelta(minutes=5)))
    long = FeatureSettings(window=WindowSettings(length=timedelta(minutes=30)))
    assert [windows.look(one) // MINUTE for one in (short, long)] == [20, 30]
