"""Samples to rows to committed verdicts: the part of the job that needs the models.

It is imported while a server works at the answer: numba, SciPy and scikit-learn take seconds to load.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import numpy as np
import pandas as pd

from features import history, log_columns, presence
from features import matrix as roof
from features.masking import lines_table
from features.settings import to_nanoseconds
from features.tables import Matrix, to_time
from features.windows import as_ns
from pipelines import featurise, paging, verdicts
from pipelines.asking import Asked, Source, with_context
from pipelines.config import Config
from pipelines.frozen import Frozen
from pipelines.sources import Moment, take, watch_key
from pipelines.state import State
from pipelines.watch import Watch


def judge_new(
    state: State,
    source: Source,
    frozen: Frozen,
    config: Config,
    name: str,
    new: Sequence[int],
    under_way: Asked | None = None,
) -> None:
    """Judge and commit window ends that were not, all of them from what was asked for at once."""
    ends = with_context(new, to_nanoseconds(config.features.window.stride))
    remembered = state.memory()
    watch = None if remembered is None else Watch.from_bytes(remembered, watch_key(source, frozen))
    moment = take(source, frozen, config, ends, watch, under_way)
    found = judge(moment, frozen, config, ends, min(new))
    if watch is None or moment.watch.upto >= watch.upto:
        moment.watch.trim()
        remembered = moment.watch.to_bytes()
    facts = {"rejected": dict(moment.rejected), **metrics_of(moment, frozen)}
    for end in new:
        newest_known = state.last()
        alerts = None
        if newest_known is None or end > newest_known:  # a window of the past pages no one
            alerts = paging.advance(
                state.alerts(), found[end], end, config.scoring, state.silenced(end), early=config.labels.early
            )
        state.commit(end, name, found[end], alerts, remembered, facts)


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
        told[rows] = history.columns(matrix.windows.iloc[rows], past.failures, past.events).to_numpy()
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
        events = moment.past.hard(end)
        own = events[(events["node"] == node) & (events["time"] < to_time(end))]
        codes = own.sort_values("time")["xid"].dropna()
        return int(codes.iloc[-1]) if len(codes) else None

    return verdicts.Witness(suspect, lines, begun)


def metrics_of(moment: Moment, frozen: Frozen) -> dict[str, Any]:
    """Which metrics of the training no node has any more, and which none had then."""
    seen = {series.metric.partition("{")[0] for panel in moment.panels.values() for series in panel.series}
    return {"metrics_missing": sorted(set(frozen.metrics) - seen), "metrics_new": sorted(seen - set(frozen.metrics))}
