"""What a training keeps so that a report can be made of it later: each failure and each false alarm, explained.

An alarm is explained by the line-up and the templates of its own fold: what decided is what explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue, log_columns, phase, presence
from features import matrix as roof
from features.settings import to_nanoseconds
from features.templates import Templates
from features.windows import as_ns
from models import evaluation
from models.lineup import Lineup
from models.telling import Signs
from pipelines import report_nodes, report_quality, verdicts, wording
from pipelines.config import Config
from pipelines.frozen import Usual

if TYPE_CHECKING:
    from pipelines.train import History

MOST_FAILURES, MOST_ALARMS = 60, 60  # explained; a report of more is not read
_PEERS = 64  # nodes of the same moment that a value is compared with

Places = NDArray[np.int64]
Rows = Callable[[Places, Templates | None], pd.DataFrame]  # the matrix's rows with log columns by these templates


class Seen(NamedTuple):
    """What scores were made by."""

    lineups: Mapping[int, Lineup]  # by fold
    signs: Signs  # of every window
    templates: Sequence[Templates | None]
    told_by: Places  # [windows], place among the templates


def gather(
    history: History,
    judged: Mapping[str, Any],
    predictions: pd.DataFrame,
    seen: Seen,
    usual: Usual,
    config: Config,
    rows: Rows,
) -> dict[str, Any]:
    """Failures, false alarms, nodes and data quality, ready for JSON.

    Parameters
    ----------
    judged, predictions
        The champion's figures and `PREDICTIONS`.
    seen
        What the scores were made by.
    usual
        What the reasons compare with.
    """
    truth = evaluation.judged_failures(predictions, history.failures, config.labels)
    windows = history.matrix.windows
    length = int((as_ns(windows["end"]) - as_ns(windows["start"])).max())
    ground = evaluation.survey(predictions, truth, length, config.labels)
    table = _table(predictions, ground, judged, windows)
    false = _false_alarms(table, ground, to_nanoseconds(config.evaluation.merge))
    chosen = [_telling_row(table, number) for number in range(len(truth.table))]
    wanted = [row for row in chosen[:MOST_FAILURES] if row is not None] + [row for row, *_ in false[:MOST_ALARMS]]
    explained = _explain(history, table, wanted, seen, usual, config, rows)
    alarms = [_alarm(table, row, last, cost, explained.get(row)) for row, last, cost in false]
    failures = [
        _failure(truth, number, judged, table, explained.get(row) if row is not None else None, config)
        for number, row in enumerate(chosen)
    ]
    return {
        "failures": failures,
        "false_alarms": alarms,
        "causes": causes(alarms),
        "nodes": report_nodes.by_risk(history.failures, table, alarms, windows),
        "quality": report_quality.measure(history.store, history.matrix),
        "horizon_minutes": config.labels.horizon.total_seconds() / 60,
        "window_minutes": config.features.window.length.total_seconds() / 60,
        "gap_minutes": config.labels.gap.total_seconds() / 60,
        "preset": config.labels.preset,
    }


def _table(
    predictions: pd.DataFrame, ground: evaluation.Ground, judged: Mapping[str, Any], windows: pd.DataFrame
) -> pd.DataFrame:
    """The scored windows by node and end, with zone, failure, threshold, alarm, and their place in the matrix."""
    table = predictions.iloc[ground.order].reset_index(drop=True)
    levels: dict[int, float] = judged["thresholds"]
    table["threshold"] = table["fold"].map(levels).fillna(judged["threshold"])
    table["zone"], table["failure"] = ground.zone, ground.failure
    table["alarm"] = table["score"] > table["threshold"]
    table["place"] = pd.Index(windows["window"]).get_indexer(pd.Index(table["window"]))
    return table


def _false_alarms(table: pd.DataFrame, ground: evaluation.Ground, merge: int) -> list[tuple[int, int, int]]:
    """Episodes that cost something: the row that shows it best, the last row, and the cost; the dearest first."""
    rows = np.flatnonzero(table["alarm"].to_numpy())
    if not len(rows):
        return []
    apart = (np.diff(ground.node[rows]) != 0) | (np.diff(ground.end[rows]) > merge)
    score = table["score"].to_numpy()
    out = []
    for part in np.split(rows, np.flatnonzero(apart) + 1):
        cost = evaluation.false_alarms(ground, part, merge)
        quiet = part[evaluation.charged(ground, part, np.zeros(len(part), dtype=np.int64))]
        if cost and len(quiet):
            out.append((int(quiet[np.argmax(score[quiet])]), int(quiet[-1]), cost))
    return sorted(out, key=lambda one: (-one[2], -score[one[0]], one[0]))


def _telling_row(table: pd.DataFrame, number: int) -> int | None:
    """The row that a failure's story is told by: its first alarm before, else at, else its highest score."""
    own = table[table["failure"] == number]
    if own.empty:
        return None
    alarms = own[own["alarm"]].sort_values("end", kind="stable")
    before = alarms[alarms["zone"] == evaluation.BEFORE]
    first = before if len(before) else alarms
    return int(first.index.to_numpy()[0]) if len(first) else int(own.index.to_numpy()[own["score"].to_numpy().argmax()])


def _explain(
    history: History,
    table: pd.DataFrame,
    wanted: Iterable[int],
    seen: Seen,
    usual: Usual,
    config: Config,
    rows: Rows,
) -> dict[int, dict[str, Any]]:
    """For each of these rows of the table reasons, suspect GPU, phase and log lines."""
    windows, champion = history.matrix.windows, str(table["model"].iloc[0]) if len(table) else ""
    ends, stride = as_ns(windows["end"]), to_nanoseconds(config.features.window.stride)
    node = windows["node"].to_numpy(dtype=object)
    out: dict[int, dict[str, Any]] = {}
    asked = table.loc[list(dict.fromkeys(wanted))]
    blocks = seen.told_by[asked["place"].to_numpy()]
    for fold, block in sorted(set(zip(asked["fold"].tolist(), blocks.tolist(), strict=True))):
        part = asked[(asked["fold"] == fold).to_numpy() & (blocks == block)]
        lineup, templates = seen.lineups[fold], seen.templates[block]
        near = np.zeros(len(windows), dtype=bool)
        for place in part["place"]:
            own = node == node[place]
            near |= own & (ends <= ends[place]) & (ends > ends[place] - verdicts.CONTEXT * stride)
            near[np.flatnonzero((ends == ends[place]) & ~own)[:_PEERS]] = True
        places = np.flatnonzero(near)
        X = rows(places, templates)
        columns = [str(name) for name in X.columns]
        reasons = lineup.explain_told(champion, seen.signs.rows(places), columns, began=history.began[places])
        for row, place in zip(part.index.to_numpy(), part["place"].to_numpy(), strict=True):
            at = int(np.searchsorted(places, place))
            said = wording.telling(verdicts.reason(usual, X, at, column, effect) for column, effect in reasons[at])
            out[int(row)] = {
                "reasons": said,
                "suspect_gpu": _suspect(history, str(node[place]), said, int(ends[place]), config),
                "phase": _phase(X, at),
                "lines": _lines(history, windows.iloc[[place]], templates),
            }
    return out


def _suspect(history: History, node: str, reasons: list[dict[str, Any]], end: int, config: Config) -> str:
    columns = [reason["feature"] for reason in reasons if reason["value"] is not None]
    if not columns:
        return ""
    store, settings = history.store, config.features
    panel = store.panel(node, end - roof.reach(settings), end)
    known = presence.roster(store.gpus(), node)
    for column in columns:
        found = roof.suspect(panel, column, end, settings=settings, known=known, step_ns=store.step_ns)
        if found:
            return found
    return ""


def _phase(X: pd.DataFrame, at: int) -> str:
    column = phase.COLUMNS[0]
    value = X[column].iloc[at] if column in X.columns else np.nan
    return phase.STATES[int(value)] if np.isfinite(value) and 0 <= int(value) < len(phase.STATES) else "unknown"


def _lines(history: History, window: pd.DataFrame, templates: Templates | None) -> list[dict[str, Any]]:
    if templates is None or history.lines.empty:
        return []
    return [telling._asdict() for telling in log_columns.top(history.lines, window, templates)]


def _alarm(table: pd.DataFrame, row: int, last: int, cost: int, explained: Mapping[str, Any] | None) -> dict[str, Any]:
    at = table.iloc[row].to_dict()
    return {
        "node": str(at["node"]),
        "time": at["end"].isoformat(),
        "last": table["end"].iloc[last].isoformat(),
        "score": float(at["score"]),
        "threshold": float(at["threshold"]),
        "cost": cost,
        **(explained or _NOTHING),
    }


_NOTHING: dict[str, Any] = {"reasons": [], "suspect_gpu": "", "phase": "unknown", "lines": []}


def _failure(
    truth: evaluation.Truth,
    number: int,
    judged: Mapping[str, Any],
    table: pd.DataFrame,
    explained: Mapping[str, Any] | None,
    config: Config,
) -> dict[str, Any]:
    row = truth.table.iloc[number].to_dict()
    around = 3 * config.labels.horizon
    near = table[(table["node"] == row["node"]) & ((table["end"] - row["time"]).abs() <= around)]
    minutes = (near["end"] - row["time"]).dt.total_seconds() / 60
    code = None if pd.isna(row["xid"]) else int(row["xid"])
    known = catalogue.lookup(code, config.labels)
    return {
        **judged["by_failure"][number],
        "kind": str(row["kind"]),
        "xids": [int(one) for one in row["xids"]],
        "nodes": [str(name) for name in row["nodes"]],
        "gpu": str(row["gpu"]),
        "pci": str(row["pci"]),
        "evidence": str(row["evidence"])[:400],
        "meaning": "" if known is None else known.meaning,
        "action": str(row["recovery_action"]) or catalogue.action(code, config.labels),
        "threshold": float(near["threshold"].iloc[-1]) if len(near) else judged["threshold"],
        "points": [[round(float(m), 2), round(float(s), 5)] for m, s in zip(minutes, near["score"], strict=True)],
        **(explained or _NOTHING),
    }


def causes(alarms: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """False alarms counted by what drove them most and by what the node was doing, the most frequent first."""
    found: dict[tuple[str, str], int] = {}
    for alarm in alarms:
        first = alarm["reasons"][0]["feature"] if alarm["reasons"] else ""
        cause = wording.described(first) if first else "not explained"
        key = (cause, alarm["phase"])
        found[key] = found.get(key, 0) + alarm["cost"]
    ranked = sorted(found.items(), key=lambda one: (-one[1], one[0]))
    return [{"cause": cause, "phase": doing, "count": count} for (cause, doing), count in ranked]
