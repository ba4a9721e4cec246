"""What is said of a node that is not heard of, or not fully."""

from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from pipelines import verdicts
from pipelines.config import ScoringSettings

FROZEN: Any = SimpleNamespace(threshold=0.5)
SIGNS: Any = None  # of no row: nothing is explained here
DEFAULT = ScoringSettings()
NAN = float("nan")


def said(
    probability: float = 0.1,
    missing: float = 0.0,
    began: float = 0,
    settings: ScoringSettings = DEFAULT,
    **columns: float,
) -> dict[str, Any]:
    """The row of one node; columns by their short names."""
    names = {name.replace("__", ".", 1) + "__value": [value] for name, value in columns.items()}
    index = pd.MultiIndex.from_arrays([["n1"], pd.DatetimeIndex(["2026-01-01T00:20:00Z"])])
    X = pd.DataFrame(names or {"m__mean": [1.0]}, index=index)
    judged = verdicts._Judged(X, SIGNS, np.array([0]), np.array([probability]), *[np.array([began > 0])] * 2)
    return verdicts._row(FROZEN, judged, 0, missing, settings)


def test_a_node_that_is_heard_of_is_ok_and_has_a_score() -> None:
    row = said(presence__silent_seconds=30)
    assert (row["status"], row["score"], row["alarm"]) == ("ok", 0.2, False)


@pytest.mark.parametrize(
    ("column", "value", "status"),
    [
        ("presence__silent_seconds", 700, "stale"),  # no scrape for longer than stale_after
        ("presence__exporter_down", 1, "stale"),  # the GPUs' exporter is gone and the node is there
        ("presence__frozen", 1, "stale"),  # every GPU value stands still while the node's move
        ("presence__node_down", 1, "down"),
    ],
)
def test_a_node_that_is_not_heard_of_is_never_healthy(column: str, value: float, status: str) -> None:
    named: dict[str, Any] = {column: value}
    row = said(**named)
    assert (row["status"], row["score"]) == (status, None)


def test_how_long_a_node_may_be_silent_is_a_setting() -> None:
    patient = ScoringSettings(stale_after=timedelta(minutes=12))
    assert said(presence__silent_seconds=700, settings=patient)["status"] == "ok"
    assert said(presence__silent_seconds=721, settings=patient)["status"] == "stale"


def test_an_alarm_of_a_node_that_fell_silent_stands() -> None:
    assert said(0.9, presence__silent_seconds=700)["alarm"]


def test_with_too_many_columns_missing_there_is_no_score() -> None:
    row = said(0.9, missing=0.5)
    assert (row["status"], row["score"], row["alarm"]) == ("stale", None, False)


def test_a_failure_that_began_is_told_however_much_is_missing() -> None:
    assert said(1.0, missing=0.5, began=1)["alarm"]


def test_lines_are_counted_as_lines() -> None:
    row = said(logs__lines=float(np.log1p(41)), logs__unknown=float(np.log1p(7)))
    assert (row["lines"], row["unknown_lines"]) == (41, 7)
    assert said(logs__lines=NAN)["lines"] == 0


def test_a_node_is_failing_from_the_window_that_tells_of_it_until_its_recovery_is_over() -> None:
    ends = pd.date_range("2026-01-01T00:00:00Z", periods=5, freq="5min")
    windows = pd.DataFrame([(node, end) for end in ends for node in ("n1", "n2")], columns=["node", "end"])
    began = ((windows["node"] == "n1") & (windows["end"] == ends[1])).to_numpy()
    failing = windows[verdicts._failing(windows, began, 600_000_000_000)]
    assert failing["node"].unique().tolist() == ["n1"]
    assert failing["end"].tolist() == [ends[1], ends[2], ends[3]]
