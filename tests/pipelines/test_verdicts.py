"""Reasons are sentences: which failure has begun and what to do, which log lines are odd and why."""

from typing import Any

import numpy as np
import pandas as pd

from features.log_columns import Telling
from features.settings import LabelSettings
from models import rules
from pipelines import verdicts
from pipelines.frozen import Usual

RULE: dict[str, Any] = {"feature": rules.REASON, "text": "a failure has begun"}


def named(code: int | None) -> str:
    reasons = [dict(RULE)]
    verdicts._name_failure(reasons, code, LabelSettings())
    return str(reasons[0]["text"])


def test_a_failure_that_has_begun_is_named_with_its_recommended_action() -> None:
    assert named(79).startswith("a failure has begun: XID 79 (")
    assert named(79).endswith("; recommended action: RESTART_BM")


def test_a_lost_gpu_without_a_code_stays_what_it_is() -> None:
    assert named(None) == "a failure has begun"


def test_an_odd_log_line_is_cited_with_its_template() -> None:
    said = verdicts._cite(Telling("a <*>", "a 7", 3, 2.5, "burst"))
    assert said["text"] == "log line 3 times, heard far more often than in quiet time: a 7"
    assert (said["template"], said["value"], said["effect"]) == ("a <*>", 3.0, 2.5)


def test_a_very_long_log_line_is_cut() -> None:
    assert len(verdicts._cite(Telling("", "x" * 100_000, 1, 2.5, "unknown"))["text"]) < 400


def test_a_value_stands_beside_its_peers_and_its_own_usual() -> None:
    end = pd.Timestamp("2026-01-01T10:00Z")
    index = pd.MultiIndex.from_tuples([("n1", end), ("n2", end), ("n3", end)], names=["node", "end"])
    X = pd.DataFrame({"up__maximum": np.array([5.0, 1.0, 3.0], dtype=np.float32)}, index=index)
    said = verdicts.reason(Usual.of(X), X, 0, "up__maximum", 1.0)
    assert (said["value"], said["peers"], said["usual"]) == (5.0, 2.0, 5.0)
    assert said["text"] == "up (maximum) is 5; its peers' 2, its own usual 5"
