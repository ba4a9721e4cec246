"""The page holds what the training found, and nothing that a log line could do to it."""

import re

import pytest

from pipelines import made_up, report_page
from tests.pipelines.reported import evidence, report


def test_the_page_asks_for_nothing_from_a_network() -> None:
    page = report_page.render(report(), evidence(), {})
    assert not re.search(r"(?:src|href|action|url)\s*[=(]|<script|@import|http://|https://", page, re.IGNORECASE)


@pytest.mark.parametrize(
    "words",
    [
        "1 of 1",
        "XID 79",
        "RESTART_BM",
        "up (maximum) is 1",
        "a line",
        "GPU-1",
        "1 no node",
        "Limits of what",
        "Leave one node out",
        "Not judged: all failures are of XID 79",
        "95 s (90 s of processor)",
    ],
)
def test_the_page_tells(words: str) -> None:
    assert words in report_page.render(report(), evidence(), {})


def test_a_log_line_can_not_write_html() -> None:
    page = report_page.render(report(), evidence("<script>alert(1)</script>", "n<img src=x>"), {})
    assert "<script>" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


def test_a_section_of_another_analysis_stands_in_the_page() -> None:
    assert '<section id="x"><h2>X</h2>' in report_page.render(report(), evidence(), {}, ['<section id="x"><h2>X</h2>'])


def test_made_up_data_are_called_that_only_when_the_run_says_so() -> None:
    assert "MADE-UP" not in report_page.render(report(), evidence(), {})
    assert "MADE-UP" in report_page.render(report(), evidence(), {made_up.TAG: "a simulated cluster"})


def test_no_signal_is_said_to_be_a_result() -> None:
    page = report_page.render(report(verdict="no signal"), evidence(), {})
    assert "Verdict: no signal" in page
    assert "a result, not an error" in page


def test_a_champion_that_overspent_is_told_first_among_the_limits() -> None:
    found = report()
    found["models"]["blend"]["false_alarms_per_day"] = 6.0
    assert "double its budget" in report_page.limits(found, evidence(), found["models"]["blend"])[0]


def test_a_failure_whose_node_was_not_scored_has_no_drawing() -> None:
    told = evidence()
    told["failures"][0]["points"] = []
    assert "was not scored around it" in report_page.render(report(), told, {})
