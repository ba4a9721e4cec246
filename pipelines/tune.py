"""``foreshock tune``: settings searched inside each outer fold, and judged on what the search never saw."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w
from numpy.typing import NDArray

from features.tables import PREDICTIONS, InputError, UsageError, conform
from features.windows import as_ns
from models import choice, evaluation, splits, tuning
from models.lineup import BASELINES, Lineup, label_free, members
from models.scorers import place
from models.settings import ModelSettings
from models.splits import Fold, Folds
from models.telling import Signs, Told, apart
from models.tracking import Run, Tracker, shown
from pipelines import console, experiment, made_up
from pipelines.config import Config
from pipelines.store import Store
from pipelines.train import History, logged, mine, recall

log = logging.getLogger(__name__)

OUTER, INNER = 5, 3  # folds that the figures come from, and those that a search sees in each of them
_QUIET = 10_000  # quiet windows that a trial learns from: of two settings the better shows with fewer too
# Shares that quiet time is dealt to. In an outer fold all of it is judged, so there are as many as failures allow. In
# an inner one a share is enough to count false alarms, and the smaller it is the fewer warnings of other failures the
# embargo around it takes away.
_OUTER_QUIET, _INNER_QUIET = 2, 8


def tune(
    store: Path, config: Config, *, trials: int, timeout: float | None = None, storage: str | None = None
) -> dict[str, Any]:
    """Search settings for the first of the models asked for; gives the command's JSON.

    Parameters
    ----------
    trials
        Of each search; there is one in each outer fold, and one on everything for the settings to keep.
    timeout
        Seconds for all searches together; shared evenly among those that are left.
    storage
        Address of Optuna's database; by default beside MLflow's.

    Raises
    ------
    InputError
        There are fewer than three failures: with one held out, two are needed to learn from and to judge.
    UsageError
        A baseline has no settings, or the number of trials is none.
    """
    name = config.models.names[0]
    if name in BASELINES:
        raise UsageError(f"{name} is a baseline and has no settings to search; name a model by --models")
    if trials < 1:
        raise UsageError(f"--trials: {trials}; at least 1")
    began = time.monotonic()
    deadline = float("inf") if timeout is None else began + timeout
    address = storage or default_storage(config)
    opened = Store.open(store)
    tracker = Tracker(config.tracking.uri, config.tracking.artifacts)  # one that is not there is told before the work
    history = recall(opened, config)
    bench = _Bench.of(history, name, config)
    outer = outer_folds(bench)
    if sum(bool(fold.held_out) for fold in outer) < 3:
        raise InputError(f"{store}: fewer than three failures to judge by; nothing can be tuned on them")
    tags = experiment.provenance("tune", history.store, history.matrix.labels, len(history.failures))
    data = [experiment.dataset(history.store)]
    title = f"tune {store.resolve().name}"
    with tracker.start(config.tracking.experiment, title, tags=tags, datasets=data) as run:
        searches = [*outer, Fold(-1, "all", np.arange(len(bench.label)), np.empty(0, dtype=np.int64))]
        rows, parts = [], []
        for number, fold in enumerate(searches):
            share = (deadline - time.monotonic()) / (len(searches) - number)
            study = f"{bench.study}/{fold.name}"
            until = time.monotonic() + share
            found = tuning.search(study, address, trials, bench.steps(fold), bench.settings, deadline=until, draw=True)
            rows.append(_row(fold, found))
            log.info("%s: worth %s after %d trials", fold.name, _number(found.worth), rows[-1]["trials"])
            _record_search(run, fold, found, rows[-1])
            if fold.number >= 0:
                tuned = bench.scores(tuning.apply(bench.base, found.best), fold, config.models.quiet_windows)
                plain = bench.scores(bench.base, fold, config.models.quiet_windows)
                parts += [tuned.assign(model="tuned"), plain.assign(model="default")]
        report = _report(history, pd.concat(parts, ignore_index=True), rows, bench, config)
        report |= {"run_id": run.run_id, "experiment": config.tracking.experiment, "storage": shown(address)}
        report["seconds"] = time.monotonic() - began
        _record(run, report)
    return report


def default_storage(config: Config) -> str:
    """``optuna.db`` beside MLflow's database, or below ``mlruns``."""
    uri = config.tracking.uri
    folder = uri.rpartition("/")[0] if uri.startswith("sqlite:///") and "/" in uri[10:] else "sqlite:///mlruns"
    return f"{folder}/optuna.db"


@dataclass(frozen=True)
class _Bench:
    """What every trial shares: what is told of the windows, their labels, and how they are judged."""

    history: History
    config: Config
    base: ModelSettings
    signs: Signs
    label: NDArray[np.float32]
    began: NDArray[np.bool_]
    length: int
    study: str

    @classmethod
    def of(cls, history: History, name: str, config: Config) -> _Bench:
        base = config.models.model_copy(update={"names": (name,)})
        windows = history.matrix.windows
        told = _tell(history, name, base, config)
        # another store, another question or another version of the search is another study
        asked = [history.store.digest(), name, config.labels.model_dump_json(), config.features.model_dump_json()]
        asked += [config.evaluation.model_dump_json(), base.model_dump_json(), str(tuning.SPACE)]
        digest = hashlib.sha256("\0".join(asked).encode()).hexdigest()
        return cls(
            history,
            config,
            base,
            told.signs,
            history.label,
            history.began,
            int((as_ns(windows["end"]) - as_ns(windows["start"])).max()),
            f"foreshock/{name}/{digest[:16]}",
        )

    @property
    def settings(self) -> ModelSettings:
        """The base with the members' names, which the space is made of."""
        return self.base.model_copy(update={"names": (*self.base.names, *members(self.base.names))})

    def scores(self, settings: ModelSettings, fold: Fold, quiet: int) -> pd.DataFrame:
        """`PREDICTIONS` of the fold's test windows, without a model's name."""
        name = self.base.names[0]
        thin, weight = splits.sample_quiet(fold, self.label, quiet, settings.seed)
        one = settings.model_copy(update={"names": (name,)})
        lineup = Lineup((name,), one).learn(self.signs.rows(thin.train), self.label[thin.train], weight)
        score = lineup.judge(self.signs.rows(fold.test), self.began[fold.test])
        about = self.history.matrix.windows.iloc[fold.test]
        table = about.assign(model=name, fold=fold.number, score=score[name].to_numpy())
        return conform(table, PREDICTIONS)[list(PREDICTIONS.columns)]

    def steps(self, outer: Fold) -> tuning.Steps:
        """How a trial goes through the inner folds of an outer one; a fold without a failure tells nothing."""
        inner = inner_folds(self, outer)
        windows = self.history.matrix.windows
        days = tuning.days_of(windows.iloc[outer.train])
        failures = self._failures(outer.held_out)

        def go(settings: ModelSettings) -> Iterator[float]:
            got: list[float] = []
            for fold in inner:
                share = days * len(fold.test) / len(outer.train)
                try:
                    told = self.scores(settings, fold, min(_QUIET, settings.quiet_windows))
                except InputError:  # its training rows hold no warning
                    continue
                got += tuning.worth(told, failures, self.length, share, self.config.labels, self.config.evaluation)
                yield float(np.mean(got)) if got else 0.0

        return go

    def _failures(self, without: tuple[str, ...]) -> pd.DataFrame:
        every = self.history.failures
        return every[~every["failure"].isin(without)].reset_index(drop=True)


def _tell(history: History, name: str, base: ModelSettings, config: Config) -> Told:
    """What is told of every window without knowing any failure; no trial changes it."""

    def rows(learn: NDArray[np.int64]) -> tuple[pd.DataFrame, Callable[[NDArray[np.int64]], pd.DataFrame]]:
        templates = mine(history, learn, config)
        return logged(history, learn, templates), lambda tell: logged(history, tell, templates)

    where, quiet = place(history.matrix.X), history.label == 0
    return apart(rows, where, quiet, *label_free((name,), base), most=base.quiet_windows)


def outer_folds(bench: _Bench) -> Folds:
    """The folds that figures come from: each window is tested once."""
    return _folds(bench, np.arange(len(bench.label)), (), OUTER, _OUTER_QUIET)


def inner_folds(bench: _Bench, outer: Fold) -> Folds:
    """Folds among an outer fold's training rows, without its failures; those that test no failure tell nothing."""
    found = _folds(bench, outer.train, outer.held_out, INNER, _INNER_QUIET)
    return tuple(fold for fold in found if fold.held_out)


def _folds(bench: _Bench, rows: NDArray[np.int64], without: tuple[str, ...], count: int, quiet: int) -> Folds:
    """Folds among these rows, in the rows' own numbers; failures are dealt to ``count`` of them."""
    settings = bench.config.evaluation.model_copy(update={"most_folds": count, "quiet_folds": quiet})
    windows = bench.history.matrix.windows.iloc[rows].reset_index(drop=True)
    made = splits.leave_one_failure_out(windows, bench._failures(without), bench.config.labels, settings)  # noqa: SLF001  # this file's own
    return tuple(Fold(f.number, f.name, rows[f.train], rows[f.test], f.held_out) for f in made)


def _row(fold: Fold, found: tuning.Found) -> dict[str, Any]:
    states = [trial.state for trial in found.trials]
    return {
        "fold": fold.name,
        "held_out": list(fold.held_out),
        "worth": found.worth,
        "trials": states.count("complete") + states.count("pruned"),
        "pruned": states.count("pruned"),
        "failed": states.count("fail"),
        "settings": found.best,
    }


def _report(
    history: History, predictions: pd.DataFrame, rows: list[dict[str, Any]], bench: _Bench, config: Config
) -> dict[str, Any]:
    """The tuned model beside the same model untuned, on the same outer folds."""
    windows = history.matrix.windows
    judged = {
        str(name): evaluation.judge(part, history.failures, windows, config.labels, config.evaluation)
        for name, part in predictions.groupby("model", sort=False)
    }
    versus = choice.compare(judged, frozenset({"default"}))
    kept = tuning.apply(bench.base, rows[-1]["settings"])
    return {
        "model": bench.base.names[0],
        "failures": len(history.failures),
        "monitored_days": judged["tuned"]["monitored_days"],
        "budget_per_day": config.evaluation.budget_per_day,
        "models": judged,
        "mcnemar": versus["mcnemar"],
        "folds": rows[:-1],
        "best": rows[-1]["settings"],
        "worth": rows[-1]["worth"],
        made_up.KEY: made_up.words(history.store),
        "config": tomli_w.dumps({"models": {"persistence": kept.persistence, "options": kept.options}}),
    }


def _record_search(run: Run, fold: Fold, found: tuning.Found, row: Mapping[str, Any]) -> None:
    tags = {"held_out": ", ".join(fold.held_out)}
    with run.child(f"search {fold.name}", tags) as search:
        counts = {name: float(row[name]) for name in ("trials", "pruned", "failed")}
        search.log(metrics={"worth": found.worth, **counts}, params=found.best)
        search.files({f"figures/{name}": data for name, data in found.pictures.items()})
        for trial in found.trials:
            status = {"complete": "FINISHED", "pruned": "FINISHED"}.get(trial.state, "FAILED")
            one = search.child(f"trial {trial.number}", {"state": trial.state})
            metrics = {"worth": trial.worth, "seconds": trial.seconds}
            one.log(params=trial.values, metrics={k: v for k, v in metrics.items() if v is not None})
            one.end(status)


def _record(run: Run, report: Mapping[str, Any]) -> None:
    tuned, plain = report["models"]["tuned"], report["models"]["default"]
    note = (
        f"**{report['model']} tuned: {tuned['before']} of {report['failures']} caught before at "
        f"{tuned['false_alarms_per_day']:.2f} false alarms a day; untuned {plain['before']} at "
        f"{plain['false_alarms_per_day']:.2f}.** Each outer fold was judged with settings that were searched "
        "without it. `tuned.toml` holds the settings searched on everything: figures that `foreshock train` gives "
        "with them are of data the search saw."
    )
    if report["made_up"]:
        note = f"**MADE-UP DATA.** {report['made_up']} {note}"
    run.log(metrics=dict(experiment.figures(tuned)) | {"worth": report["worth"]}, params=report["best"])
    run.log(metrics={f"default/{key}": value for key, value in experiment.figures(plain)})
    run.log(tags={"mlflow.note.content": note, "champion": report["model"]})
    run.files({"tune.json": console.to_json(report).encode(), "tuned.toml": report["config"].encode()})


def describe(report: Mapping[str, Any]) -> str:
    """What the search brought, for a person."""
    rows: list[dict[str, object]] = [
        {
            "": name,
            "before": found["before"],
            "at": found["at"],
            "missed": found["missed"],
            "false alarms/day": f"{found['false_alarms_per_day']:.2f}",
            "lead (min)": found["lead_minutes_median"],
        }
        for name, found in report["models"].items()
    ]
    searched: list[dict[str, object]] = [
        {"fold": row["fold"], "trials": row["trials"], "pruned": row["pruned"], "worth": row["worth"]}
        for row in report["folds"]
    ]
    head = (
        f"{report['model']} on {report['failures']} failures at a budget of {report['budget_per_day']} false alarms a "
        "day; each outer fold judged with settings searched without it:"
    )
    return "\n".join(
        [
            *([f"MADE-UP DATA: {report['made_up']}", ""] if report["made_up"] else []),
            head,
            "",
            console.table(rows, rows[0]),
            "",
            console.table(searched, searched[0]),
            "",
            "Settings searched on everything, for --config (figures with them are of data the search saw):",
            "",
            str(report["config"]).strip(),
        ]
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"
