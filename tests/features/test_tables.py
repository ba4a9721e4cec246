import numpy as np
import pandas as pd
import pytest

from features.tables import LOGS, WINDOWS, Panel, SchemaError, Series, check, conform, to_ns, to_time


def windows(**change: object) -> pd.DataFrame:
    time = pd.to_datetime(["2026-01-01T00:00Z", "2026-01-01T00:05Z"]).as_unit("ns")
    return pd.DataFrame({"window": [0, 1], "node": ["a", "a"], "start": time, "end": time, **change}).astype(
        {"node": "str"}
    )


def test_a_table_that_keeps_its_contract_passes() -> None:
    frame = windows()
    assert check(frame, WINDOWS) is frame


def test_a_missing_column_is_named() -> None:
    with pytest.raises(SchemaError, match=r"wanted columns \['end'\]"):
        check(windows().drop(columns="end"), WINDOWS)


def test_a_naive_time_is_refused() -> None:
    with pytest.raises(SchemaError, match="column start is datetime64"):
        check(windows(start=pd.to_datetime(["2026-01-01", "2026-01-02"]).as_unit("ns")), WINDOWS)


def test_two_rows_with_one_key_are_refused() -> None:
    with pytest.raises(SchemaError, match="1 rows repeat a key"):
        check(windows(window=[3, 3]), WINDOWS)


def test_conform_fills_what_is_missing_with_blanks() -> None:
    frame = conform(pd.DataFrame({"node": ["a"], "time": pd.to_datetime(["2026-01-01T00:00Z"])}), LOGS)
    assert check(frame, LOGS).iloc[0][["source", "message", "kernel", "count"]].to_list() == ["", "", False, 0]


def test_a_panel_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"wanted values of shape \(1, 2\), found \(1, 3\)"):
        Panel("a", np.array([0, 1]), (Series("m"),), np.zeros((1, 3)))


def test_between_takes_the_start_and_leaves_the_end() -> None:
    panel = Panel("a", np.array([0, 10, 20, 30]), (Series("m"),), np.array([[0.0, 1.0, 2.0, 3.0]]))
    assert panel.between(10, 30).values.tolist() == [[1.0, 2.0]]


def test_times_go_to_nanoseconds_and_back() -> None:
    assert to_time(to_ns("2026-01-01T00:00:00.000000001Z")) == pd.Timestamp("2026-01-01T00:00:00.000000001Z")


def test_a_naive_time_has_no_nanoseconds() -> None:
    with pytest.raises(SchemaError, match="has no zone"):
        to_ns("2026-01-01T00:00:00")
