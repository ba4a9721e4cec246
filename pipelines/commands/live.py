"""``foreshock score | backtest | ack | demo``: say which node is about to fail."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from features.tables import UsageError
from pipelines import console
from pipelines.commands.options import (
    ConfigOption,
    JsonOption,
    LogFormatOption,
    ManyValues,
    QuietOption,
    pairs,
    secrets,
    start,
)

CHAMPION = "models:/foreshock@champion"

ModelOption = Annotated[str, typer.Option(metavar="URI", help="Registered model to score with.")]
BundleOption = Annotated[Path | None, typer.Option(metavar="DIR", help="A bundle's folder, instead of --model.")]
OutOption = Annotated[Path | None, typer.Option(metavar="DIR", help="Where scores and the job's state are kept.")]
TrackingOption = Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")]


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    for command in (score, backtest, ack, demo):
        app.command(cls=ManyValues)(command)


def score(
    store: Annotated[Path | None, typer.Argument(metavar="[STORE]", help="The Parquet store's folder.")] = None,
    prometheus: Annotated[str | None, typer.Option(metavar="URL", help="Score live from a Prometheus API.")] = None,
    logs: Annotated[list[Path] | None, typer.Option(help="With --prometheus: log file, folder or journal.")] = None,
    loki: Annotated[
        str | None, typer.Option(metavar="URL", help="With --prometheus: log lines from a Loki API.")
    ] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="HTTP header, as a tenant's; K=@FILE reads a secret from a file."),
    ] = None,
    out: OutOption = None,
    at: Annotated[
        str | None, typer.Option(metavar="TIME", help="The window's end; by default the newest whole one.")
    ] = None,
    model: ModelOption = CHAMPION,
    bundle: BundleOption = None,
    textfile: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Metrics for node_exporter's textfile collector.")
    ] = None,
    pushgateway: Annotated[str | None, typer.Option(metavar="URL", help="Push the metrics there.")] = None,
    alertmanager: Annotated[str | None, typer.Option(metavar="URL", help="Where alerts go, with --send.")] = None,
    send: Annotated[bool, typer.Option("--send", help="Page; without it nothing is sent to Alertmanager.")] = False,
    tracking_uri: TrackingOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Score one window of every node: the batch job."""
    from pipelines.score import Outlets, Source  # noqa: PLC0415  # other commands need not load it
    from pipelines.score import score as run  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    if (store is None) == (prometheus is None):
        raise UsageError("score takes a STORE or --prometheus URL, and only one of them")
    if store is not None and (logs or loki):
        raise UsageError("--logs and --loki go with --prometheus; a store has its own log lines")
    headers = secrets(pairs(header, "--header"), "--header")
    report = run(
        Source(store=store, prometheus=prometheus, logs=tuple(logs or ()), loki=loki, headers=headers),
        settings,
        out=out or settings.scoring.out,
        at=console.parse_time(at, "--at"),
        model=model,
        bundle_dir=bundle,
        tracking_uri=tracking_uri or settings.tracking.uri,
        outlets=Outlets(textfile=textfile, pushgateway=pushgateway, alertmanager=alertmanager, send=send),
    )
    typer.echo(console.to_json(report) if as_json else describe_scores(report), nl=not as_json)


def describe_scores(report: dict[str, object]) -> str:
    """The window's scores for a person, the worst first, with the reasons of each alarm."""
    scores = report["scores"]
    assert isinstance(scores, list)  # noqa: S101  # the report's own form; narrows the type
    worst = sorted(scores, key=lambda item: -(item["score"] or 0))
    lines = [f"Window ending {report['window_end']}, model {report['model']}: {len(worst)} nodes; over 1 is an alarm."]
    lines.append(console.table(worst, ("node", "score", "probability", "alarm", "status", "suspect_gpu")))
    for item in worst:
        if item["alarm"]:
            lines += [f"{item['node']}: {reason['text']}" for reason in item["reasons"]]
    notices = report["notices"]
    assert isinstance(notices, list)  # noqa: S101  # as above
    lines += notices
    return "\n".join(lines)


def backtest(
    store: Annotated[Path, typer.Argument(metavar="STORE", help="The Parquet store's folder.")],
    model: ModelOption = CHAMPION,
    bundle: BundleOption = None,
    begin: Annotated[str | None, typer.Option("--start", metavar="TIME", help="First moment.")] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="End, excluded.")] = None,
    tracking_uri: TrackingOption = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Run the batch job over history and list what it would have paged."""
    from pipelines.backtest import backtest as run  # noqa: PLC0415  # other commands need not load it

    settings = start(config, log_format, quiet)
    report = run(
        store,
        settings,
        model=model,
        bundle_dir=bundle,
        start=console.parse_time(begin, "--start"),
        end=console.parse_time(end, "--end"),
        tracking_uri=tracking_uri or settings.tracking.uri,
    )
    if as_json:
        typer.echo(console.to_json(report), nl=False)
        return
    typer.echo(console.table(report["alerts"], ("alert", "node", "gpu", "start", "last", "score")))
    typer.echo(f"{len(report['alerts'])} alerts in {report['windows']} windows, {report['days']:.1f} days.")


def ack(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node being looked after.")],
    out: OutOption = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="No page before this; by default a day from now.")
    ] = None,
    why: Annotated[str, typer.Option(metavar="TEXT", help="For those who come after.")] = "",
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Silence a node's pages while it is being looked after; its scores go on."""
    import pandas as pd  # noqa: PLC0415  # other commands need not load it

    from pipelines.readers.context import LogContext  # noqa: PLC0415  # as above
    from pipelines.state import acknowledge  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    moment = console.parse_time(until, "--until")
    if moment is not None and moment <= pd.Timestamp.now("UTC"):
        raise UsageError(f"--until {moment.isoformat()} is over; give a time to come")
    named = LogContext(strip_domain=settings.ingest.strip_domain, aliases=settings.ingest.aliases)
    node = named.canonical(node)
    silenced = acknowledge(out or settings.scoring.out, node, moment, why)
    typer.echo(f"{node} pages no one until {silenced.isoformat()}")


def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="Everything the demo makes lands here.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Same seed, same cluster.")] = 0,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Simulate, ingest, train and score on a small made-up cluster."""
    from pipelines.demo import demo as run  # noqa: PLC0415  # other commands need not load it

    typer.echo(run(out, start(config, log_format, quiet), seed=seed))
