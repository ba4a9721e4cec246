"""What of a training goes to MLflow: figures, tables and curves of the run, and a nested run for each fold."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from features.settings import Settings
from models.crossfit import Crossfit
from models.splits import Fold, Folds
from models.tracking import Run
from pipelines import console, plots
from pipelines.config import Config
from pipelines.panel_files import day_statistics, split_name
from pipelines.store import Store

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
_OUTCOMES = {"missed": 0.0, "at": 1.0, "before": 2.0}


def record(run: Run, report: Mapping[str, Any], fitted: Crossfit, folds: Folds, config: Config) -> None:
    """Log a judged training."""
    champion, judged = report["champion"], report["models"]
    run.log(params=dict(_params(config)) | {"champion": champion}, metrics=dict(_metrics(report)))
    run.log(tags={"verdict": report["verdict"], "reason": report["reason"], "champion": champion})
    for name, found in judged.items():
        for key in ("before", "at", "missed", "lead_minutes_median"):
            points = [(point["budget"], point[key]) for point in found["curve"] if point[key] is not None]
            if points:
                run.curve(f"curve/{name}/{key}", points)
    run.table(_failure_table(judged), "failures.json")
    horizon = config.labels.horizon.total_seconds() / 60
    pictures = plots.figures(judged, champion, fitted.predictions, report["budget_per_day"], horizon)
    run.files(
        {
            **{f"figures/{name}": data for name, data in pictures.items()},
            "report.json": console.to_json(report).encode(),
            "config.json": config.model_dump_json(indent=1, exclude={"tracking": {"uri"}}).encode(),
        }
    )
    for fold in folds:
        _record_fold(run, fold, judged, fitted)


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
    for key in ("failures", "monitored_days", "windows", "columns"):
        yield key, report[key]
    for name, found in report["models"].items():
        for key in _FIGURES:
            yield f"{name}/{key}", found[key]
        for key in ("before_interval", "false_alarms_interval"):
            low, high = found[key]
            yield f"{name}/{key}_low", low
            yield f"{name}/{key}_high", high


def _failure_table(judged: Mapping[str, Mapping[str, Any]]) -> pd.DataFrame:
    """A row for each failure and model."""
    rows = [{"model": name, **row} for name, found in judged.items() for row in found["by_failure"]]
    return pd.DataFrame(rows).astype(object).where(lambda frame: frame.notna(), None)


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
