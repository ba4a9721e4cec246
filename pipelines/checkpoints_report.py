"""Saves and loads drawn, as a chapter of the HTML report, and as a run of their own in MLflow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from features.checkpoint_cells import KINDS
from features.checkpoint_verdicts import VERDICTS
from pipelines import analysis, checkpoint_words
from pipelines.config import Config
from pipelines.store import Store

Told = Mapping[str, Any]
_COLOURS = dict(zip(VERDICTS, ("#8d6a9f", "#d1495b", "#c98b2b", "#2e8b57", "#1b6ca8", "#999999"), strict=True))
_GIGA = 1e9


def figures(result: Told) -> dict[str, bytes]:
    """PNG files by name, the same bytes for the same data; none without events."""
    out = {}
    for kind in KINDS:
        events = [event for event in result["events"] if event["kind"] == kind]
        if not events:
            continue
        knee = result["knee"][kind]["nodes"]
        for name, draw in (("by_nodes", _by_nodes), ("storage", _storage), ("length", _length), ("queue", _queue)):
            figure = Figure(figsize=(4.4, 3.1), layout="constrained")
            axes = figure.subplots()
            draw(axes, events, knee)
            axes.grid(visible=True, alpha=0.25)
            axes.set_title(f"{len(events)} {kind}s", fontsize=10)
            out[f"{kind}s_{name}.png"] = analysis.png(figure)
    return out


def section(result: Told) -> str:
    """The chapter's HTML."""
    return analysis.section(_shown(result))


def _shown(result: Told) -> analysis.Shown:
    tables = [
        table
        for kind in KINDS
        for table in (*checkpoint_words.tables_of(result, kind), checkpoint_words.longest(result, kind))
    ]
    return analysis.Shown("checkpoints", "Checkpoints", result, tables, figures(result))


def track(result: Told, config: Config, store: Store, experiment: str, uri: str | None = None) -> str:
    """Log the result as a run of this experiment and give its id; errors as of `pipelines.analysis.track`."""
    events = ("events", checkpoint_words.rows_of_events(result["events"]))
    metrics = dict(_metrics(result))
    return analysis.track(_shown(result), config, store, experiment, metrics=metrics, listed=events, uri=uri)


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


def _by_nodes(axes: Any, events: Sequence[Told], knee: float | None) -> None:
    """A node's throughput against the number of nodes."""
    _against_nodes(axes, events, knee, "node_bytes_per_second", "GB/s a node")
    axes.legend(fontsize=7)


def _storage(axes: Any, events: Sequence[Told], knee: float | None) -> None:
    """The whole storage's throughput against the number of nodes."""
    _against_nodes(axes, events, knee, "storage_bytes_per_second", "GB/s of the storage, busiest scrape")


def _against_nodes(axes: Any, events: Sequence[Told], knee: float | None, name: str, words: str) -> None:
    for verdict, colour in _COLOURS.items():
        own = [event for event in events if event["verdict"] == verdict]
        if own:
            rates = [event[name] / _GIGA for event in own]
            axes.scatter([event["nodes"] for event in own], rates, s=12, color=colour, label=verdict, alpha=0.6)
    axes.set_xlabel("nodes" + ("" if knee is None else " (dashed: the knee)"))
    axes.set_ylabel(words)
    axes.set_xlim(0, 1.05 * max(event["nodes"] for event in events))
    axes.set_ylim(0, 1.05 * axes.dataLim.y1)
    if knee is not None:
        axes.axvline(knee, color="black", linestyle="--", linewidth=1)


def _length(axes: Any, events: Sequence[Told], _: float | None) -> None:
    """How long each event took."""
    _over_time(axes, events, "duration_seconds", "seconds it lasted")
    axes.set_ylim(bottom=0)


def _queue(axes: Any, events: Sequence[Told], _: float | None) -> None:
    """The queue's share of each event."""
    _over_time(axes, events, "queue_share", "share of an operation's time in the queue")
    axes.set_ylim(0, 1)


def _over_time(axes: Any, events: Sequence[Told], name: str, words: str) -> None:
    days = [(event["start"] - events[0]["start"]).total_seconds() / 86_400 for event in events]
    axes.scatter(days, [event[name] for event in events], s=10, c=[_COLOURS[event["verdict"]] for event in events])
    axes.set_xlabel(f"days since {events[0]['start']:%Y-%m-%d}")
    axes.set_ylabel(words, fontsize=9)
