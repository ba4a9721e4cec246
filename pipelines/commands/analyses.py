"""``foreshock checkpoints`` and ``foreshock retries``: what a store tells beside failures to come."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
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
from pipelines.config import Config

ExperimentOption = Annotated[
    str | None, typer.Option(metavar="NAME", help="Log a run to this MLflow experiment; without it none.")
]
UriOption = Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")]
_NOTHING = "Nothing can be said of what happens after failures."


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    app.command()(checkpoints)
    app.command()(retries)


def checkpoints(
    store: StoreArgument,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine.")] = None,
    experiment: ExperimentOption = None,
    tracking_uri: UriOption = None,
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

        _tracked(track, result, settings, store, experiment, tracking_uri)
    typer.echo(console.to_json(result) if as_json else describe_checkpoints(result), nl=not as_json)


def retries(
    store: StoreArgument,
    preset: Annotated[str | None, typer.Option(help="Which XIDs are failures: hardware, paper or all.")] = None,
    experiment: ExperimentOption = None,
    tracking_uri: UriOption = None,
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
    with console.progress("reading the store"):
        result = run(Store.open(store), settings, preset)
    if experiment is not None:
        from pipelines.retries_report import track  # noqa: PLC0415  # MLflow and matplotlib take seconds to load

        _tracked(track, result, settings, store, experiment, tracking_uri)
    typer.echo(console.to_json(result) if as_json else describe_retries(result), nl=not as_json)


def _tracked(
    track: Callable[..., str], result: dict[str, Any], settings: Config, store: Path, experiment: str, uri: str | None
) -> None:
    """Log a run, and put its id into the result."""
    from pipelines.store import Store  # noqa: PLC0415  # as the commands themselves

    result["run_id"] = track(result, settings, Store.open(store), experiment, uri)


def describe_checkpoints(result: dict[str, Any]) -> str:
    """The result for a terminal."""
    from pipelines import checkpoint_words  # noqa: PLC0415  # as the command itself

    return _text(result, checkpoint_words.tables(result))


def describe_retries(result: dict[str, Any]) -> str:
    """The result for a terminal."""
    from pipelines import retries_words  # noqa: PLC0415  # as the command itself

    return _text(result, retries_words.tables(result, most=10), _NOTHING)


def _text(result: dict[str, Any], tables: Iterable[tuple[str, list[dict[str, object]]]], nothing: str = "") -> str:
    """Sentences, then the tables they stand on, then what can't be said."""
    parts = ["\n".join(result["sentences"]) or nothing]
    parts += [f"{title}\n{console.table(rows, rows[0])}" for title, rows in tables if rows]
    if result["cannot_say"]:
        parts.append("What can't be said:\n" + "\n".join(f"- {line}" for line in result["cannot_say"]))
    return "\n\n".join(parts)
