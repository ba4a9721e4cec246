"""``foreshock score``: the batch job. One run judges one window end of every node, and pages at most once for it."""

from __future__ import annotations

import gc
import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from features.settings import format_duration, to_nanoseconds
from features.tables import ForeshockError, UpstreamError, UsageError, to_ns, to_time
from features.windows import latest_end
from models import bundle
from models.bundle import Sealed
from models.tracking import Tracker
from pipelines import paging
from pipelines.asking import Source, asked
from pipelines.config import Config
from pipelines.frozen import Frozen, Terms, terms, thaw
from pipelines.state import State, locked
from pipelines.store import Store

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


def seal(model: str, bundle_dir: Path | None, tracking_uri: str) -> tuple[Sealed, str]:
    """The checked bundle and what it is called.

    Raises
    ------
    ModelError
        There is no such model, or its bundle is damaged.
    UpstreamError
        MLflow can't be reached.
    """
    if bundle_dir is not None:
        sealed = bundle.seal(bundle_dir)
        return sealed, f"bundle:{sealed.digest[:12]}"
    tracker = Tracker(tracking_uri)
    found = tracker.find(model)
    with tempfile.TemporaryDirectory() as folder:
        return bundle.seal(tracker.download(found, Path(folder)), found.digest), found.uri


def load(model: str, bundle_dir: Path | None, tracking_uri: str) -> tuple[Frozen, str]:
    """The frozen models and what they are called; errors are those of `seal`."""
    sealed, name = seal(model, bundle_dir, tracking_uri)
    return thaw(sealed.open()), name


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
        sealed, name = seal(model, bundle_dir, tracking_uri or config.tracking.uri)
        about = terms(sealed.facts, sealed.digest)
        settings = about.configure(config)
        _forget_what_is_to_come(state, settings)
        ends = due(state, source, settings, name, at)
        new = [end for end in ends if state.rows(end, name) is None]  # rows once committed stay as they are
        if new:
            _judge(state, source, sealed, settings, name, new)
        report = _report(state, about, name, ends, settings)
        report |= {"finished_seconds": time.time(), "duration_seconds": time.monotonic() - began}
        _deliver(state, report, ends[-1], settings, out, where)
    return report


def _forget_what_is_to_come(state: State, config: Config) -> None:
    if count := state.forget_after(_latest(config)):
        log.warning(
            "forgot %d windows that end after the present: a clock ran ahead when they were scored; alerts move again",
            count,
        )


def _latest(config: Config) -> int:
    """A stride from now [ns]: clocks of a job's machines may differ that much."""
    return now_ns() + to_nanoseconds(config.features.window.stride)


def _judge(state: State, source: Source, sealed: Sealed, config: Config, name: str, new: Sequence[int]) -> None:
    """Ask the server first, and load what judges its answer while it works."""
    with asked(source, terms(sealed.facts, sealed.digest), new) as under_way, _at_rest():
        from pipelines import judging  # noqa: PLC0415  # it loads for seconds

        judging.judge_new(state, source, thaw(sealed.open()), config, name, new, under_way)


@contextmanager
def _at_rest() -> Iterator[None]:
    """Keep the garbage collector from walking libraries and a hundred thousand series again and again."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def newest(source: Source, now_ns: int) -> int:
    """Up to when there are data [ns]: a store's end, or for a server the present."""
    return now_ns if source.store is None else min(Store.open(source.store).span()[1], now_ns)


def due(state: State, source: Source, config: Config, name: str, at: pd.Timestamp | None) -> list[int]:
    """Window ends to judge, ascending: the asked one, or the newest with those missed before it.

    Raises
    ------
    UsageError
        The asked one is not over yet.
    """
    stride = to_nanoseconds(config.features.window.stride)
    if at is not None:
        if to_ns(at) > _latest(config):
            raise UsageError(
                f"--at {at.isoformat()} is still to come (now {to_time(now_ns()).isoformat()}); mind its zone"
            )
        return [latest_end(to_ns(at), config.features.window)]
    last = latest_end(newest(source, now_ns()), config.features.window)
    before = state.last(name)
    if before is None or before >= last:
        return [last]
    missed = min((last - before) // stride, config.scoring.late_windows)
    return [last - stride * back for back in range(missed - 1, -1, -1)]


def _report(state: State, about: Terms, name: str, ends: Sequence[int], config: Config) -> dict[str, Any]:
    rows, facts = state.rows(ends[-1], name) or [], state.facts(ends[-1], name)
    alerts = [one for one in state.alerts().values() if not one.end or one.end >= ends[-1]]
    suspect = paging.is_fleet_wide(rows, config.scoring)
    return {
        "window_end": paging.text(ends[-1]),
        "model": name,
        "digest": about.digest,
        "horizon": format_duration(about.labels.horizon),
        "scores": rows,
        "alerts": [one.report() for one in alerts],
        "caught_up": [paging.text(end) for end in ends[:-1]],
        "suspect": suspect,
        "drift": drift(about, rows, facts),
        "notices": notices(facts, suspect=suspect),
        "rejected": facts.get("rejected", {}),
    }


def drift(about: Terms, rows: Sequence[dict[str, Any]], facts: dict[str, Any]) -> dict[str, float]:
    """How this window's scores, columns, metrics and lines stand to the training's; shares from 0 to 1."""
    scores = [row["probability"] for row in rows if row["probability"] is not None]
    metrics, lines = max(1, len(about.metrics)), sum(row.get("lines", 0) for row in rows)
    out = {
        "features_missing_ratio": float(np.mean([row["missing_ratio"] for row in rows])) if rows else 0.0,
        "unscored_ratio": 1 - len(scores) / len(rows) if rows else 0.0,
        "metrics_missing_ratio": len(facts.get("metrics_missing", ())) / metrics,
        "metrics_new_ratio": len(facts.get("metrics_new", ())) / metrics,
        "unknown_templates_ratio": sum(row.get("unknown_lines", 0) for row in rows) / lines if lines else 0.0,
    }
    if scores:
        levels = np.searchsorted(about.quantiles, np.asarray(scores)) / (len(about.quantiles) - 1)
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
        found.append(
            "too much of the fleet is over the threshold at once: the model is suspect, and only nodes page of which a "
            "failure has begun"
        )
    return found


def _deliver(state: State, report: dict[str, Any], end: int, config: Config, out: Path, where: Outlets) -> None:
    """Files, then pages, then the receipt; what can't be written or reached keeps no other from what it should get."""
    from pipelines.writers import alertmanager, jsonlines, pushgateway, textfile  # noqa: PLC0415  # not before the pull
    from pipelines.writers import history as history_files  # noqa: PLC0415  # as above

    errors: list[ForeshockError] = []
    with _kept(errors):
        jsonlines.write(out / "scores", paging.stamp(end), report["scores"])
    if where.textfile is not None:
        with _kept(errors):
            textfile.write(where.textfile, report)
    with _kept(errors):
        history_files.write(out / "scores", out / "history", end)
    if where.send and where.alertmanager and end == state.last():
        told = state.unsent() if _is_new(end, config) else []
        stride, now = to_nanoseconds(config.features.window.stride), max(end, now_ns())  # a clock may be behind
        with _kept(errors):
            alertmanager.send(where.alertmanager, [one.report() for one in told], now, stride)
            state.sent(told)
    if where.pushgateway:
        with _kept(errors):
            pushgateway.push(where.pushgateway, report)
    if errors:
        kind = UpstreamError if all(isinstance(error, UpstreamError) for error in errors) else ForeshockError
        raise kind("; ".join(str(error) for error in errors))


@contextmanager
def _kept(errors: list[ForeshockError]) -> Iterator[None]:
    """Keep an outlet's error until the others have theirs."""
    try:
        yield
    except ForeshockError as error:
        errors.append(error)


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
