"""A node that failed is at more risk than one that did not, and one failure does not make it ten times worse."""

import pandas as pd

from pipelines import report_nodes
from tests.models.planted import failures_at, windows_of

WINDOWS = windows_of(3, 10.0)
SCORED = WINDOWS.assign(score=0.1, threshold=0.5)


def ranked(*failures: tuple[str, str]) -> list[dict[str, object]]:
    return report_nodes.by_risk(failures_at(*failures), SCORED, [], WINDOWS)


def test_the_node_with_most_failures_is_first() -> None:
    found = ranked(("node01", "2026-01-02T10:00"), ("node01", "2026-01-04T10:00"), ("node02", "2026-01-05T10:00"))
    assert [row["node"] for row in found] == ["node01", "node02", "node00"]
    assert found[0]["days_between"] == 2.0


def test_all_nodes_together_are_expected_to_fail_as_often_as_they_did() -> None:
    found = ranked(("node01", "2026-01-02T10:00"), ("node02", "2026-01-05T10:00"))
    expected = sum(float(str(row["risk_30_days"])) for row in found)
    assert abs(expected - 30 * 2 / 9.986) < 0.2


def test_without_failures_no_one_is_at_risk() -> None:
    assert {row["risk_30_days"] for row in report_nodes.by_risk(failures_at(), SCORED, [], WINDOWS)} == {0.0}


def test_of_equals_the_one_with_the_higher_score_is_first() -> None:
    scored = SCORED.assign(score=(SCORED["node"] == "node02") * 0.4)
    assert report_nodes.by_risk(failures_at(), scored, [], WINDOWS)[0]["node"] == "node02"


def test_false_alarms_are_counted_by_what_they_cost() -> None:
    found = report_nodes.by_risk(failures_at(), SCORED, [{"node": "node00", "cost": 3}], WINDOWS)
    assert {row["node"]: row["false_alarms"] for row in found} == {"node00": 3, "node01": 0, "node02": 0}


def test_the_share_of_the_worst_is_told() -> None:
    found = ranked(("node01", "2026-01-02T10:00"), ("node01", "2026-01-04T10:00"), ("node02", "2026-01-05T10:00"))
    assert report_nodes.concentration(found, 1) == {"most": 1, "share": 2 / 3, "repeated": 1}


def test_scores_of_the_last_day_are_shares_of_the_threshold() -> None:
    late = pd.Timestamp("2026-01-10T12:00Z")
    scored = SCORED.assign(score=((SCORED["end"] >= late) & (SCORED["node"] == "node00")) * 0.25)
    levels = {row["node"]: row["score_lately"] for row in report_nodes.by_risk(failures_at(), scored, [], WINDOWS)}
    assert levels == {"node00": 0.5, "node01": 0.0, "node02": 0.0}
