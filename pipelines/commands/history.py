"""``foreshock simulate | ingest | events | failures | features``: from exports to a table of windows."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import asdict, replace
from datetime import timedelta
from math import ceil
from pathlib import Path
from typing import Annotated, Any

import typer

from features.settings import format_duration
from features.tables import UsageError
from pipelines import console
from pipelines.commands.options import (
    ConfigOption,
    JsonOption,
    LogFormatOption,
    ManyValues,
    QuietOption,
    StoreArgument,
    duration,
    pairs,
    start,
    with_windows,
)

log = logging.getLogger(__name__)
_FEW_SAMPLES = 4  # in a window: of fewer neither a spread nor a slope says anything

PRESETS = ("hardware", "paper", "all")
_INPUT_KEYS = ("path", "format", "read", "ok", "rejected", "noted")
EVENT_KEYS = ("time", "node", "pci", "gpu", "xid", "origin", "detail", "severity", "mig", "link", "count", "kind")
FAILURE_KEYS = (
    "failure",
    "time",
    "end",
    "node",
    "nodes",
    "gpu",
    "pci",
    "xid",
    "xids",
    "kind",
    "count",
    "origin",
    "recovery_action",
    "repaired",
    "repair_minutes",
    "left_censored",
    "right_censored",
)


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    for command in (simulate, ingest, events, failures, features):
        app.command(cls=ManyValues)(command)


def simulate(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder for the exports; made if absent.")],
    nodes: Annotated[int, typer.Option(help="Nodes of the cluster.")] = 16,
    gpus: Annotated[int, typer.Option(help="GPUs of a node.")] = 8,
    days: Annotated[float, typer.Option(help="Length of the history.")] = 14.0,
    failures: Annotated[int, typer.Option(help="XID failures in it.")] = 10,
    metrics: Annotated[int, typer.Option(help="Metric names, 751 at full width.")] = 751,
    step: Annotated[str, typer.Option(help="Between two scrapes.")] = "30s",
    seed: Annotated[int, typer.Option(help="Same seed, same cluster.")] = 0,
    begin: Annotated[str | None, typer.Option("--start", metavar="TIME", help="First moment.")] = None,
    habits: Annotated[
        str, typer.Option(help="How it lives: usual, or study for the rates of arXiv 2605.09370.")
    ] = "usual",
    rpc_slots: Annotated[int | None, typer.Option(help="Of a node's NFS connection; 0 lifts the limit.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Make up a cluster and export it in the formats real ones use."""
    from pipelines.simulate import STUDY, Habits  # noqa: PLC0415  # other commands need not load it
    from pipelines.simulate import simulate as run  # noqa: PLC0415  # as above

    start(config, log_format, quiet)
    known = {"usual": Habits(), "study": STUDY}
    if habits not in known:
        raise UsageError(f"--habits: {habits!r} is none of {', '.join(known)}")
    if rpc_slots is not None and rpc_slots < 0:
        raise UsageError(f"--rpc-slots {rpc_slots}: give 0 for no limit, or more")
    lives = known[habits] if rpc_slots is None else replace(known[habits], rpc_slots=rpc_slots)
    span = duration(step, "--step")
    first = console.parse_time(begin, "--start")
    with console.progress("node-days") as progress:
        summary = run(
            out,
            nodes=nodes,
            gpus=gpus,
            days=days,
            failures=failures,
            metrics=metrics,
            step=span,
            seed=seed,
            start=first,
            habits=lives,
            progress=progress,
        )
    if summary["failures"] < failures:
        log.warning(
            "%d of %d failures fit into %d nodes and %g days; give more --nodes or --days",
            *(summary["failures"], failures, nodes, days),
        )
    typer.echo(
        console.to_json(summary)
        if as_json
        else f"A made-up cluster is in {out}; no figure from it holds for a real one."
    )


def ingest(
    store: StoreArgument,
    metrics: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Exported metrics: a file, or a folder with all in it. May be repeated."),
    ] = None,
    logs: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Logs: a file, or a folder with all in it. May be repeated."),
    ] = None,
    sessions: Annotated[Path | None, typer.Option(help="Tries of jobs: CSV, JSON, sacct or Kubernetes.")] = None,
    incidents: Annotated[Path | None, typer.Option(help="CSV of known failures: node,start,end[,kind].")] = None,
    prometheus: Annotated[str | None, typer.Option(metavar="URL", help="Pull from a Prometheus API.")] = None,
    loki: Annotated[str | None, typer.Option(metavar="URL", help="Pull log lines from a Loki API.")] = None,
    loki_query: Annotated[str, typer.Option(metavar="LOGQL", help="Which lines to pull from Loki.")] = '{job=~".+"}',
    begin: Annotated[
        str | None, typer.Option("--start", metavar="TIME", help="With --prometheus or --loki: first moment.")
    ] = None,
    end: Annotated[str | None, typer.Option(metavar="TIME", help="With --prometheus or --loki: end, excluded.")] = None,
    match: Annotated[list[str] | None, typer.Option(metavar="SELECTOR", help="Series to pull.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="K=V", help="HTTP header, as a tenant's.")] = None,
    step: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="The store's grid, fixed at its first ingest: the scrape interval, as 15s or 1m. Without it 30s, or "
            "ingest.step of --config.",
        ),
    ] = None,
    timezone: Annotated[str | None, typer.Option(metavar="ZONE", help="Of times that name none.")] = None,
    reference_time: Annotated[str | None, typer.Option(metavar="TIME", help="When a log without years ends.")] = None,
    boot_time: Annotated[str | None, typer.Option(metavar="TIME", help="For logs in seconds since boot.")] = None,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="For input that names no node.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Read exports into the store; a second run over the same input adds nothing."""
    from pipelines.ingest import ingest as run  # noqa: PLC0415  # other commands need not load it
    from pipelines.pulling import Loki, Prometheus  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    first, last = console.parse_time(begin, "--start"), console.parse_time(end, "--end")
    servers: dict[str, Any] = {}
    if prometheus is not None or loki is not None:
        if first is None or last is None:
            raise UsageError(
                f"--{'loki' if prometheus is None else 'prometheus'} needs --start and --end, "
                "e.g. --start 2026-01-01T00:00:00Z --end 2026-01-02T00:00:00Z"
            )
        headers = pairs(header, "--header")
        servers["prometheus"] = prometheus and Prometheus(prometheus, first, last, tuple(match or ()), headers)
        servers["loki"] = loki and Loki(loki, first, last, loki_query, headers)
    with console.telling() as progress:
        report = run(
            store,
            settings,
            metrics=metrics or [],
            logs=logs or [],
            sessions=sessions,
            incidents=incidents,
            **servers,
            step=duration(step, "--step"),
            timezone=timezone,
            reference_time=console.parse_time(reference_time, "--reference-time"),
            boot_time=console.parse_time(boot_time, "--boot-time"),
            node=node,
            progress=progress,
        )
    warn(report, settings.features.window.length)
    typer.echo(console.to_json(report) if as_json else describe_ingest(report), nl=not as_json)


def warn(report: dict[str, Any], window: timedelta) -> None:
    """Say on stderr, one line each, what could not be used, and what the inputs' readers advise; the same once."""
    for error in report["errors"]:
        log.error("%s", error)
    advised: dict[str, list[str]] = {}
    for item in report["inputs"]:
        for hint in item.get("hints", ()):
            advised.setdefault(hint, []).append(item["path"])
    for hint, paths in advised.items():
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        log.warning("%s%s: %s", paths[0], more, hint)
    if (report["scrape_seconds"] or 0) >= 2 * report["step_seconds"]:
        log.warning(
            "samples come every %g s and the store's cells are %g s, so most are empty; ingest into a new store with "
            "--step %gs",
            *(report[name] for name in ("scrape_seconds", "step_seconds", "scrape_seconds")),
        )
    held = window.total_seconds() / (report["scrape_seconds"] or 1.0)
    if held < _FEW_SAMPLES:
        log.warning(
            "samples come every %g s, so a window of %s holds %d: give train --window %s",
            report["scrape_seconds"],
            format_duration(window),
            held,
            format_duration(window * ceil(_FEW_SAMPLES / held)),
        )
    if report["doubles"]:
        _warn_of_doubles(*report["doubles"])
    if report["gaps"]:
        log.warning(
            "%d gaps of ten minutes or more in nodes' samples, %s minutes", report["gaps"], report["gap_minutes"]
        )
    if report["conflicts"]:
        log.warning(
            "%d samples differed from another of the same series and time; the larger is kept: exports that overlap, "
            "or series that only labels of the workload (pod, container, job) tell apart",
            report["conflicts"],
        )


def _warn_of_doubles(first: tuple[str, str], *others: tuple[str, str]) -> None:
    node, host = first
    log.warning(
        "%s and %s%s%s are kept as two nodes but look like one machine; if they are one, set ingest.aliases to "
        '{ "%s" = "%s" } and ingest into a new store',
        node,
        "its scraped host " if node.casefold() != host.casefold() else "",
        host,
        f" (and {len(others)} more such pairs)" if others else "",
        host,
        node,
    )


def describe_ingest(report: dict[str, object]) -> str:
    """What was read, kept and rejected, for a person."""
    inputs = report["inputs"]
    assert isinstance(inputs, list)  # noqa: S101  # the report's own form; narrows the type
    rows = [
        {
            **item,
            **{
                name: ", ".join(f"{reason} {n}" for reason, n in item.get(name, {}).items()) or "none"
                for name in ("rejected", "noted")
            },
        }
        for item in inputs
    ]
    if not report["nodes"]:
        return f"{console.table(rows, _INPUT_KEYS)}\nThe store holds no samples and no log lines yet."
    total = (
        f"The store holds {report['nodes']} nodes, {report['series']} series, {report['samples']} samples and "
        f"{report['log_lines']} log lines, from {report['start']} to {report['end']}."
    )
    if report["duplicates"]:
        total += f"\n{report['duplicates']} log lines were in more than one input, or in the store, and are kept once."
    return f"{console.table(rows, _INPUT_KEYS)}\n{total}"


def events(
    store: StoreArgument,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """List the XID events as decoded."""
    from pipelines import failures as labels  # noqa: PLC0415  # other commands need not load it
    from pipelines.store import Store  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    counts: Counter[str] = Counter()
    found = labels.events(Store.open(store), settings, counts)
    for sentence in labels.doubts(found, counts):
        log.warning("%s", sentence)
    rows = console.records(found, EVENT_KEYS)
    typer.echo(console.to_json(rows) if as_json else console.table(rows, EVENT_KEYS), nl=not as_json)


def failures(
    store: StoreArgument,
    preset: Annotated[str | None, typer.Option(help="Which XIDs are failures: hardware, paper or all.")] = None,
    explain: Annotated[bool, typer.Option(help="Say for each XID event why it is or isn't a failure.")] = False,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """List the failures: bursts and cascades of XIDs as incidents, and given ones."""
    from pipelines import failures as labels  # noqa: PLC0415  # other commands need not load it
    from pipelines.store import Store  # noqa: PLC0415  # as above

    settings = start(config, log_format, quiet)
    if preset is not None and preset not in PRESETS:
        raise UsageError(f"--preset: {preset!r} is none of {', '.join(PRESETS)}")
    held, counts = Store.open(store), Counter[str]()
    told = labels.events(held, settings, counts)
    for sentence in labels.doubts(told, counts):
        log.warning("%s", sentence)
    if explain:
        rows = labels.explained(told, held, settings, preset)
        typer.echo(console.to_json(rows) if as_json else console.table(rows, rows[0] if rows else ()), nl=not as_json)
        return
    grouped = labels.grouped(told, held, settings, preset)
    if grouped.empty:
        log.warning(
            "no failure by preset %s among %d XID events; --explain says why of each",
            preset or settings.labels.preset,
            len(told),
        )
    found = console.records(labels.with_repairs(held, settings, grouped), FAILURE_KEYS)
    typer.echo(console.to_json(found) if as_json else console.table(found, FAILURE_KEYS), nl=not as_json)


def features(
    store: StoreArgument,
    window: Annotated[str | None, typer.Option(help="Length of a window.")] = None,
    stride: Annotated[str | None, typer.Option(help="Between two windows' ends.")] = None,
    scheduler: Annotated[str | None, typer.Option(metavar="tcp://HOST:PORT", help="A Dask scheduler.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Fill the store's feature cache; what is there already is not computed again."""
    from pipelines.featurise import featurise  # noqa: PLC0415  # other commands need not load it
    from pipelines.store import Store  # noqa: PLC0415  # as above

    settings = with_windows(start(config, log_format, quiet), window, stride)
    with console.progress("node-days") as progress:
        filled = featurise(Store.open(store), settings, scheduler=scheduler, workers=workers, progress=progress)
    if as_json:
        typer.echo(console.to_json(asdict(filled)), nl=False)
        return
    notes = ", ".join(f"{reason} {count}" for reason, count in sorted(filled.tally.items()) if count)
    typer.echo(
        f"{filled.computed} node-days computed in {filled.seconds:.0f} s, {filled.kept} were there already; "
        f"values set aside: {notes or 'none'}"
    )
