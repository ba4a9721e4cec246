import pandas as pd
import pytest

from features.tables import UsageError
from pipelines import console
from pipelines.console import parse_time, printable, records, table, to_json


def test_json_writes_times_in_utc_and_missing_as_null() -> None:
    value = {
        "time": pd.Timestamp("2026-01-01T01:00:00.000000001+01:00").tz_convert("UTC"),
        "none": pd.NaT,
        "nan": float("nan"),
    }
    assert to_json(value) == '{"time":"2026-01-01T00:00:00.000000001Z","none":null,"nan":null}\n'


def test_records_hold_only_what_json_knows() -> None:
    frame = pd.DataFrame({"xid": pd.array([79, None], dtype="Int64"), "nodes": [["a", "b"], []], "other": [1, 2]})
    assert records(frame, ("xid", "nodes")) == [{"xid": 79, "nodes": ["a", "b"]}, {"xid": None, "nodes": []}]


def test_control_characters_of_a_log_cannot_reach_the_terminal() -> None:
    assert printable("a\x1b[31mb") == "a\\x1b[31mb"


@pytest.mark.parametrize(
    ("every", "quiet", "lines"),
    [(0, False, ["foreshock: one", "foreshock: two"]), (3600, False, []), (0, True, [])],
    ids=["time is up", "not yet", "quiet"],
)
def test_what_is_being_done_is_a_line_now_and_then_where_nobody_watches(
    capsys: pytest.CaptureFixture[str], every: float, quiet: bool, lines: list[str]
) -> None:
    console.configure(quiet=quiet)
    with console.telling(every) as say:
        say("one")
        say("two")
    console.configure()  # quiet is for the process
    assert capsys.readouterr().err.splitlines() == lines


def test_a_table_is_aligned_and_shows_missing_as_a_dash() -> None:
    assert table([{"node": "n1", "score": 0.5}, {"node": "node2", "score": None}], ("node", "score")) == (
        "node   score\nn1     0.5\nnode2  -"
    )


def test_a_table_shows_times_as_json_does_and_the_first_of_a_long_list() -> None:
    row = {"time": pd.Timestamp("2026-01-01T00:00:00Z"), "nodes": [f"n{place}" for place in range(116)]}
    assert table([row], row).splitlines()[1] == "2026-01-01T00:00:00Z  n0, n1, n2, n3, n4, n5, n6, n7 and 108 more"


def test_a_time_without_a_zone_is_refused_with_the_cure() -> None:
    with pytest.raises(UsageError, match=r"--at: .* write one as 2026-01-31T10:00:00Z"):
        parse_time("2026-01-01T00:00:00", "--at")


def test_a_time_with_a_zone_is_read_as_utc() -> None:
    assert parse_time("2026-01-01T00:00:00-05:00", "--at") == pd.Timestamp("2026-01-01T05:00:00Z")
