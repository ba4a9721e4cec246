"""``foreshock retries``: what a store tells beside failures to come."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from features.tables import UsageError
from pipelines import console
from pipelines.commands.history import PRESETS
from pipelines.commands.options import (
    ConfigOption,
    JsonOption,
    LogFormatOption,
    QuietOption,
    StoreArgument,
    start,
)


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    app.command()(retries)


def retries(
    store: StoreArgument,
    preset: Annotated[str | None, typer.Option(help="Which XIDs are failures: hardware, paper or all.")] = None,
    experiment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Log a run to this MLflow experiment; without it none.")
    ] = None,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Tell what happens after failures: chains of retries, nodes left out, what it cost, what would have helped."""
    from pipelines.retries import retries as run  # noqa: PLC0415  # other commands need not load it
    from pipelines.store import Store  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"--preset: {preset!r} is none of {', '.join(PRESETS)}")
    opened = Store.open(store)
    with console.progress("reading the store"):
        result = run(opened, settings, preset)
    if experiment is not None:
        from pipelines.retries_report import track  # noqa: PLC0415  # MLflow and matplotlib take seconds to load

        result["run_id"] = track(result, settings, opened, experiment, tracking_uri)
    typer.echo(console.to_json(result) if as_json else describe_retries(result), nl=not as_json)


def describe_retries(result: dict[str, Any]) -> str:
    """Sentences, then the tables they stand on, then what can't be said."""
    parts = ["\n".join(result["sentences"]) or "Nothing can be said of what happens after failures."]
    parts += [f"{title}\n{console.table(rows, rows[0])}" for title, rows in tables(result) if rows]
    if result["cannot_say"]:
        parts.append("What can't be said:\n" + "\n".join(f"- {line}" for line in result["cannot_say"]))
    return "\n\n".join(parts)


def tables(result: dict[str, Any], most: int = 10) -> list[tuple[str, list[dict[str, object]]]]:
    """The result's tables with their titles, at most so many rows each."""
    from pipelines.retries_words import SOURCES, share  # noqa: PLC0415  # as the command itself

    places: list[dict[str, object]] = [
        {"try": f"{row['place']}{' or later' if row['or_later'] else ''}", "succeeded": share(row)}
        for row in result["attempts"]["by_place"]
    ]
    out: list[tuple[str, list[dict[str, object]]]] = [("Success by try", places)]
    for source, told in result["troubles"].items():
        name = SOURCES[source][1]
        nodes = [{"node": row["node"], "share": share(row)} for row in told["concentration"]["by_node"][:most]]
        rules = [
            {
                "out at": row["exclude_after"],
                "spare nodes": row["spare_nodes"],
                "avoided": share(row["avoided"]),
                "by chance": row["avoided_by_chance"],
                "p": row["p"],
                "node-hours saved": row["node_hours_saved"],
                "node-hours out": row["node_hours_out"],
                "no spare left": row["refused"],
            }
            for row in told["policies"]
        ]
        out += [(f"Nodes by {name}", nodes), (f"Rules for taking nodes out, by {name}", rules)]
    return out
