"""When a node was whole again, and what its going away says of an error."""

import numpy as np
import pandas as pd
import pytest

from features.absence import Sight
from features.repair import repair, settle, sure, unsettled
from features.tables import EVENTS, conform, to_time

MINUTE = 60_000_000_000


def came(*rows: str, failed: int = 10, within: int = 60) -> tuple[int | None, bool]:
    """Minute of the repair and whether anything was away; a mark a minute, "." is absent."""
    seen = np.array([[mark == "x" for mark in row] for row in rows])
    times = np.arange(seen.shape[1], dtype=np.int64) * MINUTE
    names = tuple(f"GPU-{place}" for place in range(len(rows)))
    found = repair(Sight(times, names, seen, np.zeros(len(times), dtype=bool)), failed * MINUTE, within * MINUTE)
    return None if found.repaired is None else found.repaired // MINUTE, found.away


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (("x" * 40,), (None, False)),
        (("x" * 12 + "." * 10 + "x" * 18,), (22, True)),
        (("x" * 40, "x" * 12 + "." * 10 + "x" * 18), (22, True)),
        (("x" * 12 + ".",), (None, False)),
        (("x" * 12 + "." * 20,), (None, True)),
        (("x" * 12 + "." + "x" * 20,), (None, False)),
        (("x" * 12 + "..." + "x" + "...." + "x" * 20,), (20, True)),
    ],
    ids=["never away", "node", "one GPU", "the data end", "stays away", "a lost scrape", "back for a minute"],
)
def test_a_node_is_repaired_when_all_its_gpus_are_back_for_good(rows: tuple[str, ...], wanted: object) -> None:
    assert came(*rows) == wanted


def test_a_grid_finer_than_the_scrapes_has_no_outages_of_its_own() -> None:
    assert came("x." * 20) == (None, False)
    assert came("x." * 6 + "." * 10 + "x." * 9) == (22, True)


def test_a_swapped_gpu_makes_the_node_whole() -> None:
    assert came("x" * 12 + "." * 28, "." * 20 + "x" * 20, "x" * 40) == (20, True)


def test_an_outage_long_after_the_failure_is_another_s() -> None:
    assert came("x" * 80 + "." * 10 + "x" * 10) == (None, False)


def test_a_node_without_gpus_before_its_failure_tells_nothing() -> None:
    assert came("." * 15 + "x" * 10) == (None, False)


def nvlink(severity: str = "", kind: str = "unknown", xid: int = 149) -> pd.DataFrame:
    """An NVLink error in minute 10."""
    row = {
        "node": "n1", "gpu": "GPU-0", "pci": "", "time": to_time(10 * MINUTE), "last": to_time(10 * MINUTE), "xid": xid,
        "origin": "gauge", "severity": severity, "detail": "gauge changed from 0 to 149", "count": 1, "kind": kind,
    }  # fmt: skip
    return conform(pd.DataFrame([row]), EVENTS)


def settled(marks: str, events: pd.DataFrame, within: int = 60) -> pd.DataFrame:
    """The events when the node's only GPU was there as the marks say, one a minute."""
    seen = np.array([[mark == "x" for mark in marks]])
    times = np.arange(len(marks), dtype=np.int64) * MINUTE
    return settle(events, Sight(times, ("GPU-0",), seen, np.zeros(len(marks), dtype=bool)), within * MINUTE)


def test_an_nvlink_error_after_which_gpus_went_away_was_fatal() -> None:
    found = settled("x" * 24 + "." * 10 + "x" * 6, nvlink())
    assert found["kind"].item() == "hardware"
    assert "away from 1970-01-01T00:24:00Z" in found["detail"].item()
    assert sure(found).item() == to_time(26 * MINUTE), "two minutes on it is no lost scrape"
    assert found["time"].item() == to_time(10 * MINUTE)


@pytest.mark.parametrize("marks", ["x" * 40, "x" * 24 + "." + "x" * 20, "." * 10 + "x" * 30], ids=str)
def test_an_nvlink_error_of_a_node_that_went_on_stays_open(marks: str) -> None:
    found = settled(marks, nvlink())
    assert found["kind"].item() == "unknown"
    assert unsettled(found).all()


def test_what_a_line_calls_fatal_or_not_is_left_alone() -> None:
    marks = "x" * 24 + "." * 10 + "x" * 6
    for said in (nvlink("Nonfatal", "degradation"), nvlink("Fatal", "hardware"), nvlink(xid=63, kind="degradation")):
        assert settled(marks, said).equals(said)
        assert sure(said).item() == to_time(10 * MINUTE)


def test_a_node_that_goes_away_hours_later_says_nothing_of_the_error() -> None:
    assert settled("x" * 80 + "." * 10, nvlink(), within=60)["kind"].item() == "unknown"


def test_what_a_line_says_goes_before_what_came_of_the_node() -> None:
    marks = "x" * 24 + "." * 10 + "x" * 6
    line = nvlink("Nonfatal", "degradation").assign(origin="log")
    found = settled(marks, conform(pd.concat([line, nvlink()]), EVENTS))
    assert found["kind"].tolist() == ["degradation", "unknown"]
    assert found["last"].tolist() == [to_time(10 * MINUTE)] * 2
