"""Retries as a part of the HTML report, with figures inline, and as a run of its own in MLflow."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from models.tracking import Tracker
from pipelines import console
from pipelines.config import Config
from pipelines.experiment import dataset
from pipelines.retries_words import SOURCES, share
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
    """A fragment of HTML that stands alone: sentences, figures, tables, what can't be said."""
    pictures = "".join(
        f'<img alt="{html.escape(name[:-4].replace("_", " "))}" style="max-width:100%" '
        f'src="data:image/png;base64,{base64.b64encode(data).decode()}">\n'
        for name, data in figures(result).items()
    )
    places = [
        (f"{row['place']}{' or later' if row['or_later'] else ''}", share(row))
        for row in result["attempts"]["by_place"]
    ]
    tables = _table("Success by try", ("try", "succeeded"), places)
    for source, told in result["troubles"].items():
        nodes = [(row["node"], share(row)) for row in told["concentration"]["by_node"][:_MOST_BARS]]
        tables += _table(f"Nodes by {SOURCES[source][1]}", ("node", "share"), nodes)
        rules = [
            (
                row["exclude_after"],
                row["spare_nodes"],
                share(row["avoided"]),
                f"{row['avoided_by_chance']:.1f}",
                "-" if row["p"] is None else f"{row['p']:.2g}",
                f"{row['node_hours_saved']:.0f}",
                f"{row['node_hours_out']:.0f}",
            )
            for row in told["policies"]
        ]
        heads = ("out at", "spare nodes", "avoided", "by chance", "p", "node-hours saved", "node-hours out")
        tables += _table(f"Rules for taking nodes out, by {SOURCES[source][1]}", heads, rules)
    return (
        '<section id="retries">\n<h2>Retries and recovery</h2>\n'
        f"{_list(result['sentences'])}{pictures}{tables}"
        f"{'<h3>What cannot be said</h3>' + _list(result['cannot_say']) if result['cannot_say'] else ''}</section>\n"
    )


def track(result: Told, config: Config, store: Store, experiment: str, uri: str | None = None) -> str:
    """Log the result as a run of this experiment and give its id.

    Raises
    ------
    UpstreamError
        MLflow can't be reached or refuses.
    UsageError
        Its address is of a kind that it no longer writes to.
    """
    tracker = Tracker(uri or config.tracking.uri, config.tracking.artifacts)
    data = [dataset(store)]
    tags = {"analysis": "retries", "source": result["source"], "preset": result["preset"]}
    with tracker.start(experiment, f"retries {store.path.name}", tags=tags, datasets=data) as run:
        run.log(params=config.retries.model_dump(mode="json"), metrics=dict(_metrics(result)))
        run.files(
            {
                "retries.json": console.to_json(result).encode(),
                "retries.html": section(result).encode(),
                **{f"figures/{name}": picture for name, picture in figures(result).items()},
            }
        )
        if result["chains"]["list"]:
            frame = pd.DataFrame(result["chains"]["list"])
            run.table(frame.astype(object).where(frame.notna(), None).astype(str), "chains.json")
    return run.run_id


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
    """A figure by one of the functions below, as PNG; the same bytes for the same data."""
    figure = Figure(figsize=(7, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes, *told)
    axes.grid(visible=True, alpha=0.25)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


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
    axes.set_title("Success by try, exact 95 % intervals", fontsize=10)


def _by_node(axes: Any, told: Told, name: str) -> None:
    rows = told["by_node"][:_MOST_BARS]
    # a dollar sign would begin a formula
    axes.bar([row["node"][:24].replace("$", r"\$") for row in rows], [row["count"] for row in rows], color=_BLUE)
    axes.axhline(told["events"] / told["nodes"], color=_GREY, linestyle="--", linewidth=1)
    axes.tick_params(axis="x", labelrotation=60, labelsize=7)
    axes.set_ylabel(name)
    axes.set_title(
        f"{told['events']} {name} on {told['nodes_touched']} of {told['nodes']} nodes; dashed: the mean", fontsize=10
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
    axes.set_title(f"Nodes back at work, until more {name} (Kaplan-Meier, {told['n']} returns)", fontsize=10)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<h3>{html.escape(title)}</h3>\n<table><tr>{head}</tr>\n{body}</table>\n"


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(line)}</li>\n" for line in lines) + "</ul>\n"
