"""From a window's rows to what is said of each node: score, alarm, status, suspect GPU, reasons in words.

The live job and `pipelines.backtest` call this one function, so they can't disagree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue, log_columns, names
from features.settings import LabelSettings, to_nanoseconds
from features.tables import Matrix
from features.windows import as_ns
from models import rules
from models.lineup import LOOK_BACK
from models.telling import Signs
from pipelines import wording
from pipelines.config import ScoringSettings
from pipelines.frozen import Frozen, Usual

CONTEXT = LOOK_BACK - 1  # windows before the judged one that its score depends on
_SILENT = names.column("presence", "silent_seconds")
_DOWN = names.column("presence", "node_down")
_BLIND = (names.column("presence", "exporter_down"), names.column("presence", "frozen"))
_LINES, _UNKNOWN = names.column("logs", "lines"), names.column("logs", "unknown")
_RULE = "a failure has begun: a hardware XID or a lost GPU in the last minutes"

_LONGEST = 300  # characters of a log line that a reason cites
_WHY = {
    "unknown": "never heard in quiet time",
    "rare": "rarely heard in quiet time",
    "burst": "heard far more often than in quiet time",
}


class Witness(NamedTuple):
    """What can be asked of the data at hand, each of a node and a window's end [ns]."""

    suspect: Callable[[str, str, int], str]  # node, column, end: a GPU's UUID or ""
    lines: Callable[[str, int], list[log_columns.Telling]]
    begun: Callable[[str, int], int | None]  # the XID that began a failure, None for a lost GPU or nothing


class _Judged(NamedTuple):
    """Rows of the asked window ends, by position in the aligned frame."""

    X: pd.DataFrame
    signs: Signs
    at: NDArray[np.int64]
    probability: NDArray[np.float64]
    began: NDArray[np.bool_]
    failing: NDArray[np.bool_]


def judge(
    frozen: Frozen,
    matrix: Matrix,
    began: NDArray[np.bool_],
    settings: ScoringSettings,
    witness: Witness,
    from_ns: int,
) -> dict[int, list[dict[str, Any]]]:
    """For each window end from ``from_ns`` on, the rows to report, by node.

    Parameters
    ----------
    matrix
        Rows of all nodes, reaching `CONTEXT` windows further back than ``from_ns``.
    began
        Rows at whose end a failure of the node became known; it is an alarm.
    witness
        Names the GPU behind a column, the log lines that are odd, and the code of a failure that has begun.
    """
    X = frozen.align(matrix)
    signs = frozen.lineup.signs(X)
    probability = frozen.lineup.judge(signs, began)[frozen.champion].to_numpy(dtype=np.float64)
    ends = as_ns(matrix.windows["end"])
    failing = _failing(matrix.windows, began, _aftermath(frozen))
    judged = _Judged(X, signs, np.flatnonzero(ends >= from_ns), probability, began, failing)
    missing = frozen.usual.missing(X.iloc[judged.at])
    out: dict[int, list[dict[str, Any]]] = {}
    for place, row in enumerate(judged.at):
        end = int(ends[row])
        out.setdefault(end, []).append(_row(frozen, judged, int(row), float(missing[place]), settings))
    _explain(frozen, judged, out, witness)
    return {end: sorted(rows, key=lambda one: str(one["node"])) for end, rows in sorted(out.items())}


def _aftermath(frozen: Frozen) -> int:
    """How long after a failure a score is neither a warning nor normal [ns], as far as every run looks back."""
    return min(to_nanoseconds(frozen.labels.recovery), CONTEXT * to_nanoseconds(frozen.features.window.stride))


def _failing(windows: pd.DataFrame, began: NDArray[np.bool_], lasts_ns: int) -> NDArray[np.bool_]:
    """Rows at most so long after one at whose end a failure of the node became known."""
    nodes, ends = windows["node"].to_numpy(), as_ns(windows["end"])
    out = began.copy()
    for row in np.flatnonzero(began):
        out |= (nodes == nodes[row]) & (ends > ends[row]) & (ends <= ends[row] + lasts_ns)
    return out


def _row(frozen: Frozen, judged: _Judged, row: int, missing: float, settings: ScoringSettings) -> dict[str, Any]:
    X = judged.X
    node = str(X.index[row][0])
    silent = _value(X, row, _SILENT)
    down = _value(X, row, _DOWN) > 0 or bool(X.iloc[row].isna().all())
    blind = any(_value(X, row, column) > 0 for column in _BLIND)  # nothing is heard of the GPUs, or nothing moves
    stale = blind or silent > settings.stale_after.total_seconds() or missing > settings.missing_share
    status = "down" if down else "stale" if stale else "ok"
    probability = float(judged.probability[row])
    # too little is known for the model; what the rule saw stands
    known = (missing <= settings.missing_share or bool(judged.began[row])) and math.isfinite(probability)
    # of a node that is not heard of, an alarm stands; that it is calm nobody can say
    known = known and (probability > frozen.threshold or not (stale or down))
    return {
        "node": node,
        "score": probability / frozen.threshold if known else None,
        "probability": probability if known else None,
        "threshold": frozen.threshold,
        "alarm": known and probability > frozen.threshold,
        "failing": bool(judged.failing[row]),
        "suspect_gpu": "",
        "status": status,
        "missing_ratio": missing,
        "lines": _count(X, row, _LINES),
        "unknown_lines": _count(X, row, _UNKNOWN),
        "reasons": [],
    }


def _count(X: pd.DataFrame, row: int, column: str) -> int:
    """A count that the matrix holds as log(1 + n); 0 where it holds none."""
    return round(math.expm1(max(0.0, value))) if math.isfinite(value := _value(X, row, column)) else 0


def _value(X: pd.DataFrame, row: int, column: str) -> float:
    return float(X[column].iloc[row]) if column in X.columns else float("nan")


def _explain(frozen: Frozen, judged: _Judged, out: Mapping[int, list[dict[str, Any]]], witness: Witness) -> None:
    """Give alarms and near alarms their reasons; calm nodes need none."""
    ends = as_ns(pd.DatetimeIndex(judged.X.index.get_level_values(1)))
    rows = {(str(judged.X.index[row][0]), int(ends[row])): int(row) for row in judged.at}
    asked = [(end, said) for end, found in out.items() for said in found if (said["score"] or 0.0) > 0.5]
    if not asked:
        return
    X, only = judged.X, np.array([rows[said["node"], end] for end, said in asked])
    told = frozen.lineup.explain_told(
        frozen.champion, judged.signs, [str(one) for one in X.columns], began=judged.began, X=X, only=only
    )
    reasons = dict(zip(only.tolist(), told, strict=True))
    for (end, said), row in zip(asked, only.tolist(), strict=True):
        said["reasons"] = wording.telling(
            reason(frozen.usual, judged.X, row, column, effect) for column, effect in reasons[row]
        )
        if judged.began[row]:
            _name_failure(said["reasons"], witness.begun(said["node"], end), frozen.labels)
        said["reasons"] += [_cite(telling) for telling in witness.lines(said["node"], end)]
        for column, _ in reasons[row]:
            if said["suspect_gpu"] or column == rules.REASON:
                continue
            said["suspect_gpu"] = witness.suspect(said["node"], column, end)


def _name_failure(reasons: list[dict[str, Any]], code: int | None, labels: LabelSettings) -> None:
    """Say which failure has begun, and what the catalogue recommends."""
    known = catalogue.lookup(code, labels)
    for one in reasons:
        if one["feature"] == rules.REASON and code is not None:
            meaning = f" ({known.meaning})" if known else ""
            action = catalogue.action(code, labels)
            advice = f"; recommended action: {action}" if action else ""
            one["text"] = f"a failure has begun: XID {code}{meaning}{advice}"


def _cite(telling: log_columns.Telling) -> dict[str, Any]:
    """Log lines of one template as a reason: how many, why they are odd, and one of them."""
    times = "once" if telling.lines == 1 else f"{telling.lines} times"
    return {
        "feature": "logs.line",
        "value": float(telling.lines),
        "peers": None,
        "usual": None,
        "effect": telling.surprise,
        "text": f"log line {times}, {_WHY[telling.why]}: {telling.example[:_LONGEST]}",
        "template": telling.template,
        "example": telling.example[:_LONGEST],
    }


def reason(usual: Usual, X: pd.DataFrame, row: int, column: str, effect: float) -> dict[str, Any]:
    """A column that drove a row's score, in words: its value, its peers' at the same moment, its node's own usual."""
    if column == rules.REASON or column not in X.columns:
        text = _RULE if column == rules.REASON else column
        return {"feature": column, "value": None, "peers": None, "usual": None, "effect": float(effect), "text": text}
    node, end = X.index[row]
    value = _value(X, row, column)
    same = (X.index.get_level_values(1) == end) & (X.index.get_level_values(0) != node)
    others = X.loc[same, column].dropna()
    peers = float(others.median()) if len(others) else float("nan")
    own = usual.of_node(str(node), column)
    here, there, before = (wording.told(column, one) for one in (value, peers, own))
    text = f"{wording.described(column)} is {here}; its peers' {there}, its own usual {before}"
    return {
        "feature": column,
        "value": _finite(value),
        "peers": _finite(peers),
        "usual": _finite(own),
        "effect": float(effect),
        "text": text,
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
