"""Retries drawn, as a chapter of the HTML report, and as a run of their own in MLflow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from pipelines import analysis, retries_words
from pipelines.config import Config
from pipelines.retries_words import SOURCES
from pipelines.store import Store

Told = Mapping[str, Any]
_BLUE, _RED, _GREY = "#1b6ca8", "#d1495b", "#999999"
_MOST_BARS = 15


def figures(result: Told) -> dict[str, bytes]:
    """PNG files by name; none for what the store can't tell."""
    out = {}
    if any(row["of"] for row in result["attempts"]["by_place"]):
        out["success_by_try.png"] = _drawn(_success, result["attempts"]["by_place"])
    for source, told in result["troubles"].items():
        if told["concentration"]["events"]:
            out[f"{source}_by_node.png"] = _drawn(_by_node, told["concentration"], SOURCES[source][1])
        if told["survival"]["curve"]:
            out[f"{source}_survival.png"] = _drawn(_survival, told["survival"], SOURCES[source][1])
    return out


def section(result: Told) -> str:
    """The chapter's HTML."""
    return analysis.section(_shown(result))


def _shown(result: Told) -> analysis.Shown:
    return analysis.Shown(
        "retries", "Retries and recovery", result, list(retries_words.tables(result)), figures(result)
    )


def track(result: Told, config: Config, store: Store, experiment: str, uri: str | None = None) -> str:
    """Log the result as a run of this experiment and give its id; errors as of `pipelines.analysis.track`."""
    tags = {"source": result["source"], "preset": result["preset"]}
    listed = ("chains", result["chains"]["list"])
    shown = _shown(result)
    return analysis.track(shown, config, store, experiment, metrics=_metrics(result), listed=listed, tags=tags, uri=uri)


def _metrics(result: Told) -> dict[str, float | None]:
    """Numbers to compare runs by; a share has its bounds beside it."""
    listed, tried = result["chains"], result["attempts"]
    out: dict[str, float | None] = {
        "tries": result["sessions"]["sessions"],
        "chains": listed["chains"],
        "chains_tries": listed["attempts"],
        "interval_minutes_median": result["intervals"]["all"]["median"],
        "recovery_minutes_median": result["recovery"]["median"],
        "automatic_against_manual_p": tried["comparison"]["fisher_p"],
    }
    shares = {"chains_succeeded": listed["succeeded"], "automatic_succeeded": tried["automatic"]}
    shares["manual_succeeded"] = tried["manual"]
    for source, told in result["troubles"].items():
        out[f"{source}/events"] = told["concentration"]["events"]
        out[f"{source}/gini"] = told["concentration"]["gini"]
        shares |= {f"{source}/top_{row['k']}": row for row in told["concentration"]["top"]}
        shares[f"{source}/recurrence"] = told["recurrence"]
    for name, told in shares.items():
        out |= {name: told["share"], f"{name}_low": told["interval"][0], f"{name}_high": told["interval"][1]}
    return out


def _drawn(draw: Callable[..., None], *told: Any) -> bytes:
    """A figure by one of the functions below, as PNG."""
    figure = Figure(figsize=(4.4, 3.1), layout="constrained")
    axes = figure.subplots()
    draw(axes, *told)
    axes.grid(visible=True, alpha=0.25)
    return analysis.png(figure)


def _success(axes: Any, rows: Sequence[Told]) -> None:
    known = [row for row in rows if row["of"]]
    shares = [row["share"] for row in known]
    low = [row["share"] - row["interval"][0] for row in known]
    high = [row["interval"][1] - row["share"] for row in known]
    places = [row["place"] for row in known]
    axes.errorbar(places, shares, yerr=[low, high], fmt="o", color=_BLUE, capsize=3)
    for row in known:
        axes.annotate(f" {row['count']}/{row['of']}", (row["place"], row["share"]), fontsize=7)
    axes.set_xlabel("try of a chain (the last point: this one and later)")
    axes.set_ylabel("share that succeeded")
    axes.set_ylim(-0.02, 1.02)
    axes.set_title("Success by try, exact 95 % intervals", fontsize=9)


def _by_node(axes: Any, told: Told, name: str) -> None:
    rows = told["by_node"][:_MOST_BARS]
    # a dollar sign would begin a formula
    axes.bar([row["node"][:24].replace("$", r"\$") for row in rows], [row["count"] for row in rows], color=_BLUE)
    axes.axhline(told["events"] / told["nodes"], color=_GREY, linestyle="--", linewidth=1)
    axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    axes.set_ylabel(name)
    axes.set_title(
        f"{told['events']} {name} on {told['nodes_touched']} of {told['nodes']} nodes\n(dashed: the mean)", fontsize=9
    )


def _survival(axes: Any, told: Told, name: str) -> None:
    curve = told["curve"]
    days = [0.0, *(row["days"] for row in curve)]
    axes.step(days, [1.0, *(row["share"] for row in curve)], where="post", color=_RED)
    bounded = [row for row in curve if row["low"] is not None]
    if bounded:
        at = [row["days"] for row in bounded]
        axes.fill_between(
            at, [row["low"] for row in bounded], [row["high"] for row in bounded], step="post", color=_RED, alpha=0.15
        )
    axes.set_xlabel("days since the return to work")
    axes.set_ylabel("share without another")
    axes.set_ylim(0, 1.02)
    axes.set_title(f"Back at work, without more {name}\n(Kaplan-Meier, {told['n']} returns)", fontsize=9)
