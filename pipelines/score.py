"""``foreshock score``: the batch job. One run judges one window end of every node, and pages at most once for it."""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features import history, log_columns, presence
from features import matrix as roof
from features.masking import lines_table
from features.settings import format_duration, to_nanoseconds
from features.tables import Matrix, UpstreamError, UsageError, to_ns, to_time
from features.windows import as_ns, latest_end
from models import bundle
from models.tracking import Tracker
from pipelines import featurise, paging, verdicts
from pipelines.config import Config
from pipelines.frozen import Frozen, thaw
from pipelines.sources import Moment, Source, newest, take, watch_key
from pipelines.state import State, locked
from pipelines.watch import Watch
from pipelines.writers import alertmanager, jsonlines, pushgateway, textfile
from pipelines.writers import history as history_files

__all__ = ["Outlets", "Source", "load", "score"]

log = logging.getLogger(__name__)

_MINUTE = 60_000_000_000


@dataclass(frozen=True)
class Outlets:
    """Where a window's scores go beside the output folder; ``send`` lets alerts page."""

    textfile: Path | None = None
    pushgateway: str | None = None
    alertmanager: str | None = None
    send: bool = False


def load(model: str, bundle_dir: Path | None, tracking_uri: str) -> tuple[Frozen, str]:
    """The frozen models and what they are called.

    Raises
    ------
    ModelError
        There is no such model, or its bundle is damaged.
    UpstreamError
        MLflow can't be reached.
    """
    if bundle_dir is not None:
        frozen = thaw(bundle.read(bundle_dir))
        return frozen, f"bundle:{frozen.digest[:12]}"
    tracker = Tracker(tracking_uri)
    found = tracker.find(model)
    with tempfile.TemporaryDirectory() as folder:
        return thaw(bundle.read(tracker.download(found, Path(folder)), found.digest)), found.uri


def score(
    source: Source,
    config: Config,
    *,
    out: Path,
    at: pd.Timestamp | None = None,
    model: str = "models:/foreshock@champion",
    bundle_dir: Path | None = None,
    tracking_uri: str = "",
    outlets: Outlets | None = None,
) -> dict[str, Any]:
    """Judge a window; gives the command's JSON.

    Without ``at`` it is the newest whole one, and up to ``late_windows`` that were missed before it. Committed in the
    order scores, files, pages, receipt: a run killed anywhere is completed by the next.

    Raises
    ------
    BusyError
        Another run works in ``out``.
    """
    began = time.monotonic()
    where = outlets or Outlets()
    if where.send and not where.alertmanager:
        raise UsageError("--send needs --alertmanager URL")
    with locked(out), State.open(out) as state:
        frozen, name = load(model, bundle_dir, tracking_uri or config.tracking.uri)
        settings = frozen.configure(config)
        ends = due(state, source, settings, name, at)
        _judge_missing(state, source, frozen, settings, name, ends)
        report = _report(state, frozen, name, ends, settings)
        report |= {"finished_seconds": time.time(), "duration_seconds": time.monotonic() - began}
        _deliver(state, report, ends[-1], settings, out, where)
    return report


def due(state: State, source: Source, config: Config, name: str, at: pd.Timestamp | None) -> list[int]:
    """Window ends to judge, ascending: the asked one, or the newest with those missed before it."""
    stride = to_nanoseconds(config.features.window.stride)
    if at is not None:
        return [latest_end(to_ns(at), config.features.window)]
    last = latest_end(newest(source, now_ns()), config.features.window)
    before = state.last(name)
    if before is None or before >= last:
        return [last]
    missed = min((last - before) // stride, config.scoring.late_windows)
    return [last - stride * back for back in range(missed - 1, -1, -1)]


def _judge_missing(
    state: State, source: Source, frozen: Frozen, config: Config, name: str, ends: Sequence[int]
) -> None:
    """Judge and commit the ends that were not; rows once committed stay as they are."""
    new = [end for end in ends if state.rows(end, name) is None]
    if not new:
        return
    stride = to_nanoseconds(config.features.window.stride)
    context = [min(new) - stride * back for back in range(verdicts.CONTEXT, 0, -1)]
    remembered = state.memory()
    watch = None if remembered is None else Watch.from_bytes(remembered, watch_key(source, frozen))
    with _at_rest():
        moment = take(source, frozen, config, [*context, *new], watch)
        found = judge(moment, frozen, config, [*context, *new], min(new))
    if watch is None or moment.watch.upto >= watch.upto:
        moment.watch.trim()
        remembered = moment.watch.to_bytes()
    facts = {"rejected": dict(moment.rejected), **metrics_of(moment, frozen)}
    for end in new:
        newest_known = state.last()
        alerts = None
        if newest_known is None or end > newest_known:  # a window of the past pages no one
            alerts = paging.advance(state.alerts(), found[end], end, config.scoring, state.silenced(end))
        state.commit(end, name, found[end], alerts, remembered, facts)


@contextmanager
def _at_rest() -> Iterator[None]:
    """Keep the garbage collector from walking a window's hundred thousand series again and again; none is garbage."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def judge(
    moment: Moment, frozen: Frozen, config: Config, ends: Sequence[int], from_ns: int
) -> dict[int, list[dict[str, Any]]]:
    """Rows to report by window end; the one way of the live job and of `pipelines.backtest`."""
    matrix = rows_of(moment, frozen, config, ends)
    began = moment.past.began(matrix.windows, to_nanoseconds(config.features.window.stride))
    return verdicts.judge(frozen, matrix, began, config.scoring, witness(moment, frozen), from_ns)


def rows_of(moment: Moment, frozen: Frozen, config: Config, ends: Sequence[int]) -> Matrix:
    """The windows' rows, by the rooms that made the training's; each knows what was known at its end."""
    matrix = featurise.live_matrix(
        moment.panels,
        moment.logs,
        featurise.nothing_past(),
        ends,
        config,
        step_ns=moment.step_ns,
        templates=frozen.templates,
        gpus=moment.gpus,
        nodes=moment.nodes,
        heard=moment.heard,
    )
    at = as_ns(matrix.windows["end"])
    told = np.empty((len(at), len(history.COLUMNS)), dtype=np.float32)
    for _, known in groupby(sorted(ends), key=lambda end: id(moment.past.at(end))):
        held = list(known)
        rows, past = np.flatnonzero(np.isin(at, held)), moment.past.at(held[-1])
        told[rows] = history.columns(matrix.windows.iloc[rows], past.failures, past.events, past.sessions).to_numpy()
    X = matrix.X.assign(**{name: told[:, place] for place, name in enumerate(history.COLUMNS)})
    return Matrix(matrix.windows, X, matrix.labels)


def witness(moment: Moment, frozen: Frozen) -> verdicts.Witness:
    """What the samples, lines and events at hand say."""
    length = to_nanoseconds(frozen.features.window.length)

    def suspect(node: str, column: str, end: int) -> str:
        panel = moment.panels.get(node)
        if panel is None:
            return ""
        known = presence.roster(moment.gpus, node)
        return roof.suspect(panel, column, end, settings=frozen.features, known=known, step_ns=moment.step_ns)

    def lines(node: str, end: int) -> list[log_columns.Telling]:
        if frozen.templates is None:
            return []
        low, high = to_time(end - length), to_time(end)
        own = moment.logs[(moment.logs["node"] == node) & (moment.logs["time"] >= low) & (moment.logs["time"] < high)]
        window = pd.DataFrame({"window": [0], "node": [node], "start": [low], "end": [high]})
        table = lines_table(own, frozen.features.templates).table
        return log_columns.top(table, window, frozen.templates, most=2)

    def begun(node: str, end: int) -> int | None:
        events = moment.past.at(end).events
        own = events[(events["node"] == node) & (events["kind"] == "hardware") & (events["time"] < to_time(end))]
        codes = own.sort_values("time")["xid"].dropna()
        return int(codes.iloc[-1]) if len(codes) else None

    return verdicts.Witness(suspect, lines, begun)


def metrics_of(moment: Moment, frozen: Frozen) -> dict[str, Any]:
    """Which metrics of the training no node has any more, and which none had then."""
    seen = {series.metric.partition("{")[0] for panel in moment.panels.values() for series in panel.series}
    return {"metrics_missing": sorted(set(frozen.metrics) - seen), "metrics_new": sorted(seen - set(frozen.metrics))}


def _report(state: State, frozen: Frozen, name: str, ends: Sequence[int], config: Config) -> dict[str, Any]:
    rows, facts = state.rows(ends[-1], name) or [], state.facts(ends[-1], name)
    alerts = [one for one in state.alerts().values() if not one.end or one.end >= ends[-1]]
    suspect = paging.is_fleet_wide(rows, config.scoring)
    return {
        "window_end": paging.text(ends[-1]),
        "model": name,
        "digest": frozen.digest,
        "horizon": format_duration(frozen.labels.horizon),
        "scores": rows,
        "alerts": [one.report() for one in alerts],
        "caught_up": [paging.text(end) for end in ends[:-1]],
        "suspect": suspect,
        "drift": drift(frozen, rows, facts),
        "notices": notices(facts, suspect=suspect),
        "rejected": facts.get("rejected", {}),
    }


def drift(frozen: Frozen, rows: Sequence[dict[str, Any]], facts: dict[str, Any]) -> dict[str, float]:
    """How this window's scores, columns, metrics and lines stand to the training's; shares from 0 to 1."""
    scores = [row["probability"] for row in rows if row["probability"] is not None]
    metrics, lines = max(1, len(frozen.metrics)), sum(row.get("lines", 0) for row in rows)
    out = {
        "features_missing_ratio": float(np.mean([row["missing_ratio"] for row in rows])) if rows else 0.0,
        "unscored_ratio": 1 - len(scores) / len(rows) if rows else 0.0,
        "metrics_missing_ratio": len(facts.get("metrics_missing", ())) / metrics,
        "metrics_new_ratio": len(facts.get("metrics_new", ())) / metrics,
        "unknown_templates_ratio": sum(row.get("unknown_lines", 0) for row in rows) / lines if lines else 0.0,
    }
    if scores:
        levels = np.searchsorted(frozen.quantiles, np.asarray(scores)) / (len(frozen.quantiles) - 1)
        out["score_quantile_mean"] = float(np.clip(levels, 0, 1).mean())  # 0.5 where nothing has changed
        out["score_high_ratio"] = float((levels >= 0.99).mean())  # of training's scores 1 % are as high
    return out


def notices(facts: dict[str, Any], *, suspect: bool) -> list[str]:
    """What an operator should know of this window beside its scores, once for the cluster."""
    found = []
    for key, what in (
        ("metrics_missing", "of the training are on no node any more (an exporter's upgrade?)"),
        ("metrics_new", "were on no node in training, and are not looked at"),
    ):
        if some := facts.get(key, []):
            found.append(
                f"{len(some)} metrics {what}: {', '.join(some[:5])}{', ...' if len(some) > 5 else ''}; train again"
            )
    if suspect:
        found.append("too much of the fleet is over the threshold at once: the model is suspect, and no node pages")
    return found


def _deliver(state: State, report: dict[str, Any], end: int, config: Config, out: Path, where: Outlets) -> None:
    """Files, then pages, then the receipt; an outlet that is down keeps no other from what it should get."""
    stride = to_nanoseconds(config.features.window.stride)
    jsonlines.write(out / "scores", paging.stamp(end), report["scores"])
    if where.textfile is not None:
        textfile.write(where.textfile, report)
    history_files.write(out / "scores", out / "history", end)
    errors: list[UpstreamError] = []
    if where.send and where.alertmanager and end == state.last():
        told = state.unsent() if _is_new(end, config) else []
        try:
            alertmanager.send(where.alertmanager, [one.report() for one in told], end, stride)
            state.sent(told)
        except UpstreamError as error:
            errors.append(error)
    if where.pushgateway:
        try:
            pushgateway.push(where.pushgateway, report)
        except UpstreamError as error:
            errors.append(error)
    if errors:
        raise UpstreamError("; ".join(str(error) for error in errors))


def _is_new(end: int, config: Config) -> bool:
    """Whether a window still says something of the future: one older than the horizon pages no one."""
    late = now_ns() - end
    if late > to_nanoseconds(config.labels.horizon):
        log.warning(
            "the window ended %d minutes ago: it is older than the horizon, and no one is paged", late // _MINUTE
        )
        return False
    return True


def now_ns() -> int:
    """The clock."""
    return time.time_ns()
