"""From a training's report and evidence to HTML; whatever came from a log or a file name is escaped."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2
import pandas as pd
from markupsafe import Markup

from models.lineup import BASELINES
from models.protocols import best_baseline
from pipelines import costs, made_up, report_charts, report_nodes

_MOST_FAILURES = 60


def render(
    report: Mapping[str, Any],
    evidence: Mapping[str, Any],
    tags: Mapping[str, str],
    sections: Sequence[str] = (),
) -> str:
    """The page.

    Parameters
    ----------
    report, evidence
        What `pipelines.train` logged as ``report.json`` and ``evidence.json``.
    tags
        Of the run: version, and whether its data are made up.
    sections
        HTML of other analyses, which escape for themselves.
    """
    best = report["models"][report["champion"]]
    order = _order(report)
    failures = [
        {**failure, "chart": report_charts.timeline(failure, evidence["horizon_minutes"])}
        for failure in evidence["failures"][:_MOST_FAILURES]
    ]
    return _template().render(
        title="What foreshock learned",
        report={"skipped": {}, "mcnemar": {}, "cost": None, **report},
        protocols=_protocols(report),
        evidence=evidence,
        best=best,
        total=best["before"] + best["at"] + best["missed"],
        order=order,
        baselines=BASELINES,
        failures=failures,
        more_failures=max(0, len(evidence["failures"]) - _MOST_FAILURES),
        before_curve=report_charts.trade_off(report["models"], order, BASELINES, "before"),
        lead_curve=report_charts.trade_off(report["models"], order, BASELINES, "lead_minutes_median"),
        verdict_words=verdict_words(report, best),
        nodes_words=nodes_words(evidence["nodes"]),
        limits=limits(report, evidence, best),
        sections=[Markup(one) for one in sections],  # noqa: S704  # see above
        made_up=tags.get(made_up.TAG, ""),
        version=tags.get("foreshock.version", ""),
        data_name=tags.get("data.name", ""),
    )


def _protocols(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The champion by the other protocols: its figures and the best baseline's, or why there are none."""
    out = []
    for found in report.get("protocols", {}).values():
        best = best_baseline(found["models"])
        rival = None if best is None else {"name": best, "before": found["models"][best]["before"]}
        out.append({**found, "champion": found["models"].get(report["champion"]), "rival": rival})
    return out


def _order(report: Mapping[str, Any]) -> list[str]:
    """The champion, the other models, the baselines; each by what it caught."""

    def key(name: str) -> tuple[bool, bool, int, int, str]:
        found = report["models"][name]
        return (name != report["champion"], name in BASELINES, -found["before"], -found["at"], name)

    return sorted(report["models"], key=key)


def verdict_words(report: Mapping[str, Any], best: Mapping[str, Any]) -> str:
    """What the verdict means for who reads it."""
    total = best["before"] + best["at"] + best["missed"]
    if report["verdict"] == "signal":
        low, high = best["before_interval"]
        return (
            f"{report['champion']} sees failures coming more often than chance. With {total} failures, the share that "
            f"it catches before lies between {100 * low:.0f} and {100 * high:.0f} % (95 %)."
        )
    return (
        f"From these {total} failures it can't be said that {report['champion']} sees failures coming. That is a "
        "result, not an error: there may be no warning in these data, or too few failures to tell."
    )


def nodes_words(nodes: Sequence[Mapping[str, Any]]) -> str:
    """How unevenly failures are spread."""
    spread = report_nodes.concentration(nodes)
    if not spread["share"]:
        return "No failure yet."
    again = spread["repeated"]
    said = f"{again} node{'' if again == 1 else 's'} failed more than once" if again else "no node failed twice"
    return (
        f"The worst {spread['most']} of {len(nodes)} nodes have {100 * spread['share']:.0f} % of all failures; {said}."
    )


def limits(report: Mapping[str, Any], evidence: Mapping[str, Any], best: Mapping[str, Any]) -> list[str]:
    """What must not be concluded."""
    total = best["before"] + best["at"] + best["missed"]
    low, high = (100 * bound for bound in best["before_interval"])
    counts = (
        f"An alarm counts as before from {evidence['horizon_minutes']:g} to {evidence['gap_minutes']:g} minutes ahead "
        f"of the first line; which XIDs are failures is decided by preset {evidence['preset']}."
    )
    carried = (
        "Thresholds were set on other folds and spend what they spend there; carried to another month a threshold "
        "may spend from a quarter to four times its budget."
    )
    here = (
        "The figures are of this cluster, in this span, with its faults of this kind; failures without any warning "
        "are listed as at or missed, and no model can catch them before."
    )
    out = [
        f"{total} failures are few: the share caught before is known only to lie in {low:.0f}-{high:.0f} %.",
        counts,
        carried,
        here,
        "Reasons tell which values moved a score, not what broke.",
    ]
    if best["false_alarms_per_day"] > 2 * report["budget_per_day"]:
        out.insert(0, "The champion spent more than double its budget of false alarms: its catches are bought.")
    if best.get("unjudged"):
        out.append(f"{best['unjudged']} failures lie outside the scored time and are not judged.")
    if len([name for name in report["models"] if name not in BASELINES]) > 1:
        out.append("The champion was chosen among several models by these figures; the verdict's p allows for that.")
    return out


def _time(text: str) -> str:
    return f"{pd.Timestamp(text).tz_convert('UTC'):%Y-%m-%d %H:%M}"


def _minutes(value: float | None) -> str:
    return "-" if value is None or not math.isfinite(value) else f"{value:.0f} min"


def _p(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}" if value >= 0.001 else "< 0.001"


@cache
def _template() -> jinja2.Template:
    env = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined)
    env.filters |= {
        "time": _time,
        "minutes": _minutes,
        "p": _p,
        "cost": costs.words,
        "one": lambda value: "-" if value is None else f"{value:.1f}",
        "two": lambda value: "-" if value is None else f"{value:.2f}",
        "number": lambda value: f"{value:g}",
        "percent": lambda value: f"{100 * value:.1f} %",
        "share_of": lambda value: f"{100 * value:.0f} %",
        "share": lambda pair: f"{100 * pair[0]:.0f}-{100 * pair[1]:.0f}\u00a0%",
        "range": lambda pair: f"{pair[0]:.2f}-{pair[1]:.2f}",
    }
    return env.from_string(resources.files("pipelines").joinpath("report.html.jinja").read_text(encoding="utf-8"))
