"""Columns and values are told in words."""

import math
from typing import Any

import pytest

from features import history, log_columns, phase, presence
from pipelines.wording import described, telling, told


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("history.since_incident__value", math.log1p(3 * 3600), "time since the node's last incident: 3.0 hours"),
        ("history.since_event__value", math.log1p(7 * 86_400), "time since the node's last XID: a week or more"),
        ("history.events_7d__value", math.log1p(3), "XIDs of the node in 7 days: 3"),
        ("logs.unknown__value", math.log1p(12), "minutes with a log line never heard in quiet time: 12"),
        ("phase.now__value", 4.0, "what the node does: saving"),
        ("phase.idle_ratio__value", 0.25, "share of the window spent idle: 25 %"),
        ("presence.node_down__value", 1.0, "the node is down: yes"),
        ("presence.silent_seconds__value", 90.0, "time since the last sample: 90 s"),
        ("DCGM_FI_DEV_GPU_TEMP.gpu_max__mean", 71.25, "DCGM_FI_DEV_GPU_TEMP (mean, highest GPU): 71.25"),
        ("node_load1.peer__maximum", math.nan, "node_load1 (maximum, against peers): unknown"),
        ("no column at all", 2.0, "no column at all: 2"),
    ],
)
def test_a_column_and_its_value_are_words(column: str, value: float, words: str) -> None:
    assert f"{described(column)}: {told(column, value)}" == words


@pytest.mark.parametrize("column", [*history.COLUMNS, *log_columns.COLUMNS, *phase.COLUMNS, *presence.COLUMNS])
def test_every_column_of_our_own_has_words(column: str) -> None:
    if column != phase.GROUP:  # whom a node is compared with: never a reason by itself
        assert "_" not in described(column)
        assert described(column).split()[0] not in {"history", "logs", "phase", "presence"}


def reason(value: float | None, peers: float | None, usual: float | None) -> dict[str, Any]:
    return {"value": value, "peers": peers, "usual": usual}


def test_a_value_that_is_as_usual_is_no_reason_beside_one_that_is_not() -> None:
    odd, same = reason(29.0, 0.0, 0.0), reason(1.0, 1.0, 0.98)
    assert telling([same, odd]) == [odd]


def test_a_value_that_differs_from_either_stays() -> None:
    assert len(telling([reason(1.0, 1.0, 0.2), reason(1.0, 0.2, 1.0), reason(1.0, None, None)])) == 3


def test_where_all_is_as_usual_something_is_said() -> None:
    assert telling([reason(1.0, 1.0, 1.0)]) == [reason(1.0, 1.0, 1.0)]


def test_a_rule_has_no_value_and_stays() -> None:
    assert telling([reason(None, None, None), reason(1.0, 1.0, 1.0)]) == [reason(None, None, None)]


def test_a_gpu_among_its_siblings_is_told_by_its_place_and_in_percent() -> None:
    column = "DCGM_FI_DEV_GPU_TEMP.gpu_3__from_siblings"
    assert described(column) == "DCGM_FI_DEV_GPU_TEMP (GPU in place 3 against its siblings)"
    assert told(column, 0.153) == "+15.3 %"
