"""The same model judged otherwise says what it would do on new nodes, new kinds of failure, and in the future."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from features.labels import label
from features.windows import as_ns
from models import crossfit, protocols, splits
from models.settings import ModelSettings
from models.telling import of_matrix
from tests.models.planted import LABELS, SETTINGS, failures_at, matrix_of, windows_of

WINDOWS = windows_of(4, 5.0)
TIMES = (
    ("node01", "2026-01-01T12:00"),
    ("node02", "2026-01-02T06:00"),
    ("node03", "2026-01-02T20:00"),
    ("node01", "2026-01-04T12:00"),
    ("node02", "2026-01-05T12:00"),
)
NAMES = ("lightgbm", "random", "worst-node")
MODELS = ModelSettings(names=("lightgbm",), threads=1)


def asked(failures: pd.DataFrame) -> protocols.Ask:
    """A question of planted rows."""
    X = matrix_of(WINDOWS, failures, metrics=6)
    y = label(WINDOWS, failures, LABELS)["label"].to_numpy(dtype=np.float32)
    began = np.zeros(len(WINDOWS), dtype=bool)
    folds = splits.leave_one_failure_out(WINDOWS, failures, LABELS, SETTINGS)
    told = crossfit.run(folds, of_matrix(X), WINDOWS, y, NAMES, MODELS, began=began).told
    return protocols.Ask(NAMES, WINDOWS, failures, y, began, told, of_matrix(X))


@pytest.fixture(scope="module")
def five() -> protocols.Ask:
    return asked(failures_at(*TIMES, xids=(79, 48, 79, 48, 79)))


def judged(protocol: Any, ask: protocols.Ask) -> dict[str, Any]:
    return protocols.judge(protocol, ask, LABELS, SETTINGS, MODELS)


@pytest.mark.parametrize(("protocol", "folds", "failures"), [("node", 4, 5), ("class", 5, 5)])
def test_every_failure_is_judged_by_what_did_not_see_its_kin(
    five: protocols.Ask, protocol: str, folds: int, failures: int
) -> None:
    found = judged(protocol, five)
    assert (found["why_not"], found["folds"]) == ("", folds)
    assert list(found["models"]) == list(NAMES)
    for figures in found["models"].values():
        assert len(figures["by_failure"]) == failures
        assert 0 <= figures["before_interval"][0] <= figures["before_interval"][1] <= 1


def test_a_planted_sign_is_seen_on_nodes_that_taught_nothing(five: protocols.Ask) -> None:
    found = judged("node", five)["models"]
    assert found["lightgbm"]["before"] > found["random"]["before"]


def test_the_future_is_judged_from_the_second_step_on(five: protocols.Ask) -> None:
    found = judged("chronological", five)
    assert found["why_not"] == ""
    told = [row["failure"] for row in found["models"]["lightgbm"]["by_failure"]]
    assert told == ["f3", "f4"]  # two to learn from, and one lies in the step that sets the threshold


def test_what_comes_later_changes_no_earlier_score(five: protocols.Ask) -> None:
    folds = protocols._folds("chronological", five, LABELS, SETTINGS)[:2]
    late = as_ns(WINDOWS["end"]) > as_ns(WINDOWS["end"])[folds[-1].test].max()
    worse = np.where(late, np.float32(1e6), np.float32(1))[:, None]

    def poisoned(learn: NDArray[np.int64]) -> Any:
        known, ask = five.rows(learn)
        return known * worse[learn], lambda tell: ask(tell) * worse[tell]

    # of the quiet rows that the second step learns from a failure an hour into it would make early ones
    soon = WINDOWS["end"].iloc[folds[1].test].min() + pd.Timedelta("1h")
    more = failures_at(*TIMES, ("node00", f"{soon:%Y-%m-%dT%H:%M}"))
    turned = np.where(late, 1 - five.label, five.label).astype(np.float32)
    other = five._replace(rows=poisoned, label=turned, failures=more)
    honest = protocols._forward(folds, five, MODELS, LABELS)
    again = protocols._forward(protocols._folds("chronological", other, LABELS, SETTINGS)[:2], other, MODELS, LABELS)
    pd.testing.assert_frame_equal(honest, again)


@pytest.mark.parametrize(
    ("protocol", "rows", "xids", "why"),
    [
        ("node", TIMES[:1], (79,), "one failure only"),
        ("node", (TIMES[0], TIMES[3]), (79, 79), "all failures are on node01"),
        ("class", TIMES[:2], (79, 79), "all failures are of XID 79"),
        ("chronological", TIMES[:2], (79, 79), "no failure falls into the time"),
    ],
)
def test_what_can_not_be_judged_says_why(five: protocols.Ask, protocol: str, rows: Any, xids: Any, why: str) -> None:
    failures = failures_at(*rows, xids=xids)
    y = label(WINDOWS, failures, LABELS)["label"].to_numpy(dtype=np.float32)
    found = judged(protocol, five._replace(failures=failures, label=y))
    assert why in found["why_not"]
    assert found["models"] == {}
