"""Scores whose truth is planted are judged as what they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from features.labels import label
from features.tables import InputError
from features.windows import as_ns
from models import evaluation, rules
from models.evaluation import judge
from models.intervals import clopper_pearson, poisson_rate
from tests.models.planted import LABELS, SETTINGS, failures_at, predictions_of, random_failures, windows_of

MINUTE = 60_000_000_000


def judged(windows: pd.DataFrame, failures: pd.DataFrame, alarms: list[tuple[str, str, str]]) -> dict[str, object]:
    """Figures of a score that is 1 at the given ends (node, first, last) and 0 elsewhere, at a budget of 100."""
    score = np.zeros(len(windows))
    for node, first, last in alarms:
        inside = windows["end"].between(pd.Timestamp(f"{first}Z"), pd.Timestamp(f"{last}Z"))
        score[(inside & (windows["node"] == node)).to_numpy()] = 1.0
    generous = SETTINGS.model_copy(update={"budget_per_day": 100.0})
    # A score that is 0 somewhere else in each fold's training part, so that the threshold is 0
    return judge(predictions_of(windows, score), failures, windows, LABELS, generous)


FAILURE = failures_at(("node00", "2026-01-01T12:00"))


@pytest.mark.parametrize(
    ("first", "outcome"),
    [
        ("2026-01-01T10:55", "missed"),  # earlier than the horizon
        ("2026-01-01T11:00", "before"),
        ("2026-01-01T11:55", "before"),
        ("2026-01-01T12:00", "at"),
        ("2026-01-01T12:10", "at"),
        ("2026-01-01T12:15", "missed"),  # later than the grace
    ],
)
def test_an_alarm_is_before_at_or_too_late(first: str, outcome: str) -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", first, first)])
    assert found[outcome] == 1


def test_lead_is_from_the_first_alarm_within_the_horizon() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T11:15", "2026-01-01T11:50")])
    assert found["lead_minutes_median"] == 45.0


def test_an_alarm_on_another_node_is_false() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node01", "2026-01-01T11:30", "2026-01-01T11:30")])
    assert (found["before"], found["false_alarms"]) == (0, 1)


def test_an_alarm_in_repair_time_counts_as_neither() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T12:30", "2026-01-01T13:00")])
    assert (found["missed"], found["false_alarms"]) == (1, 0)


def test_alarms_within_a_quarter_of_an_hour_are_one_episode() -> None:
    near = [("node01", "2026-01-01T03:00", "2026-01-01T03:00"), ("node01", "2026-01-01T03:15", "2026-01-01T03:15")]
    far = [("node01", "2026-01-01T06:00", "2026-01-01T06:00"), ("node01", "2026-01-01T06:20", "2026-01-01T06:20")]
    assert judged(windows_of(2, 1), FAILURE, near)["false_alarms"] == 1
    assert judged(windows_of(2, 1), FAILURE, far)["false_alarms"] == 2


def test_an_alarm_that_is_always_on_costs_every_started_hour() -> None:
    found = judged(windows_of(2, 2), FAILURE, [("node01", "2026-01-01T01:00", "2026-01-01T05:00")])
    assert found["false_alarms"] == 5


def test_a_warning_that_begins_a_little_before_the_horizon_is_not_false() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T10:40", "2026-01-01T11:55")])
    assert (found["before"], found["false_alarms"]) == (1, 0)


def test_a_warning_that_stands_for_hours_until_the_failure_is_not_false() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T06:00", "2026-01-01T11:55")])
    assert (found["before"], found["false_alarms"]) == (1, 0)


def test_an_early_alarm_that_broke_off_is_false() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T06:00", "2026-01-01T08:00")])
    assert (found["before"], found["false_alarms"]) == (0, 3)


def test_early_alarms_are_charged_only_in_episodes_that_break_off() -> None:
    windows = windows_of(1, 1)
    predictions = predictions_of(windows, 0.0)
    truth = evaluation.judged_failures(predictions, FAILURE, LABELS)
    ground = evaluation.survey(predictions, truth, 20 * 60 * 10**9, LABELS)
    early = np.flatnonzero(ground.zone == evaluation.EARLY)[-2:]
    rows = np.append(early, np.flatnonzero(ground.zone == evaluation.BEFORE)[0])
    assert evaluation.charged(ground, rows, np.array([0, 0, 0])).tolist() == [False, False, False]
    assert evaluation.charged(ground, rows, np.array([0, 0, 1])).tolist() == [True, True, False]


def test_an_alarm_that_stood_long_before_the_failure_pays_for_each_hour_that_was_not_even_early_save_one() -> None:
    found = judged(windows_of(2, 1), FAILURE, [("node00", "2026-01-01T02:00", "2026-01-01T11:55")])
    assert (found["before"], found["false_alarms"]) == (1, 3)


def test_repair_of_one_failure_is_no_warning_of_the_next() -> None:
    failures = failures_at(("node00", "2026-01-01T12:00"), ("node00", "2026-01-01T13:00"))
    found = judged(windows_of(2, 1), failures, [("node00", "2026-01-01T12:15", "2026-01-01T12:50")])
    assert (found["before"], found["missed"]) == (0, 2)


def test_a_failure_outside_the_scored_time_is_neither_caught_nor_missed() -> None:
    failures = failures_at(("node00", "2026-01-01T12:00"), ("node00", "2026-03-01T12:00"))
    found = judged(windows_of(2, 1), failures, [])
    assert (found["missed"], found["unjudged"]) == (1, 1)


def oracle(windows: pd.DataFrame, failures: pd.DataFrame) -> np.ndarray:
    noise = np.random.default_rng(0).random(len(windows))
    return np.where(label(windows, failures, LABELS)["label"].to_numpy() == 1, 2.0, noise)


def folds_by_day(windows: pd.DataFrame) -> np.ndarray:
    return as_ns(windows["end"]) // (24 * 60 * MINUTE) % 5


def test_a_score_that_knows_the_answer_is_perfect() -> None:
    windows, failures = windows_of(6, 12), random_failures(10, 6, 12, seed=0)
    found = judge(
        predictions_of(windows, oracle(windows, failures), folds_by_day(windows)), failures, windows, LABELS, SETTINGS
    )
    assert (found["before"], found["at"], found["missed"]) == (10, 0, 0)
    assert found["before_interval"] == pytest.approx([0.692, 1.0], abs=1e-3)
    assert found["p_permutation"] < 0.01
    assert found["verdict"] == "signal"
    assert found["lead_minutes_median"] > 50


def test_a_random_score_is_judged_as_random() -> None:
    windows, failures = windows_of(6, 12), random_failures(10, 6, 12, seed=0)
    p = []
    for seed in range(12):
        score = np.random.default_rng(seed).random(len(windows))
        found = judge(predictions_of(windows, score, folds_by_day(windows)), failures, windows, LABELS, SETTINGS)
        assert found["false_alarms_per_day"] < 3 * SETTINGS.budget_per_day
        p.append(found["p_permutation"])
    assert np.mean(np.array(p) <= 0.05) <= 0.25
    assert np.mean(p) > 0.5


def test_the_threshold_of_a_fold_does_not_see_that_fold() -> None:
    windows, failures = windows_of(4, 10), failures_at()
    score, fold = np.random.default_rng(1).random(len(windows)) / 2, folds_by_day(windows)
    quiet = judge(predictions_of(windows, score, fold), failures, windows, LABELS, SETTINGS)
    loud = judge(
        predictions_of(windows, np.where(fold == 3, score + 0.49, score), fold), failures, windows, LABELS, SETTINGS
    )
    assert loud["thresholds"][3] == quiet["thresholds"][3]
    assert loud["thresholds"][0] != quiet["thresholds"][0]


def test_spending_keeps_the_budget_and_uses_it() -> None:
    windows = windows_of(6, 20)
    score = np.random.default_rng(2).random(len(windows))
    found = judge(predictions_of(windows, score), failures_at(), windows, LABELS, SETTINGS)
    assert [step["false_alarms_per_day"] <= step["budget"] for step in found["curve"]] == [True] * 6
    assert found["curve"][-1]["false_alarms_per_day"] > 4


def test_a_score_without_differences_raises_no_alarm() -> None:
    windows = windows_of(2, 2)
    found = judge(predictions_of(windows, 0.5), FAILURE, windows, LABELS, SETTINGS)
    assert (found["false_alarms"], found["missed"], found["verdict"]) == (0, 1, "no signal")


def test_a_score_that_is_no_number_is_refused() -> None:
    windows = windows_of(1, 1)
    with pytest.raises(InputError, match="no numbers"):
        judge(predictions_of(windows, np.nan), FAILURE, windows, LABELS, SETTINGS)


def test_exact_intervals_hold_the_truth_at_least_as_often_as_they_say() -> None:
    random = np.random.default_rng(0)
    shares = [clopper_pearson(int(k), 10) for k in random.binomial(10, 0.3, 400)]
    rates = [poisson_rate(int(k), 12.0) for k in random.poisson(0.84 * 12, 400)]
    assert np.mean([low <= 0.3 <= high for low, high in shares]) >= 0.94
    assert np.mean([low <= 0.84 <= high for low, high in rates]) >= 0.94


def test_forward_a_threshold_sees_neither_its_own_step_nor_a_later_one() -> None:
    windows, failures = windows_of(4, 10), failures_at()
    score = np.random.default_rng(1).random(len(windows)) / 2
    step = np.searchsorted(np.unique(as_ns(windows["end"]))[:: 12 * 48], as_ns(windows["end"]), side="right") - 1
    told = {}
    for loud in (None, 1, 3):
        told[loud] = judge(
            predictions_of(windows, np.where(step == loud, score + 0.49, score), step),
            failures, windows, LABELS, SETTINGS, forward=True,
        )["thresholds"]  # fmt: skip
    assert told[3][3] == told[None][3]
    assert told[3][2] == told[None][2]
    assert told[3][4] > 0.5 > told[None][4]
    assert told[1][1] == told[None][1]


def test_forward_the_first_step_is_not_judged() -> None:
    windows, failures = windows_of(2, 4), failures_at(("node00", "2026-01-01T12:00"), ("node00", "2026-01-04T12:00"))
    step = (as_ns(windows["end"]) >= pd.Timestamp("2026-01-03T00:00Z").value).astype(int)
    found = judge(predictions_of(windows, 0.5, step), failures, windows, LABELS, SETTINGS, forward=True)
    assert [row["failure"] for row in found["by_failure"]] == ["f1"]
    assert found["monitored_days"] == pytest.approx(2.0, abs=0.01)


def test_half_a_million_windows_are_judged() -> None:
    windows, failures = windows_of(60, 29), random_failures(10, 60, 29, seed=4)
    score = np.random.default_rng(3).random(len(windows))
    found = judge(predictions_of(windows, score, folds_by_day(windows)), failures, windows, LABELS, SETTINGS)
    assert found["monitored_node_days"] == pytest.approx(60 * 29, rel=0.01)


def test_a_failure_that_has_begun_is_an_alarm_and_counted_but_spends_no_budget() -> None:
    windows, failures = windows_of(4, 10), failures_at(("node00", "2026-01-03T10:00"))
    score = np.random.default_rng(1).random(len(windows)) / 2
    ended = windows["end"].dt.hour.isin([3, 15]) & (windows["end"].dt.minute == 0)
    unknown = (ended & (windows["node"] == "node01")).to_numpy()  # XIDs that no ticket calls a failure: twice a day
    without = judge(predictions_of(windows, score), failures, windows, LABELS, SETTINGS)
    found = judge(predictions_of(windows, np.where(unknown, 1.0, score)), failures, windows, LABELS, SETTINGS)
    assert found["threshold"] == pytest.approx(without["threshold"], abs=0.01)
    assert found["threshold"] < 1
    more = found["false_alarms_per_day"] - without["false_alarms_per_day"]
    assert more == pytest.approx(2, abs=0.2)


def test_where_nothing_is_quiet_only_a_failure_that_has_begun_is_an_alarm() -> None:
    windows = windows_of(1, 1)
    failures = failures_at(("node00", "2026-01-01T12:00"))
    busy = failures.assign(end=pd.Timestamp("2026-01-02T12:00Z"), time=pd.Timestamp("2026-01-01T00:30Z"))
    score = np.full(len(windows), 0.999)
    score[6] = 1.0
    found = judge(predictions_of(windows, score), busy, windows, LABELS, SETTINGS)
    assert (found["before"], found["at"], found["threshold"]) == (0, 1, rules.MOST)


def test_an_episode_around_a_failure_has_one_hour_free_not_one_on_each_side() -> None:
    windows, failures = windows_of(1, 2), failures_at(("node00", "2026-01-01T12:00"))
    before = judged(windows, failures, [("node00", "2026-01-01T04:05", "2026-01-01T11:55")])
    both = judged(windows, failures, [("node00", "2026-01-01T04:05", "2026-01-01T18:00")])
    clear = LABELS.recovery + pd.Timedelta(minutes=5)
    quiet = pd.Timedelta(hours=6) - clear
    assert both["false_alarms"] - before["false_alarms"] == -(-quiet // pd.Timedelta(hours=1))  # type: ignore[operator]
