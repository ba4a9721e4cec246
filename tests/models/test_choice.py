"""The champion and the verdict."""

from models.choice import affordable, compare
from models.evaluation import judge
from tests.models.planted import LABELS, SETTINGS, predictions_of, random_failures, windows_of
from tests.models.test_evaluation import oracle


def test_a_baseline_that_does_as_well_means_no_signal() -> None:
    windows, failures = windows_of(6, 12), random_failures(10, 6, 12, seed=0)
    predictions = predictions_of(windows, oracle(windows, failures))
    found = judge(predictions, failures, windows, LABELS, SETTINGS)
    assert compare({"blend": found}, frozenset())["verdict"] == "signal"
    both = compare({"blend": found, "clock-and-node": found}, frozenset({"clock-and-node"}))
    assert both["verdict"] == "no signal"
    assert both["mcnemar"] == {"clock-and-node": 1.0}


def test_models_that_were_looked_at_and_dropped_cost_significance_too() -> None:
    windows, failures = windows_of(6, 12), random_failures(10, 6, 12, seed=0)
    found = judge(predictions_of(windows, oracle(windows, failures)), failures, windows, LABELS, SETTINGS)
    dear = {**found, "false_alarms_per_day": 9.0}
    kept = affordable({"blend": found, "lightgbm": dear}, frozenset(), budget=0.84)
    assert list(kept) == ["blend"]
    assert "after looking at 2 models" in compare(kept, frozenset(), tried=2)["reason"]
