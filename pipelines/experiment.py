"""What of a training goes to MLflow: figures, tables and curves of the run, and a nested run for each fold."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any

import pandas as pd

from features.settings import Settings
from features.tables import to_time
from features.windows import as_ns
from models.crossfit import Crossfit
from models.protocols import brief
from models.registry import JUDGING_TAG
from models.splits import Fold, Folds
from models.tracking import Dataset, Run
from pipelines import console, made_up, plots
from pipelines.config import Config
from pipelines.panel_files import day_statistics, split_name
from pipelines.store import Store

STORE_TAG, KIND_TAG = "data.store_sha256", "kind"
_FIGURES = (
    "before",
    "at",
    "missed",
    "false_alarms_per_day",
    "lead_minutes_median",
    "threshold",
    "p_permutation",
    "before_by_chance",
)
_INTERVALS = ("before_interval", "false_alarms_interval")
_OUTCOMES = {"missed": 0.0, "at": 1.0, "before": 2.0}


def record(
    run: Run,
    report: Mapping[str, Any],
    evidence: Mapping[str, Any],
    fitted: Crossfit,
    folds: Folds,
    config: Config,
) -> None:
    """Log a judged training."""
    champion, judged = report["champion"], report["models"]
    run.log(params=dict(_params(config)) | {"champion": champion}, metrics=dict(_metrics(report)))
    run.log(
        tags={
            "verdict": report["verdict"],
            "reason": report["reason"],
            "champion": champion,
            JUDGING_TAG: judging(fitted.predictions, judged, config),
            "mlflow.note.content": note(report),
        }
    )
    for name, found in judged.items():
        for key in ("before", "at", "missed", "lead_minutes_median"):
            points = [(point["budget"], point[key]) for point in found["curve"] if point[key] is not None]
            if points:
                run.curve(f"curve/{name}/{key}", points)
    run.table(_failure_table(judged), "failures.json")
    run.table(_alarm_table(evidence), "false_alarms.json")
    if report["protocols"]:
        run.table(_protocol_table(report), "protocols.json")
    horizon = config.labels.horizon.total_seconds() / 60
    pictures = plots.figures(judged, champion, fitted.predictions, report["budget_per_day"], horizon)
    run.files(
        {
            **{f"figures/{name}": data for name, data in pictures.items()},
            "report.json": console.to_json(report).encode(),
            "evidence.json": console.to_json(evidence).encode(),
            "predictions.parquet": scores(fitted.predictions),
            "config.json": config.model_dump_json(indent=1, exclude={"tracking": {"uri"}}).encode(),
        }
    )
    for fold in folds:
        _record_fold(run, fold, judged, fitted)


def judging(predictions: pd.DataFrame, judged: Mapping[str, Mapping[str, Any]], config: Config) -> str:
    """SHA-256 of what figures depend on beside the model: windows and their folds, failures, and the rules."""
    first = next(iter(judged))
    own = predictions[predictions["model"] == first].sort_values(["node", "end"], kind="stable")
    whole = hashlib.sha256()
    whole.update(as_ns(own["end"]).tobytes() + own["fold"].to_numpy(dtype="int64").tobytes())
    whole.update("\0".join(own["node"]).encode())
    whole.update(json.dumps([[row["failure"], row["time"]] for row in judged[first]["by_failure"]]).encode())
    rules = config.evaluation.model_dump_json(exclude={"protocols"})  # what else was judged changes no figure
    whole.update((config.labels.model_dump_json() + rules).encode())
    return whole.hexdigest()


def note(report: Mapping[str, Any]) -> str:
    """What the run says, in Markdown for the UI."""
    rows = [
        f"| {_cell(name)} | {found['before']} ({_percent(found['before_interval'])}) | {found['at']} "
        f"| {found['missed']} | {found['false_alarms_per_day']:.2f} | {_minutes(found['lead_minutes_median'])} |"
        for name, found in report["models"].items()
    ]
    judged = (
        f"{report['failures']} failures in {report['monitored_days']:.1f} monitored days, judged leaving one failure "
        f"out, at a budget of {report['budget_per_day']} false alarms a day. Champion: {_cell(report['champion'])}. "
        "95 % intervals in brackets."
    )
    beside = [
        f"- {found['words']}: {found['why_not'] or brief(found['models'])}" for found in report["protocols"].values()
    ]
    more = (
        "Pictures are under *Artifacts*: `figures/trade_off.png`, and a timeline for each failure. "
        f"The same as one page: `foreshock report {report['run_id']} --out report.html`"
    )
    return "\n".join(
        [
            *([f"**MADE-UP DATA.** {report['made_up']}", ""] if report.get("made_up") else []),
            f"**Verdict: {report['verdict']}.** {_cell(report['reason'])}.",
            "",
            judged,
            "",
            "| model | before | at | missed | false alarms a day | lead (min) |",
            "|---|---|---|---|---|---|",
            *rows,
            "",
            *map(_cell, beside),
            "",
            more,
        ]
    )


def _cell(text: object) -> str:
    """Text that can't end a table's cell or begin a tag."""
    return str(text).replace("|", "/").replace("<", "&lt;").replace("\n", " ")


def _percent(interval: list[float]) -> str:
    return f"{100 * interval[0]:.0f}-{100 * interval[1]:.0f} %"


def _minutes(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"


def scores(predictions: pd.DataFrame) -> bytes:
    """All models' out-of-fold scores, a column a model, as Parquet."""
    wide = pd.DataFrame()
    for name, part in predictions.groupby("model", sort=True):
        own = part.sort_values("window", kind="stable")
        if wide.empty:
            wide = own[["node", "end", "window", "fold"]].reset_index(drop=True)
        wide[str(name)] = own["score"].to_numpy(dtype="float32")
    out = io.BytesIO()
    wide.sort_values(["node", "end"], kind="stable").to_parquet(out, compression="zstd", index=False)
    return out.getvalue()


def _params(config: Config) -> Iterator[tuple[str, object]]:
    """Settings that change the result, flat; no address and no path among them."""
    for name in ("features", "labels", "models", "evaluation"):
        section: Settings = getattr(config, name)
        for key, value in section.model_dump(mode="json").items():
            if isinstance(value, dict) and name == "features":
                yield from ((f"{name}.{key}.{inner}", json.dumps(v)) for inner, v in value.items())
            else:
                yield f"{name}.{key}", value if isinstance(value, str | int | float) else json.dumps(value)


def _metrics(report: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """The champion's figures under plain names, that runs sort by, and every model's below its own name."""
    for key in ("failures", "monitored_days", "windows", "columns"):
        yield key, report[key]
    yield from figures(report["models"][report["champion"]])
    for name, found in report["models"].items():
        yield from ((f"{name}/{key}", value) for key, value in figures(found) if value is not None)
    for protocol, found in report["protocols"].items():
        for name, judged in found["models"].items():
            if name == report["champion"]:
                yield from ((f"protocol/{protocol}/{key}", judged[key]) for key in _FIGURES if judged[key] is not None)
    cost = report["cost"]
    for key in ("seconds", "cpu_seconds", "peak_mebibytes"):
        yield f"cost/{key}", cost[key]
    yield from ((f"cost/{stage}_seconds", seconds) for stage, seconds in cost["stages"].items())


def figures(found: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """A judged model's figures as metrics."""
    for key in _FIGURES:
        yield key, found[key]
    for key in _INTERVALS:
        low, high = found[key]
        yield f"{key}_low", low
        yield f"{key}_high", high
    for point in found["curve"]:
        for key in ("before", "at", "lead_minutes_median", "false_alarms_per_day"):
            if point[key] is not None:  # a lead that does not exist needs no tag for each budget
                yield f"{key}_at_{point['budget']:g}", point[key]


def _failure_table(judged: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each failure and model."""
    rows = [{"model": name, **row} for name, found in judged.items() for row in found["by_failure"]]
    return pd.DataFrame(rows).astype(object).where(lambda frame: frame.notna(), None)


def _protocol_table(report: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each protocol and model, or for a protocol that could not be judged."""
    rows: list[dict[str, Any]] = []
    for protocol, found in report["protocols"].items():
        about = {"folds": found["folds"], "why not": found["why_not"], "words": found["words"]}
        rows += [
            {"protocol": protocol, "model": name, **{key: judged[key] for key in (*_FIGURES, *_INTERVALS)}, **about}
            for name, judged in found["models"].items()
        ] or [{"protocol": protocol, **about}]
    columns = ["protocol", "model", *_FIGURES, *_INTERVALS, "folds", "why not", "words"]
    return pd.DataFrame(rows, columns=columns).astype(object).where(lambda frame: frame.notna(), None)


def _alarm_table(evidence: Mapping[str, Any]) -> pd.DataFrame:
    """A row for each false alarm of the champion, the dearest first."""
    columns = ["node", "time", "last", "score", "threshold", "cost", "phase", "suspect_gpu", "reason", "log line"]
    rows = [
        {
            **alarm,
            "reason": alarm["reasons"][0]["text"] if alarm["reasons"] else None,
            "log line": alarm["lines"][0]["example"][:300] if alarm["lines"] else None,
        }
        for alarm in evidence["false_alarms"]
    ]
    return pd.DataFrame(rows, columns=columns).astype(object).where(lambda frame: frame.notna(), None)


def _record_fold(run: Run, fold: Fold, judged: Mapping[str, Mapping[str, Any]], fitted: Crossfit) -> None:
    metrics: dict[str, float | None] = {
        "train_windows": float(len(fold.train)),
        "test_windows": float(len(fold.test)),
        "seconds": fitted.seconds.get(fold.number),
    }
    for name, found in judged.items():
        rows = [row for row in found["by_failure"] if row["failure"] in fold.held_out]
        if rows:
            metrics[f"{name}/outcome"] = sum(_OUTCOMES[row["outcome"]] for row in rows) / len(rows)
            leads = [row["lead_minutes"] for row in rows if row["lead_minutes"] is not None]
            metrics[f"{name}/lead_minutes"] = max(leads, default=None)
        metrics[f"{name}/threshold"] = found["thresholds"].get(fold.number)
    with run.child(f"fold {fold.number}: {fold.name}", {"held_out": ", ".join(fold.held_out)}) as child:
        child.log(metrics=metrics)


def metric_names(store: Store) -> tuple[str, ...]:
    """Names of the exported metrics in a store, for asking a server for just these."""
    names: set[str] = set()
    for node in store.nodes():
        for day in store.days(node):
            series = day_statistics(store.panel_path(node, day))["series"]
            names |= {split_name(name).metric.partition("{")[0] for name in series}
    return tuple(sorted(names))


def dataset(store: Store) -> Dataset:
    """What a run learned from, as MLflow lists it."""
    path = store.path.resolve()
    return Dataset(path.name, str(path), store.digest())


def provenance(kind: str, store: Store, labels: pd.DataFrame, failures: int) -> dict[str, str]:
    """Tags that tell apart what was done (train or tune), data, labels and version."""
    start, end = store.span()
    digest = pd.util.hash_pandas_object(labels, index=False).to_numpy().tobytes()
    days = math.ceil((end - start) / 86_400e9)
    words = made_up.words(store)
    return {
        **({made_up.TAG: words} if words else {}),
        KIND_TAG: kind,
        "data.name": store.path.resolve().name,
        "data.start": to_time(start).isoformat(),
        "data.end": to_time(end).isoformat(),
        STORE_TAG: store.digest(),
        "labels.sha256": hashlib.sha256(digest).hexdigest(),
        "foreshock.version": version("foreshock"),
        "mlflow.note.content": f"{failures} failures in {days} days; not finished.",
    }
