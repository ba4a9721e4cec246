"""Stages are added up, and told in a line."""

import pytest

from pipelines.costs import Costs, words


def test_a_stage_that_comes_twice_is_one() -> None:
    costs = Costs()
    costs.add("telling", 1.5)
    costs.add("telling", 2.0)
    with costs.stage("folds"):
        pass
    assert costs.told()["stages"]["telling"] == 3.5
    assert list(costs.told()["stages"]) == ["telling", "folds"]


def test_a_stage_that_fails_is_counted_all_the_same() -> None:
    costs = Costs()
    with pytest.raises(ValueError, match="x"), costs.stage("folds"):
        raise ValueError("x")
    assert "folds" in costs.told()["stages"]


def test_memory_is_told_in_mebibytes() -> None:
    assert 20 < Costs().told()["peak_mebibytes"] < 1_000_000


def test_the_dearest_stage_is_told_first_and_what_took_no_time_is_not() -> None:
    told = {"stages": {"a": 2.0, "b": 9.0, "c": 0.1}, "seconds": 11.0, "cpu_seconds": 12.0, "peak_mebibytes": 500}
    assert words(told) == "11 s (12 s of processor), 500 MiB at most: b 9 s, a 2 s"
