"""Saves and loads as a part of the HTML report, with figures inline, and as a run of its own in MLflow."""

from __future__ import annotations

import base64
import html
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from features.checkpoint_cells import KINDS
from features.checkpoint_verdicts import VERDICTS
from models.tracking import Tracker
from pipelines import console
from pipelines.config import Config
from pipelines.experiment import dataset
from pipelines.store import Store

Told = Mapping[str, Any]
_COLOURS = dict(zip(VERDICTS, ("#8d6a9f", "#d1495b", "#c98b2b", "#2e8b57", "#1b6ca8", "#999999"), strict=True))
_MOST_ROWS = 20
_GIGA = 1e9


def rows_of_scaling(result: Told, kind: str) -> list[dict[str, object]]:
    """The scaling table for a person."""
    return [
        {
            "nodes": f"{row['nodes_least']}-{row['nodes_most']}",
            "events": row["events"],
            "GB/s a node": row["node_bytes_per_second"] / _GIGA,
            "of the smallest": f"{row['of_smallest']:.0%}",
            "p": row["p"],
            "GB/s in all": row["bytes_per_second"] / _GIGA,
            "in the queue": _share(row["queue_share"]),
            "slots": _known(row["slots_in_use"]),
            "reply (ms)": _known(row["response_milliseconds"]),
        }
        for row in result["scaling"][kind]
    ]


def rows_of_weeks(result: Told, kind: str) -> list[dict[str, object]]:
    """The weeks for a person."""
    return [
        {
            "week": f"{row['week']:%Y-%m-%d}",
            "events": row["events"],
            "seconds": row["duration_seconds"],
            "GB/s a node": row["node_bytes_per_second"] / _GIGA,
            "in the queue": _share(row["queue_share"]),
            "slots": _known(row["slots_in_use"]),
            "stragglers": row["stragglers"],
        }
        for row in result["weeks"][kind]
    ]


def rows_of_events(events: Sequence[Told]) -> list[dict[str, object]]:
    """Events for a person."""
    return [
        {
            "event": event["event"],
            "seconds": event["duration_seconds"],
            "nodes": event["nodes"],
            "GB": event["bytes"] / _GIGA,
            "GB/s": event["bytes_per_second"] / _GIGA,
            "link": _share(event["link_share"]),
            "in the queue": _share(event["queue_share"]),
            "slots": _known(event["slots_in_use"]),
            "verdict": event["verdict"],
        }
        for event in events
    ]


def _known(value: float) -> float | None:
    return None if np.isnan(value) else value


def _share(value: float) -> str:
    return "-" if np.isnan(value) else f"{value:.1%}"


def figures(result: Told) -> dict[str, bytes]:
    """PNG files by name, the same bytes for the same data; none without events."""
    out = {}
    for kind in KINDS:
        events = [event for event in result["events"] if event["kind"] == kind]
        if events:
            out[f"{kind}s_by_nodes.png"] = _by_nodes(kind, events, result["knee"][kind])
            out[f"{kind}s_over_time.png"] = _over_time(kind, events)
    return out


def section(result: Told) -> str:
    """A fragment of HTML that stands alone: sentences, figures, tables, what can't be said."""
    pictures = "".join(
        f'<img alt="{html.escape(name[:-4].replace("_", " "))}" style="max-width:100%" '
        f'src="data:image/png;base64,{base64.b64encode(data).decode()}">\n'
        for name, data in figures(result).items()
    )
    tables = ""
    for kind in KINDS:
        own = [event for event in result["events"] if event["kind"] == kind]
        tables += _table(f"{kind.capitalize()}s by number of nodes", rows_of_scaling(result, kind))
        tables += _table(f"{kind.capitalize()}s by week", rows_of_weeks(result, kind))
        slowest = sorted(own, key=lambda event: -event["duration_seconds"])[:_MOST_ROWS]
        reasons = [{"evidence": "; ".join(event["evidence"])} for event in slowest]
        rows = [row | why for row, why in zip(rows_of_events(slowest), reasons, strict=True)]
        tables += _table(f"Longest {kind}s", rows)
    limits = f"<h3>What cannot be said</h3>\n{_list(result['cannot_say'])}" if result["cannot_say"] else ""
    return (
        '<section id="checkpoints">\n<h2>Checkpoints</h2>\n'
        f"{_list(result['sentences'])}{pictures}{tables}{limits}</section>\n"
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
    tags = {"analysis": "checkpoints"}
    with tracker.start(experiment, f"checkpoints {store.path.name}", tags=tags, datasets=data) as run:
        run.log(params=config.checkpoints.model_dump(mode="json"), metrics=dict(_metrics(result)))
        pictures = {f"figures/{name}": picture for name, picture in figures(result).items()}
        texts = {"checkpoints.json": console.to_json(result).encode(), "checkpoints.html": section(result).encode()}
        run.files(texts | pictures)
        if result["events"]:
            run.table(pd.DataFrame(rows_of_events(result["events"])).astype(str), "events.json")
    return run.run_id


def _metrics(result: Told) -> Iterator[tuple[str, float | None]]:
    """Numbers to compare runs by; a verdict's share has its bounds beside it."""
    for kinds, told in result["summary"].items():
        yield f"{kinds}/events", told["events"]
        yield f"{kinds}/gpu_hours", told["gpu_hours"]
        yield from ((f"{kinds}/{name}_median", spread["median"]) for name, spread in told["spread"].items())
        for verdict, share in told["verdicts"].items():
            yield f"{kinds}/{verdict}", share["share"]
            yield f"{kinds}/{verdict}_low", share["interval"][0]
            yield f"{kinds}/{verdict}_high", share["interval"][1]
    for kind in KINDS:
        yield f"{kind}s/knee_nodes", result["knee"][kind]["nodes"]
        yield f"{kind}s/trend_percent_a_week", result["trend"][kind]["percent_a_week"]


def _by_nodes(kind: str, events: Sequence[Told], knee: Told) -> bytes:
    """A node's throughput against the number of nodes, and the cluster's."""
    figure = Figure(figsize=(10, 3.6), layout="constrained")
    one, whole = figure.subplots(1, 2)
    for verdict, colour in _COLOURS.items():
        own = [event for event in events if event["verdict"] == verdict]
        nodes = [event["nodes"] for event in own]
        for axes, name in ((one, "node_bytes_per_second"), (whole, "storage_bytes_per_second")):
            rates = [event[name] / _GIGA for event in own]
            axes.scatter(nodes, rates, s=12, color=colour, label=verdict if own else None, alpha=0.6)
    most = max(event["nodes"] for event in events)
    for axes, words in ((one, "GB/s a node"), (whole, "GB/s of the storage, busiest scrape")):
        axes.set_xlabel("nodes")
        axes.set_ylabel(words)
        axes.set_xlim(0, 1.05 * most)
        axes.set_ylim(0, 1.05 * axes.dataLim.y1)
        axes.grid(visible=True, alpha=0.25)
        if knee["nodes"] is not None:
            axes.axvline(knee["nodes"], color="black", linestyle="--", linewidth=1)
    one.set_title(f"{len(events)} {kind}s", fontsize=10)
    one.legend(fontsize=7)
    return _png(figure)


def _over_time(kind: str, events: Sequence[Told]) -> bytes:
    """Length and the queue's share of each event over time."""
    figure = Figure(figsize=(10, 3), layout="constrained")
    length, queue = figure.subplots(1, 2)
    days = [(event["start"] - events[0]["start"]).total_seconds() / 86_400 for event in events]
    colours = [_COLOURS[event["verdict"]] for event in events]
    length.scatter(days, [event["duration_seconds"] for event in events], s=10, c=colours)
    queue.scatter(days, [event["queue_share"] for event in events], s=10, c=colours)
    queue.set_ylim(0, 1)
    for axes, words in ((length, f"length of a {kind} [s]"), (queue, "share of an operation's time in the queue")):
        axes.set_xlabel(f"days since {events[0]['start']:%Y-%m-%d}")
        axes.set_ylabel(words, fontsize=8)
        axes.grid(visible=True, alpha=0.25)
    return _png(figure)


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=100, metadata={"Software": None})
    return out.getvalue()


def _table(title: str, rows: Sequence[Mapping[str, object]]) -> str:
    if not rows:
        return ""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(_cell(cell))}</td>" for cell in row.values()) + "</tr>\n" for row in rows
    )
    return f"<h3>{html.escape(title)}</h3>\n<table><tr>{head}</tr>\n{body}</table>\n"


def _cell(value: object) -> str:
    return "-" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _list(lines: Sequence[str]) -> str:
    return "<ul>\n" + "".join(f"<li>{html.escape(line)}</li>\n" for line in lines) + "</ul>\n"
