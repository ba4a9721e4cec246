from collections import Counter

import numpy as np
import pandas as pd
import pytest

from features import chains
from features.settings import RetrySettings
from features.tables import SESSIONS, conform

SETTINGS = RetrySettings()
Row = tuple[str, int, str, str, str, str, str]  # job, attempt, started, ended, outcome, nodes, excluded


def stamps(texts: list[str]) -> "pd.Series[pd.Timestamp]":
    """Times as 10:00 (of the first) or 02T10:00; "" is none."""
    whole = ["NaT" if not text else f"2026-01-{text if 'T' in text else '01T' + text}:00Z" for text in texts]
    return pd.Series(pd.to_datetime(whole, utc=True))


def sessions(*rows: Row) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True))
    frame = pd.DataFrame({"job": columns[0], "attempt": columns[1], "outcome": columns[4]})
    frame["started"], frame["ended"] = stamps(list(columns[2])), stamps(list(columns[3]))
    for name, place in (("nodes", 5), ("excluded", 6)):
        frame[name] = pd.Series([text.split() for text in columns[place]], dtype=object)
    return conform(frame, SESSIONS)


RETRIED = (
    ("a", 1, "00:00", "06:00", "failed", "n1 n2", "n1"),
    ("a", 2, "06:11", "06:21", "failed", "n2 n3", ""),
    ("a", 3, "07:50", "20:00", "completed", "n2 n3", ""),
)


@pytest.mark.parametrize(
    ("word", "kind"),
    [
        ("COMPLETED", "success"),
        ("Complete", "success"),
        ("CANCELLED by 1000", "stopped"),
        ("CANCELLED+", "stopped"),
        ("PREEMPTED", "stopped"),
        ("NODE_FAIL", "failure"),
        ("TIMEOUT", "failure"),
        ("RUNNING", "unknown"),
        ("", "unknown"),
    ],
)
def test_a_schedulers_word_says_how_a_try_ended(word: str, kind: str) -> None:
    assert chains.kind_of(word) == kind


def test_tries_of_a_job_that_come_soon_are_a_chain_with_their_intervals() -> None:
    tried = chains.attempts(sessions(*RETRIED), SETTINGS)
    assert set(tried["chain"]) == {0}
    assert tried["place"].tolist() == [1, 2, 3]
    assert tried["gap_seconds"].tolist()[1:] == [11 * 60, 89 * 60]
    assert tried["automatic"].tolist() == ["", "yes", "no"]


def test_rows_in_any_order_give_the_same_chains() -> None:
    frame = sessions(*RETRIED)
    pd.testing.assert_frame_equal(
        chains.attempts(frame.iloc[::-1].reset_index(drop=True), SETTINGS), chains.attempts(frame, SETTINGS)
    )


def test_a_job_that_succeeded_begins_anew() -> None:
    again = ("a", 4, "20:05", "21:00", "failed", "n2 n3", "")
    assert chains.attempts(sessions(*RETRIED, again), SETTINGS)["chain"].tolist() == [0, 0, 0, 1]


def test_a_job_that_comes_back_days_later_begins_anew() -> None:
    again = ("a", 2, "03T06:00", "03T07:00", "failed", "n2 n3", "")
    assert chains.attempts(sessions(RETRIED[0], again), SETTINGS)["chain"].tolist() == [0, 1]


def test_names_that_change_with_every_try_are_one_job_by_a_pattern() -> None:
    again = ("a-retry1", 1, "06:11", "06:21", "failed", "n2 n3", "")
    settings = RetrySettings(same_job=r"(.+?)-retry\d+")
    assert chains.attempts(sessions(RETRIED[0], again), settings)["chain"].tolist() == [0, 0]
    assert chains.attempts(sessions(RETRIED[0], again), SETTINGS)["chain"].tolist() == [0, 1]


@pytest.mark.parametrize("pattern", ["(", "no-group"])
def test_a_pattern_without_a_group_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="same_job"):
        RetrySettings(same_job=pattern)


def test_jobs_on_the_same_nodes_stay_apart() -> None:
    other = ("b", 1, "06:11", "06:21", "failed", "n1 n2", "")
    assert chains.attempts(sessions(RETRIED[0], other), SETTINGS)["chain"].tolist() == [0, 1]


def test_a_try_without_an_end_leaves_only_its_interval_and_length_open() -> None:
    doubts: Counter[str] = Counter()
    first = ("a", 1, "00:00", "", "failed", "n1 n2", "")
    tried = chains.attempts(sessions(first, *RETRIED[1:]), SETTINGS, doubts)
    assert set(tried["chain"]) == {0}
    assert np.isnan(tried["gap_seconds"]).tolist() == [True, True, False]
    assert np.isnan(tried["hours"]).tolist() == [True, False, False]
    assert doubts["without an end"] == 1


def test_a_try_that_ends_before_it_starts_loses_its_end() -> None:
    doubts: Counter[str] = Counter()
    tried = chains.attempts(sessions(("a", 1, "06:00", "05:00", "failed", "n1", "")), SETTINGS, doubts)
    assert tried["ended"].isna().all()
    assert doubts["that end before they start"] == 1
    assert not doubts["without an end"]


def test_overlapping_tries_are_one_chain_whose_interval_is_not_known() -> None:
    doubts: Counter[str] = Counter()
    early = ("a", 2, "05:30", "06:21", "failed", "n2 n3", "")
    tried = chains.attempts(sessions(RETRIED[0], early), SETTINGS, doubts)
    assert set(tried["chain"]) == {0}
    assert np.isnan(tried["gap_seconds"].iloc[1])
    assert doubts["that begin before the try before has ended"] == 1


def test_a_minute_of_overlap_is_clocks_apart_and_no_wait() -> None:
    doubts: Counter[str] = Counter()
    early = ("a", 2, "05:59", "06:21", "failed", "n2 n3", "")
    assert chains.attempts(sessions(RETRIED[0], early), SETTINGS, doubts)["gap_seconds"].iloc[1] == 0
    assert doubts["whose clocks are slightly apart"] == 1


def test_a_chain_is_as_its_last_try_and_as_most_of_its_retries() -> None:
    more = ("a", 4, "20:00", "21:00", "failed", "n1", "")
    listed = chains.chains(chains.attempts(sessions(*RETRIED, more), SETTINGS))
    assert listed[["attempts", "kind", "automatic", "manual", "mode"]].to_dict("records") == [
        {"attempts": 3, "kind": "success", "automatic": 1, "manual": 1, "mode": "mixed"}
    ]


def test_recovery_lasts_from_the_first_failure_to_the_try_that_got_going() -> None:
    found = chains.recoveries(chains.attempts(sessions(*RETRIED), SETTINGS), SETTINGS)
    assert found[["seconds", "recovered"]].to_dict("records") == [{"seconds": 110 * 60.0, "recovered": True}]


def test_a_chain_given_up_never_recovered() -> None:
    found = chains.recoveries(chains.attempts(sessions(*RETRIED[:2]), SETTINGS), SETTINGS)
    assert found[["seconds", "recovered"]].to_dict("records") == [{"seconds": 21 * 60.0, "recovered": False}]


def test_lost_hours_are_those_of_waits_stumbles_and_at_most_of_long_failed_tries() -> None:
    tried = chains.attempts(sessions(*RETRIED), SETTINGS)
    lost = chains.lost_hours(tried, SETTINGS)
    assert lost["waiting"] == pytest.approx(2 * (11 + 89) / 60)
    assert lost["stumbles"] == pytest.approx(2 * 10 / 60)
    assert lost["at_most"] == pytest.approx(2 * 6)


def test_a_failed_try_costs_itself_when_it_stumbled_and_the_wait_for_the_next() -> None:
    costs = chains.costs(chains.attempts(sessions(*RETRIED), SETTINGS), SETTINGS)
    np.testing.assert_allclose(costs, [2 * 11 / 60, 2 * (10 + 89) / 60, 0])


def test_a_node_of_the_try_is_out_from_its_end_and_another_from_its_beginning() -> None:
    second = ("a", 2, "06:11", "06:21", "failed", "n2 n3", "n4")
    found = chains.exclusions(sessions(RETRIED[0], second))
    assert found[["node", "job", "attempt"]].to_numpy().tolist() == [["n1", "a", 1], ["n4", "a", 2]]
    assert found["time"].tolist() == stamps(["06:00", "06:11"]).tolist()


def test_without_nodes_an_exclusion_is_known_at_the_end() -> None:
    found = chains.exclusions(sessions(("a", 1, "00:00", "06:00", "failed", "", "n1")))
    assert found["time"].tolist() == stamps(["06:00"]).tolist()


def test_a_node_named_again_before_it_ran_is_still_the_same_exclusion() -> None:
    rows = [("a", k, f"0{k}:00", f"0{k}:30", "failed", "n2", "n1") for k in (1, 2, 3)]
    back = ("b", 1, "05:00", "06:00", "completed", "n1", "")
    later = ("a", 4, "07:00", "08:00", "failed", "n2", "n1")
    found = chains.exclusions(sessions(*rows, back, later))
    assert found["time"].tolist() == stamps(["01:00", "07:00"]).tolist()
    assert chains.returns(sessions(*rows, back, later), found).tolist() == [*stamps(["05:00"]), pd.NaT]


def test_nodes_that_a_retry_ran_without_were_dropped_unless_all_changed() -> None:
    rows = (
        ("a", 1, "00:00", "06:00", "failed", "n1 n2 n3", ""),
        ("a", 2, "06:11", "06:21", "failed", "n2 n3 n4", ""),
        ("a", 3, "06:32", "06:40", "cancelled", "n7 n8 n9", ""),
        ("a", 4, "06:50", "07:00", "failed", "n7 n8", ""),
    )
    found = chains.dropped(chains.attempts(sessions(*rows), SETTINGS))
    assert found[["node", "job", "attempt"]].to_numpy().tolist() == [["n1", "a", 2]]
    assert found["time"].tolist() == stamps(["06:11"]).tolist()


def test_no_sessions_give_empty_tables() -> None:
    tried = chains.attempts(SESSIONS.empty(), SETTINGS)
    assert (
        len(tried)
        == len(chains.chains(tried))
        == len(chains.exclusions(SESSIONS.empty()))
        == len(chains.dropped(tried))
        == 0
    )
    assert chains.lost_hours(tried, SETTINGS) == {"waiting": 0, "stumbles": 0, "at_most": 0}
    assert len(chains.costs(tried, SETTINGS)) == len(chains.recoveries(tried, SETTINGS)) == 0
