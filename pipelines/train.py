"""``foreshock train``: from a store's history to judged models, a frozen bundle, and an experiment in MLflow."""

from __future__ import annotations

import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import log_columns
from features import names as grammar
from features.matrix import Past
from features.settings import format_duration, to_nanoseconds
from features.tables import InputError, Matrix, UsageError, to_time
from features.templates import Templates
from features.windows import as_ns
from models import bundle, choice, crossfit, deep, evaluation, protocols, splits
from models.lineup import BASELINES, NAMES, Lineup, scorer
from models.splits import Fold, Folds
from models.telling import Told
from models.tracking import Run, Tracker
from pipelines import experiment, failures, featurise, known, made_up, report_evidence
from pipelines.config import Config
from pipelines.costs import Costs, words
from pipelines.frozen import Frozen, Usual
from pipelines.store import Store

log = logging.getLogger(__name__)

BUNDLE = "bundle"
_AT_ONCE = 1_000


class History(NamedTuple):
    """A store's past: what failed, and a row for each window; log columns come with a fold's own templates."""

    store: Store
    failures: pd.DataFrame
    events: pd.DataFrame
    matrix: Matrix
    lines: pd.DataFrame
    heard: tuple[str, ...]
    began: NDArray[np.bool_]  # of each window, as a live job would have known at its end
    exclude: tuple[str, ...] = ()  # columns that no model sees, as `FeatureSettings.exclude`

    @property
    def label(self) -> NDArray[np.float32]:
        """1 warning, 0 quiet, NaN neither."""
        return self.matrix.labels["label"].to_numpy(dtype=np.float32)


def train(
    store: Path,
    config: Config,
    *,
    also: Sequence[Path] = (),
    register: bool = True,
    tags: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Train, judge leaving one failure out, keep the champion; gives the command's JSON.

    Parameters
    ----------
    also
        Other clusters' stores, to learn from only.
    tags
        Of the run in MLflow, beside its own.

    Raises
    ------
    InputError
        There is nothing to learn from, or nothing to learn with.
    UsageError
        A model's name is unknown.
    """
    names, costs = _names(config), Costs()
    own_store, more = Store.open(store), [Store.open(path) for path in also]
    tracker = Tracker(config.tracking.uri, config.tracking.artifacts)  # one that is not there is told before the work
    with costs.stage("recalling"):
        history = recall(own_store, config)
        others = [recall(other, config) for other in more]
    data = [experiment.dataset(one.store) for one in (history, *others)]
    own = experiment.provenance("train", history.store, history.matrix.labels, len(history.failures))
    said = {**own, **(tags or {})}
    with tracker.start(config.tracking.experiment, _run_name(history), tags=said, datasets=data) as run:
        folds = splits.leave_one_failure_out(history.matrix.windows, history.failures, config.labels, config.evaluation)
        fitted, seen = _crossfit(history, folds, names, config, others)
        costs.add("telling", fitted.telling_seconds)
        costs.add("folds", sum(fitted.seconds.values()))
        with costs.stage("judging"):
            judged = judge(fitted.predictions, history, config)
        best = _best(judged, _skipped(fitted), config)
        champion = best["champion"]
        log.info("champion: %s; %s (%s)", champion, best["verdict"], best["reason"])
        with costs.stage("freezing"):
            frozen = freeze(history, champion, judged, fitted, config)
        with costs.stage("explaining"):
            evidence = _evidence(history, champion, judged, fitted, seen, frozen.usual, config)
        report = _report(history, judged, champion, best, config)
        report |= {"run_id": run.run_id, "experiment": config.tracking.experiment, "skipped": _skipped(fitted)}
        report["protocols"] = beside(history, champion, fitted, config)
        for protocol, found in report["protocols"].items():
            costs.add(f"protocol {protocol}", found["seconds"])
        report["cost"] = costs.told()
        log.info("cost: %s", words(report["cost"]))
        experiment.record(run, report, evidence, fitted, folds, config)
        report["registered"] = _keep(run, tracker, frozen, report, config, register=register)
    return report


def _names(config: Config) -> tuple[str, ...]:
    """The models asked for, and every baseline beside them."""
    if not set(config.models.names) - BASELINES:
        raise UsageError(
            f"--models names no model but baselines; choose among {', '.join(sorted({*NAMES} - BASELINES))}"
        )
    for name in config.models.names:
        if name != "blend":
            scorer(name, config.models)
    if "tadgan" in config.models.names:
        deep.require()
    return tuple(dict.fromkeys([*config.models.names, *(name for name in NAMES if name in BASELINES)]))


def recall(store: Store, config: Config) -> History:
    """Failures, windows, rows and lines of a store.

    Raises
    ------
    InputError
        There is no failure to learn from.
    UsageError
        The settings leave no time for a warning, or no column.
    """
    if config.labels.horizon <= config.labels.gap:
        horizon, gap = format_duration(config.labels.horizon), format_duration(config.labels.gap)
        raise UsageError(f"a horizon of {horizon} and a gap of {gap} leave no time for a warning; widen --horizon")
    events = failures.events(store, config)
    found = failures.grouped(events, store, config)
    _require_failures(store, found, events, config)
    log.info("%d failures; making features", len(found))
    past, exclude = Past(found, events), config.features.exclude
    matrix = featurise.historic_matrix(store, config, past, exclude=exclude)
    if not matrix.X.shape[1]:
        raise UsageError("features.exclude leaves no column: name fewer, as ^phase\\.")
    heard = tuple(node for node in store.nodes() if store.log_days(node))
    counts: Counter[str] = Counter()
    lines = featurise.lines(store, config, matrix.windows, counts)
    log.info("%d windows of %d columns; log lines: %s", *matrix.X.shape, _counted(counts))
    began = known.began(store, matrix.windows, events, config.labels, to_nanoseconds(config.features.window.stride))
    return History(store, found, events, matrix, lines, heard, began, exclude)


def _counted(counts: Counter[str]) -> str:
    """Log lines by what became of them."""
    names = ("read", "target", "blank", "binary", "truncated", "flood")
    return ", ".join(f"{name} {counts[name]}" for name in names if counts[name] or name == "read")


def _require_failures(store: Store, found: pd.DataFrame, events: pd.DataFrame, config: Config) -> None:
    cure = "give known failures to 'foreshock ingest --incidents', or choose other XIDs by --preset"
    if found.empty:
        raise InputError(
            f"{store.path}: no failure to learn from: {len(events)} XID events, none of them a failure by preset "
            f"{config.labels.preset}; {cure}"
        )
    start, end = store.span()
    times = as_ns(found["time"])
    inside = int(((times > start) & (times <= end + to_nanoseconds(config.labels.horizon))).sum())
    if not inside:
        raise InputError(
            f"{store.path}: no failure to learn from: all {len(found)} lie outside the data "
            f"({to_time(start)} to {to_time(end)}); ingest the metrics around them"
        )
    if inside == 1:
        log.warning("one failure only: models that learn from failures can't be judged, and no figure means much")


def _crossfit(
    history: History, folds: Folds, names: tuple[str, ...], config: Config, others: Sequence[History]
) -> tuple[crossfit.Crossfit, report_evidence.Seen]:
    """Every window scored by models that saw neither it nor its failure; templates are mined in the block.

    Beside the scores what they were made by, for the explanations.
    """
    label, windows = history.label, history.matrix.windows
    lineups: dict[int, Lineup] = {}
    mined: list[Templates | None] = []
    told_by = np.zeros(len(windows), dtype=np.int64)

    def rows(learn: NDArray[np.int64]) -> tuple[pd.DataFrame, Callable[[NDArray[np.int64]], pd.DataFrame]]:
        templates = mine(history, learn, config)
        mined.append(templates)

        def ask(tell: NDArray[np.int64]) -> pd.DataFrame:
            told_by[tell] = len(mined) - 1
            return logged(history, tell, templates)

        return logged(history, learn, templates), ask

    def report(fold: Fold, lineup: Lineup) -> None:
        lineups[fold.number] = lineup
        log.info("fold %d of %d (%s)", fold.number + 1, len(folds), fold.name)

    more = elsewhere(others, config)
    fitted = crossfit.run(
        folds, rows, windows, label, names, config.models, began=history.began, also=more, report=report
    )
    return fitted, report_evidence.Seen(lineups, fitted.told.signs, tuple(mined), told_by)


def _evidence(
    history: History,
    champion: str,
    judged: dict[str, dict[str, Any]],
    fitted: crossfit.Crossfit,
    seen: report_evidence.Seen,
    usual: Usual,
    config: Config,
) -> dict[str, Any]:
    """The champion's alarms explained; their suspect GPUs go to its failures too."""
    own = fitted.predictions[fitted.predictions["model"] == champion].reset_index(drop=True)
    rows = partial(logged, history)
    found = report_evidence.gather(history, judged[champion], own, seen, usual, config, rows)
    for row, told in zip(judged[champion]["by_failure"], found["failures"], strict=True):
        if row["outcome"] != "missed":
            row["suspect_gpu"] = told["suspect_gpu"]
    return found


def mine(history: History, rows: NDArray[np.int64], config: Config) -> Templates | None:
    """Templates of the quiet among these rows; None without logs."""
    if history.lines.empty:
        return None
    quiet = history.matrix.windows.iloc[rows[history.label[rows] == 0]]
    return log_columns.learn(history.lines, quiet, config.features.templates) if len(quiet) else None


def logged(history: History, rows: NDArray[np.int64], templates: Templates | None) -> pd.DataFrame:
    """The matrix's rows, with log columns by these templates."""
    X, windows = history.matrix.X, history.matrix.windows.iloc[rows].reset_index(drop=True)
    told = pd.DataFrame(index=windows.index)
    if templates is not None:
        told = log_columns.columns(history.lines, windows, templates, history.heard)
        told = told[grammar.kept(told.columns, history.exclude)]
    width = X.shape[1]
    block = np.empty((len(rows), width + told.shape[1]), dtype=np.float32)
    values = X.to_numpy()
    for low in range(0, len(rows), _AT_ONCE):  # rows that lie in a file are read a few at a time
        block[low : low + _AT_ONCE, :width] = values[rows[low : low + _AT_ONCE]]
    block[:, width:] = told.to_numpy(dtype=np.float32)
    return pd.DataFrame(block, index=X.index[rows], columns=[*X.columns, *told.columns], copy=False)


def elsewhere(others: Sequence[History], config: Config) -> list[tuple[pd.DataFrame, NDArray[np.float32]]]:
    """Labelled rows of other clusters; their nodes are renamed, since two clusters may both have a node01."""
    found = []
    for number, other in enumerate(others):
        everything = Fold(0, "all", np.arange(len(other.label)), np.empty(0, dtype=np.int64))
        fold, _ = splits.sample_quiet(everything, other.label, config.models.quiet_windows, config.models.seed)
        X = logged(other, fold.train, mine(other, fold.train, config))
        names = [f"{number}/{node}" for node in X.index.get_level_values(0)]
        X.index = pd.MultiIndex.from_arrays([names, X.index.get_level_values(1)], names=X.index.names)
        found.append((X, other.label[fold.train]))
    return found


def judge(predictions: pd.DataFrame, history: History, config: Config) -> dict[str, dict[str, Any]]:
    """Each model's figures by its name, in the order they were asked for."""
    windows = history.matrix.windows
    return {
        str(name): evaluation.judge(of_model, history.failures, windows, config.labels, config.evaluation)
        for name, of_model in predictions.groupby("model", sort=False)
    }


def beside(history: History, champion: str, fitted: crossfit.Crossfit, config: Config) -> dict[str, dict[str, Any]]:
    """The champion and the baselines judged by the other protocols, by their names."""

    def rows(learn: NDArray[np.int64]) -> tuple[pd.DataFrame, Callable[[NDArray[np.int64]], pd.DataFrame]]:
        templates = mine(history, learn, config)
        return logged(history, learn, templates), lambda tell: logged(history, tell, templates)

    asked = protocols.Ask(
        tuple(dict.fromkeys((champion, *(name for name in NAMES if name in BASELINES)))),
        history.matrix.windows,
        history.failures,
        history.label,
        history.began,
        fitted.told,
        rows,
        fitted.others,
    )
    out: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(config.evaluation.protocols):
        out[name] = protocols.judge(name, asked, config.labels, config.evaluation, config.models)
        log.info("%s: %s", protocols.WORDS[name], out[name]["why_not"] or protocols.brief(out[name]["models"]))
    return out


def _best(judged: dict[str, dict[str, Any]], skipped: dict[str, str], config: Config) -> dict[str, Any]:
    """The champion and the verdict on it; a baseline is never one."""
    tried = len(judged.keys() - BASELINES)
    if not tried:
        why = "; ".join(f"{name}: {said}" for name, said in skipped.items())
        raise InputError(f"none of the models asked for could be judged ({why}); name others by --models")
    return choice.compare(choice.affordable(judged, BASELINES, config.evaluation.budget_per_day), BASELINES, tried)


def freeze(
    history: History,
    champion: str,
    judged: dict[str, dict[str, Any]],
    fitted: crossfit.Crossfit,
    config: Config,
) -> Frozen:
    """The models fitted on everything, with the threshold the judging found."""
    label = history.label
    everything = Fold(0, "all", np.arange(len(label)), np.empty(0, dtype=np.int64))
    fold, weight = splits.sample_quiet(everything, label, config.models.quiet_windows, config.models.seed)
    templates = mine(history, fold.train, config)
    X, y = logged(history, fold.train, templates), label[fold.train]
    usual = Usual.of(X[y == 0])
    told = Told(fitted.told.signs.rows(fold.train), fitted.told.tails)
    lineup = Lineup((champion,), config.models).fit(X, y, weight, told, fitted.others)
    scores = fitted.predictions.loc[fitted.predictions["model"] == champion, "score"]
    store = history.store
    return Frozen(
        lineup=lineup,
        usual=usual,
        templates=templates,
        gpus=store.gpus(),
        features=config.features,
        labels=config.labels,
        ingest=config.ingest,
        champion=champion,
        threshold=float(judged[champion]["threshold"]),
        nodes=tuple(store.nodes()),
        heard=history.heard,
        metrics=experiment.metric_names(store),
        step_ns=store.step_ns,
        quantiles=tuple(np.quantile(scores, np.linspace(0, 1, 101)).tolist()),
    )


def _report(
    history: History, judged: dict[str, dict[str, Any]], champion: str, best: dict[str, Any], config: Config
) -> dict[str, Any]:
    start, end = history.store.span()
    found = judged[champion]
    return {
        "failures": len(history.failures),
        "monitored_days": found["monitored_days"],
        "budget_per_day": config.evaluation.budget_per_day,
        "models": judged,
        "champion": champion,
        "registered": None,
        "verdict": best["verdict"],
        "reason": best["reason"],
        "mcnemar": best["mcnemar"],
        "start": to_time(start).isoformat(),
        "end": to_time(end).isoformat(),
        "windows": len(history.matrix.windows),
        "columns": history.matrix.X.shape[1],
        "exclude": list(history.exclude),
        made_up.KEY: made_up.words(history.store),
    }


def _skipped(fitted: crossfit.Crossfit) -> dict[str, str]:
    """Model to why it was not judged."""
    return {name: why for (_, name), why in fitted.skipped.items()}


def _keep(
    run: Run, tracker: Tracker, frozen: Frozen, report: dict[str, Any], config: Config, *, register: bool
) -> str | None:
    """Write the bundle into the run, and register it."""
    training = {key: report[key] for key in ("start", "end", "failures", "windows", "run_id")}
    facts, states, files = frozen.contents({"training": training})
    with tempfile.TemporaryDirectory() as folder:
        digest = bundle.write(Path(folder) / BUNDLE, facts, states, files)
        run.folder(Path(folder) / BUNDLE, BUNDLE)
    run.log(tags={"bundle_sha256": digest})
    if not register:
        return None
    return tracker.register(run, BUNDLE, config.tracking.registered_model, digest).uri


def _run_name(history: History) -> str:
    return f"train {history.store.path.resolve().name}"
