"""``foreshock train | tune | report | promote | ui``: learn from history, and compare."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any

import typer

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
    start,
    with_windows,
)
from pipelines.config import Config
from pipelines.costs import words


def add_to(app: typer.Typer) -> None:
    """Give the application these commands."""
    for command in (train, tune, report, promote, ui):
        app.command(cls=ManyValues)(command)


def train(
    store: StoreArgument,
    horizon: Annotated[str | None, typer.Option(help="How far ahead a warning counts.")] = None,
    gap: Annotated[str | None, typer.Option(help="A warning nearer than this is no longer ahead.")] = None,
    window: Annotated[str | None, typer.Option(help="Length of a window.")] = None,
    stride: Annotated[str | None, typer.Option(help="Between two windows' ends.")] = None,
    budget: Annotated[float | None, typer.Option(help="False alarms a day, over the whole cluster.")] = None,
    preset: Annotated[str | None, typer.Option(help="Which XIDs are failures: hardware, paper or all.")] = None,
    models: Annotated[str | None, typer.Option(metavar="NAME,...", help="Models to train and judge.")] = None,
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="MLflow experiment.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    no_register: Annotated[bool, typer.Option("--no-register", help="Don't register the champion.")] = False,
    also: Annotated[
        list[Path] | None, typer.Option(metavar="STORE", help="Another cluster's history, for training only.")
    ] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Train models on the store's history and judge them leaving one failure out."""
    from pipelines.train import train as run  # noqa: PLC0415  # other commands need not load it

    settings = with_windows(start(config, log_format, quiet), window, stride)
    settings = _with_training(settings, horizon=horizon, gap=gap, budget=budget, preset=preset, models=models)
    settings = _with_tracking(settings, experiment, tracking_uri)
    report = run(store, settings, also=also or [], register=not no_register)
    typer.echo(console.to_json(report) if as_json else describe_training(report), nl=not as_json)


def _with_training(
    settings: Config,
    *,
    horizon: str | None,
    gap: str | None,
    budget: float | None,
    preset: str | None,
    models: str | None,
) -> Config:
    labels = {"horizon": duration(horizon, "--horizon"), "gap": duration(gap, "--gap"), "preset": preset}
    if preset is not None and preset not in {"hardware", "paper", "all"}:
        raise UsageError(f"--preset: {preset!r} is none of hardware, paper, all")
    if budget is not None and not 0 < budget < math.inf:
        raise UsageError(f"--budget: {budget} false alarms a day can't be spent; give a number above 0")
    said = {key: value for key, value in labels.items() if value is not None}
    update: dict[str, object] = {"labels": settings.labels.model_copy(update=said)}
    if budget is not None:
        update["evaluation"] = settings.evaluation.model_copy(update={"budget_per_day": budget})
    if models is not None:
        names = tuple(name.strip() for name in models.split(",") if name.strip())
        update["models"] = settings.models.model_copy(update={"names": names})
    return settings.model_copy(update=update)


def _with_tracking(settings: Config, experiment: str | None, tracking_uri: str | None) -> Config:
    said = {key: value for key, value in {"experiment": experiment, "uri": tracking_uri}.items() if value is not None}
    return settings.model_copy(update={"tracking": settings.tracking.model_copy(update=said)})


def describe_training(report: dict[str, object]) -> str:
    """The judged models, for a person: what each caught, at what price, and whether that is more than chance."""
    models = report["models"]
    assert isinstance(models, dict)  # noqa: S101  # the report's own form; narrows the type
    rows = [
        {
            "model": name,
            "before": f"{judged['before']} ({_share(judged['before_interval'])})",
            "at": judged["at"],
            "missed": judged["missed"],
            "false alarms/day": f"{judged['false_alarms_per_day']:.2f} ({_range(judged['false_alarms_interval'])})",
            "lead (min)": judged["lead_minutes_median"],
            "p": judged["p_permutation"],
        }
        for name, judged in models.items()
    ]
    head = (
        f"{report['failures']} failures in {report['monitored_days']:.1f} monitored days, judged leaving one failure "
        f"out, at a budget of {report['budget_per_day']} false alarms a day; 95 % intervals in brackets."
    )
    last = f"Champion: {report['champion']} ({report['registered'] or 'not registered'}). Verdict: {report['verdict']}."
    beside, cost = report["protocols"], report["cost"]
    assert isinstance(beside, dict)  # noqa: S101  # as above
    assert isinstance(cost, dict)  # noqa: S101  # as above
    other = [
        {
            "judged otherwise": name,
            **dict.fromkeys(("before", "at", "missed", "false alarms/day", "best baseline before"), ""),
            **_otherwise(found, str(report["champion"])),
        }
        for name, found in beside.items()
    ]
    if exclude := report.get("exclude"):
        assert isinstance(exclude, list)  # noqa: S101  # as above
        head += f" Columns whose names hold {', '.join(exclude)} were left out (features.exclude)."
    if made_up := report.get("made_up"):
        head = f"MADE-UP DATA: {made_up}\n\n{head}"
    parts = [head, console.table(rows, rows[0]), console.table(other, other[0]) if other else "", last]
    return "\n\n".join(part for part in [*parts, f"Cost: {words(cost)}."] if part)


def _otherwise(found: dict[str, Any], champion: str) -> dict[str, object]:
    """A protocol's row: the champion's figures, or why there are none."""
    if found["why_not"]:
        return {"before": found["why_not"]}
    from models.protocols import best_baseline  # noqa: PLC0415  # other commands need not load the models

    own, best = found["models"][champion], best_baseline(found["models"])
    return {
        "before": f"{own['before']} of {len(own['by_failure'])} ({_share(own['before_interval'])})",
        "at": own["at"],
        "missed": own["missed"],
        "false alarms/day": f"{own['false_alarms_per_day']:.2f} ({_range(own['false_alarms_interval'])})",
        "best baseline before": "" if best is None else f"{found['models'][best]['before']} ({best})",
    }


def _share(interval: list[float]) -> str:
    return f"{100 * interval[0]:.0f}-{100 * interval[1]:.0f} %"


def _range(interval: list[float]) -> str:
    return f"{interval[0]:.2f}-{interval[1]:.2f}"


def tune(
    store: StoreArgument,
    trials: Annotated[int, typer.Option(metavar="N", help="Tries of each search: one in each outer fold, one on all.")],
    timeout: Annotated[str | None, typer.Option(metavar="D", help="Time for all searches together, as 6h.")] = None,
    storage: Annotated[
        str | None, typer.Option(metavar="URL", help="Optuna's database; a search goes on where it was.")
    ] = None,
    models: Annotated[str | None, typer.Option(metavar="NAME", help="The model to tune.")] = None,
    budget: Annotated[float | None, typer.Option(help="False alarms a day, over the whole cluster.")] = None,
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="MLflow experiment.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Search a model's settings, judged on folds that the search never saw."""
    from pipelines import tune as room  # noqa: PLC0415  # other commands need not load it

    settings = _with_training(
        start(config, log_format, quiet), horizon=None, gap=None, budget=budget, preset=None, models=models
    )
    span = duration(timeout, "--timeout")
    found = room.tune(
        store,
        _with_tracking(settings, experiment, tracking_uri),
        trials=trials,
        timeout=None if span is None else span.total_seconds(),
        storage=storage,
    )
    typer.echo(console.to_json(found) if as_json else room.describe(found), nl=not as_json)


def report(
    what: Annotated[str, typer.Argument(metavar="STORE|RUN_ID", help="A store's newest training, or a run of MLflow.")],
    out: Annotated[Path, typer.Option(metavar="FILE.html", help="The page to write; it needs no network.")],
    experiment: Annotated[str | None, typer.Option(metavar="NAME", help="MLflow experiment.")] = None,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Write a training as one HTML page: verdict, curve, failures, false alarms, nodes, data quality, limits."""
    from pipelines import report as room  # noqa: PLC0415  # other commands need not load it

    settings = _with_tracking(start(config, log_format, quiet), experiment, tracking_uri)
    done = room.report(what, settings, out)
    typer.echo(console.to_json(done) if as_json else room.describe(done), nl=not as_json)


def promote(
    version: Annotated[int, typer.Argument(metavar="VERSION", help="Version of the registered model.")],
    alias: Annotated[str, typer.Option(help="The name that scoring asks for.")] = "champion",
    force: Annotated[
        bool, typer.Option("--force", help="Though it does not beat the champion on the same folds; on record.")
    ] = False,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow tracking server or database.")] = None,
    as_json: JsonOption = False,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Let a registered version do the scoring from now on, if it beats the champion on the same folds."""
    from models import registry  # noqa: PLC0415  # MLflow takes seconds to load

    settings = _with_tracking(start(config, log_format, quiet), None, tracking_uri).tracking
    found, gate = registry.promote(settings.uri, settings.registered_model, version, alias, force=force)
    if as_json:
        said = {"model": found.uri, "alias": alias, "passed": gate.passed, "reason": gate.reason}
        typer.echo(console.to_json(said), nl=False)
    else:
        why = gate.reason if gate.passed else f"forced, though {gate.reason}"
        typer.echo(f"models:/{settings.registered_model}@{alias} is version {version} now: {why}")


def ui(
    port: Annotated[int, typer.Option(help="On this machine only.")] = 5000,
    tracking_uri: Annotated[str | None, typer.Option(metavar="URI", help="MLflow database to show.")] = None,
    config: ConfigOption = None,
    log_format: LogFormatOption = "text",
    quiet: QuietOption = False,
) -> None:
    """Serve the MLflow UI on this machine's loopback address."""
    from models import interface  # noqa: PLC0415  # MLflow takes seconds to load

    settings = _with_tracking(start(config, log_format, quiet), None, tracking_uri).tracking
    interface.serve_ui(settings.uri, port)
