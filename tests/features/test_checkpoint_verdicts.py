"""What bound a save, from its figures."""

from typing import Any

import pytest

from features.checkpoint_verdicts import judge
from features.settings import CheckpointSettings
from tests.features.checkpoint_data import NAN, event

SETTINGS = CheckpointSettings()
SLOTS = {"slots_in_use": 127.0, "queue_share": 0.93, "queue_milliseconds": 93.0, "response_milliseconds": 7.0}


def verdict(quiet: float = 7.0, **figures: Any) -> str:
    return judge(event(**figures), SETTINGS, quiet).verdict


@pytest.mark.parametrize(
    ("figures", "said"),
    [
        ({"link_share": 0.85}, "network-bound"),
        ({"port_share": 0.95}, "network-bound"),
        ({"storage_share": 0.9}, "server-bound"),
        (SLOTS, "rpc-slot-bound"),
        ({"response_milliseconds": 30.0}, "server-bound"),
        ({"cpu_share": 0.95}, "client-cpu-bound"),
        ({"stragglers": ["n1"], "tail_share": 0.4}, "straggler-bound"),
        ({}, "unknown"),
    ],
)
def test_the_limit_that_is_full_is_the_verdict(figures: dict[str, Any], said: str) -> None:
    assert verdict(**figures) == said


def test_full_slots_without_a_wait_for_them_bind_nothing() -> None:
    assert verdict(slots_in_use=127.0) == "unknown"


def test_a_wait_with_free_slots_is_not_the_slots() -> None:
    assert verdict(queue_share=0.93) == "unknown"


def test_of_two_full_limits_the_outer_one_is_the_verdict_and_the_other_is_named() -> None:
    found = judge(event(**SLOTS, link_share=0.9), SETTINGS, 7.0)
    assert (found.verdict, found.also) == ("network-bound", ["rpc-slot-bound"])
    assert len(found.evidence) == 2


def test_a_tail_longer_than_the_rest_is_what_bound_it() -> None:
    found = judge(event(**SLOTS, stragglers=["n1"], tail_share=0.6), SETTINGS, 7.0)
    assert (found.verdict, found.also) == ("straggler-bound", ["rpc-slot-bound"])


def test_the_evidence_carries_the_events_own_numbers() -> None:
    (said,) = judge(event(**SLOTS), SETTINGS, 7.0).evidence
    for number in ("127 of 128", "93.0%", "93.0 of 100.0 ms", "5.0% of the link", "10.0% of the storage"):
        assert number in said


def test_slots_that_are_full_because_replies_are_slow_are_told_so() -> None:
    found = judge(event(**SLOTS), SETTINGS, 1.0)
    assert found.verdict == "rpc-slot-bound"
    assert "7 times as long as in quiet times (7.0 against 1.0 ms)" in found.evidence[1]


def test_unknown_says_how_near_each_limit_was() -> None:
    found = judge(event(), SETTINGS, 7.0)
    assert found.evidence[0] == "no limit was reached: link 5%, storage 10%, RPC slots 16%, CPU 30%"


def test_unknown_says_what_is_not_exported() -> None:
    untold = {"slots_in_use": NAN, "queue_share": NAN, "response_milliseconds": NAN, "cpu_share": NAN}
    found = judge(event(**untold), SETTINGS, NAN)
    assert found.verdict == "unknown"
    assert found.evidence[-1] == "not exported: RPC slots, CPU"


def test_without_quiet_times_a_slow_server_is_not_claimed() -> None:
    assert verdict(NAN, response_milliseconds=500.0) == "unknown"


def test_requests_that_were_sent_again_are_told() -> None:
    assert judge(event(resent=20.0), SETTINGS, 7.0).evidence[-1] == "20 requests were sent again, 2.0% of all"
    assert judge(event(resent=0.5), SETTINGS, 7.0) == judge(event(), SETTINGS, 7.0)
    assert judge(event(resent=NAN), SETTINGS, 7.0) == judge(event(), SETTINGS, 7.0)
