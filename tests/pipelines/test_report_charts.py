"""Drawings keep their scale."""

from pipelines import report_charts
from pipelines.report_charts import Frame
from tests.pipelines.reported import evidence, report


def test_a_point_lies_where_the_scale_puts_it() -> None:
    frame = Frame((0, 10), (0, 1), 160, 100)
    assert (frame.px(0), frame.px(10)) == (frame.left, frame.right)
    assert (frame.py(0), frame.py(1)) == (frame.bottom, frame.top)


def test_budgets_are_apart_by_their_ratio() -> None:
    frame = Frame((1, 100), (0, 1), 160, 100, log=True)
    assert frame.px(10) == (frame.left + frame.right) / 2


def test_labels_that_would_touch_are_left_out() -> None:
    frame = Frame((0, 100), (0, 1), 160, 100)
    assert [text for _, text in frame.ticks((0, 50, 51), ())["x_ticks"]] == ["0", "50", ""]


def test_the_champion_is_drawn_last_and_strongest() -> None:
    drawn = report_charts.trade_off(report()["models"], ["blend", "random"], ["random"], "before")
    assert drawn is not None
    assert [(line["name"], line["strong"]) for line in drawn["lines"]] == [("random", False), ("blend", True)]


def test_a_score_over_the_threshold_is_marked() -> None:
    drawn = report_charts.timeline(evidence()["failures"][0], 60)
    assert drawn is not None
    assert (len(drawn["over"]), len(drawn["under"])) == (1, 2)


def test_a_hole_in_the_data_is_no_line() -> None:
    failure = evidence()["failures"][0] | {"points": [[-60, 0.1], [-55, 0.1], [-10, 0.1], [-5, 0.1]]}
    drawn = report_charts.timeline(failure, 60)
    assert drawn is not None
    assert len(drawn["runs"]) == 2


def test_marks_are_round() -> None:
    assert report_charts.nice(3) == [0, 1, 2, 3]
    assert report_charts.nice(10) == [0, 2, 4, 6, 8, 10]
    assert report_charts.nice(47) == [0, 10, 20, 30, 40]
