import numpy as np
import pytest

from features.tables import UsageError
from models import recovery


@pytest.mark.parametrize("by_hand", [(1, 8), (2, 16), (3, 24)])
def test_the_studys_third_against_an_eighth_does_not_reach_significance(by_hand: tuple[int, int]) -> None:
    found = recovery.compare(
        recovery.share(4, 12), recovery.share(*by_hand), ("automatic chains", "restarts by hand"), "succeed"
    )
    assert found["significant"] is False
    assert found["fisher_p"] > 0.15
    assert found["barnard_p"] > 0.1
    assert found["sentence"].startswith(
        f"33.3 % (4 of 12) of automatic chains succeed against 12.5 % ({by_hand[0]} of {by_hand[1]}) of restarts by "
        "hand; the difference does not reach significance"
    )


def test_the_same_shares_of_ten_times_the_tries_do_reach_it() -> None:
    found = recovery.compare(recovery.share(40, 120), recovery.share(20, 160), ("a", "b"), "succeed")
    assert found["significant"] is True
    assert "reaches significance" in found["sentence"]


def test_a_side_without_tries_cannot_be_compared() -> None:
    found = recovery.compare(recovery.share(4, 12), recovery.share(0, 0), ("a", "tries by hand"), "succeed")
    assert found["fisher_p"] is None
    assert found["sentence"] == "There are no tries by hand, so nothing can be said of how often the two succeed."


def test_all_alike_is_no_difference() -> None:
    found = recovery.compare(recovery.share(3, 3), recovery.share(5, 5), ("a", "b"), "succeed")
    assert found["fisher_p"] == found["barnard_p"] == 1


def test_a_share_comes_with_its_exact_interval() -> None:
    found = recovery.share(4, 12)
    assert found["interval"] == pytest.approx([0.0992, 0.6511], abs=1e-4)  # Clopper-Pearson tables
    assert recovery.share(0, 0)["share"] is None


def test_a_spread_has_quartiles_and_the_medians_exact_interval() -> None:
    found = recovery.spread([10, 11, 11, 10, 12, 11, float("nan")])
    assert (found["n"], found["median"], found["q1"], found["q3"]) == (6, 11, 10.25, 11)
    assert found["median_interval"] == [10, 12]  # of six values the smallest and the largest, 96.9 %


def test_five_values_have_no_median_interval_at_95_percent() -> None:
    assert recovery.spread([1, 2, 3, 4, 5])["median_interval"] is None
    assert recovery.spread([])["median"] is None


def test_the_median_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    bounds = [recovery.spread(rng.exponential(size=25))["median_interval"] for _ in range(600)]
    inside = [low <= np.log(2) <= high for low, high in bounds]
    assert 0.93 <= np.mean(inside) <= 0.99


def test_gini_is_none_of_nothing_zero_of_equals_and_near_one_for_one_of_many() -> None:
    assert recovery.gini([0, 0]) is None
    assert recovery.gini([2, 2, 2]) == pytest.approx(0)
    assert recovery.gini([0, 0, 0, 5]) == pytest.approx(0.75)


def test_few_events_on_many_nodes_are_uneven_by_chance_alone() -> None:
    found = recovery.concentration({f"n{k}": 1 for k in range(8)}, 63)
    assert found["gini"] > 0.8
    assert found["gini_p"] > 0.5
    assert found["top"][1]["p"] > 0.5


def test_three_nodes_with_over_half_of_many_events_are_no_chance() -> None:
    counts = {"a": 9, "b": 8, "c": 7, **{f"n{k}": 1 for k in range(16)}}
    found = recovery.concentration(counts, 63)
    top = next(row for row in found["top"] if row["k"] == 3)
    assert (top["count"], top["of"]) == (24, 40)
    assert top["p"] < 0.01
    assert found["by_node"][0]["node"] == "a"


def test_a_cluster_smaller_than_its_events_is_refused() -> None:
    with pytest.raises(UsageError, match=r"set retries\.nodes"):
        recovery.concentration({"a": 1, "b": 1}, 1)


def test_survival_takes_nodes_that_are_still_well_as_watched_so_long() -> None:
    found = recovery.survival([1, 2, 3, 4], [True, False, True, False], at=(1, 3.5, 9))
    assert [round(point["share"], 3) for point in found["curve"]] == [0.75, 0.75, 0.375, 0.375]
    assert [row["share"] for row in found["at"]] == [0.75, 0.375, None]
    assert found["median_days"] == 3
    low, high = found["curve"][0]["low"], found["curve"][0]["high"]
    assert 0 < low < 0.75 < high < 1


def test_survival_of_nothing_and_without_failures_has_no_bounds_and_no_warnings() -> None:
    assert recovery.survival([], [])["curve"] == []
    assert recovery.survival([3.0], [False])["curve"] == [
        {"days": 3.0, "share": 1.0, "low": None, "high": None, "at_risk": 1}
    ]


def test_nodes_that_fail_sooner_are_told_apart_only_when_something_failed() -> None:
    late = ([50.0] * 20, [False] * 20)
    assert recovery.sooner(late, ([1.0, 2, 3, 4, 5, 6], [True] * 6)) == pytest.approx(0, abs=1e-4)
    assert recovery.sooner(late, ([1.0], [False])) is None
    assert recovery.sooner(late, ([], [])) is None
