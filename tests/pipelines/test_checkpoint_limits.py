"""Stores with something missing or odd: what can't be said of saves is said, and the rest is told."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pipelines.test_checkpoints import CELLS, FOUR, WRITTEN, limits, made, operation, told, without


def test_an_infinite_sample_is_no_save(tmp_path: Path) -> None:
    def infinite(_: str, rows: dict[str, Any]) -> None:
        rows[WRITTEN] = np.where(np.arange(CELLS) == 22, np.inf, rows[WRITTEN])

    result = told(made(tmp_path / "s", FOUR, infinite))
    assert result["events"][0]["bytes"] == pytest.approx(4 * 6 * 30e9)
    assert limits(result, "in a lost scrape", "1 events")


def test_a_save_that_the_record_cuts_is_named(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", {node: [(0, 6), (120, 126)] for node in "abcd"}))
    assert limits(result, "how long 1 events lasted in all (save-20260104T000030Z)")


def test_a_queue_below_zero_is_no_verdict_and_is_said(tmp_path: Path) -> None:
    def below(_: str, rows: dict[str, Any]) -> None:
        rows[operation("queue_time_seconds")] *= -1

    result = told(made(tmp_path / "s", FOUR, below))
    assert [event["verdict"] for event in result["events"]] == ["unknown"] * 2
    assert limits(result, "the queue's share in 2 of 2 saves", "below zero")


def test_a_verdict_by_a_few_nodes_says_by_how_many(tmp_path: Path) -> None:
    def alone(node: str, rows: dict[str, Any]) -> None:
        if node != "a":
            without("operations")(node, rows)

    result = told(made(tmp_path / "s", FOUR, alone))
    assert result["events"][0]["evidence"][0].endswith("as 1 of 4 nodes tell")


def test_a_cluster_of_one_node_is_told_as_one(tmp_path: Path) -> None:
    result = told(made(tmp_path / "s", {"a": [(20, 26), (120, 126)]}))
    assert result["sentences"][0].startswith("2 saves by 1 node: ")
    assert "All events have about one size (1 node): nothing can be said about scaling." in result["sentences"][4]


def test_scrapes_of_a_minute_in_a_store_of_half_minutes_are_read_and_said(tmp_path: Path) -> None:
    def half(_: str, rows: dict[str, Any]) -> None:
        for name, values in rows.items():
            rows[name] = np.where(np.arange(CELLS) % 2 == 0, values, np.nan)

    result = told(made(tmp_path / "s", FOUR, half))
    assert [event["verdict"] for event in result["events"]] == ["rpc-slot-bound"] * 2
    assert result["events"][0]["bytes"] == pytest.approx(4 * 6 * 30e9, rel=0.01)
    assert limits(result, "2 events", "scrapes are missing")
