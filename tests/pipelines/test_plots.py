"""Figures are pictures of what they are given, and the same each time."""

from typing import Any

import pandas as pd

from pipelines import plots

PNG = b"\x89PNG\r\n\x1a\n"
MOMENT = pd.Timestamp("2026-01-01T10:00:00Z")


def judged(before: int = 1, name: str = "f1") -> dict[str, Any]:
    failure = {"failure": name, "node": "n1", "time": MOMENT.isoformat(), "xid": 79}
    return {
        "before": before,
        "at": 0,
        "missed": 1,
        "threshold": 0.5,
        "curve": [
            {"budget": 0.5, "before": 0, "lead_minutes_median": None},
            {"budget": 1.0, "before": before, "lead_minutes_median": 20.0},
        ],
        "by_failure": [failure | {"outcome": "before", "lead_minutes": 20.0}],
    }


def predictions(level: float) -> pd.DataFrame:
    ends = pd.date_range(MOMENT - pd.Timedelta("2h"), MOMENT, freq="5min").as_unit("ns")
    return pd.DataFrame({"model": "blend", "node": "n1", "fold": 0, "end": ends, "score": level})


def test_the_same_data_draw_the_same_bytes() -> None:
    first = plots.trade_off({"blend": judged()}, 0.84)
    assert first.startswith(PNG)
    assert first == plots.trade_off({"blend": judged()}, 0.84)


def test_another_result_draws_another_picture() -> None:
    assert plots.trade_off({"blend": judged(1)}, 0.84) != plots.trade_off({"blend": judged(2)}, 0.84)


def test_every_failure_has_a_timeline() -> None:
    found = plots.figures({"blend": judged()}, "blend", predictions(0.3), 0.84, 60)
    assert set(found) == {"trade_off.png", "failures/f1.png"}
    assert found["failures/f1.png"].startswith(PNG)


def test_a_timeline_shows_the_scores() -> None:
    low, high = (plots.figures({"blend": judged()}, "blend", predictions(s), 0.84, 60) for s in (0.1, 0.9))
    assert low["failures/f1.png"] != high["failures/f1.png"]


def test_a_failure_s_name_can_not_leave_the_folder() -> None:
    found = plots.figures({"blend": judged(name="../../x $y_{")}, "blend", predictions(0.3), 0.84, 60)
    assert set(found) == {"trade_off.png", "failures/______x__y__.png"}


def test_a_node_never_scored_still_has_a_picture() -> None:
    found = plots.figures({"blend": judged()}, "blend", predictions(0.3).iloc[:0], 0.84, 60)
    assert found["failures/f1.png"].startswith(PNG)
