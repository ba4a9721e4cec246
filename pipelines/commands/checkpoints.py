"""``foreshock checkpoints``: why saves and loads take as long as they do."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from pipelines import console
from pipelines.commands.options import (
    ConfigOption,
    JsonOption,
    LogFormatOption,
    QuietOption,
    StoreArgument,
    start,
)

_MOST_EVENTS = 20


def add_to(app: typer.Typer) -> None:
    """Give the application this command."""
    app.command()(checkpoints)


def checkpoints(
    store: StoreArgument,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine.")] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Log a run to this MLflow experiment; without it none.")
    ] = None,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Find every save and load, say what bound it, and how that changes with nodes and weeks."""
    from pipelines.checkpoints import checkpoints as run  # noqa: PLC0415  # other commands need not load it

    settings = start(config, log_format, quiet)
    with console.progress("days of nodes") as progress:
        result = run(store, settings, workers=workers, progress=progress)
    if experiment is not None:
        from pipelines.checkpoints_report import track  # noqa: PLC0415  # MLflow and matplotlib take seconds to load
        from pipelines.store import Store  # noqa: PLC0415  # as above

        result["run_id"] = track(result, settings, Store.open(store), experiment, tracking_uri)
    typer.echo(console.to_json(result) if as_json else describe_checkpoints(result), nl=not as_json)


def describe_checkpoints(result: dict[str, Any]) -> str:
    """Sentences, then the tables they stand on, then what can't be said."""
    from pipelines import checkpoints_report as report  # noqa: PLC0415  # as the command itself

    parts = ["\n".join(result["sentences"])]
    events = result["events"]
    last = events[-_MOST_EVENTS:]
    shown = [(f"The last {len(last)} of {len(events)} events; --json has all", report.rows_of_events(last))]
    for kind in ("save", "load"):
        shown.append((f"{kind.capitalize()}s by number of nodes", report.rows_of_scaling(result, kind)))
        shown.append((f"{kind.capitalize()}s by week", report.rows_of_weeks(result, kind)))
    parts += [f"{title}\n{console.table(rows, rows[0])}" for title, rows in shown if rows]
    if result["cannot_say"]:
        parts.append("What can't be said:\n" + "\n".join(f"- {line}" for line in result["cannot_say"]))
    return "\n\n".join(parts)
