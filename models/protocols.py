"""The champion judged otherwise than by leaving one failure out: nodes, classes of failures, and the future left out.

What failures teach is learned anew in each fold. For nodes and classes, what is usual is told as it was told for
leaving one failure out: on other days, without any label. For the future all of it is learned from the past, as the
job that scores would: templates, what is usual, the model and its threshold.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.labels import label
from features.settings import LabelSettings
from features.tables import PREDICTIONS, InputError, conform
from features.windows import as_ns
from models import crossfit, evaluation, splits
from models.crossfit import Labels
from models.lineup import BASELINES, LOOK_BACK, Lineup
from models.settings import EvaluationSettings, ModelSettings, Protocol
from models.splits import Folds
from models.telling import Signs, Told

Rows = NDArray[np.int64]
# Rows to learn from to their part of the matrix, and what gives others'; nothing of the latter is fitted
MakeRows = Callable[[Rows], tuple[pd.DataFrame, Callable[[Rows], pd.DataFrame]]]

WORDS: Mapping[Protocol, str] = {
    "node": "leave one node out: no window of a node is learned from by the model that judges it",
    "class": "leave one class out: no failure of an XID is learned from by the model that judges that XID's failures",
    "chronological": "train on the past only: each span of time is judged by what was learned before it",
}
_STEPS = 4  # spans that the future is cut into; the first sets the threshold of the second


class Ask(NamedTuple):
    """What is judged, and with what."""

    names: tuple[str, ...]
    windows: pd.DataFrame
    failures: pd.DataFrame
    label: Labels
    began: NDArray[np.bool_]
    told: Told
    rows: MakeRows
    others: Sequence[tuple[Signs, Labels]] = ()


def judge(
    protocol: Protocol, asked: Ask, labels: LabelSettings, settings: EvaluationSettings, models: ModelSettings
) -> dict[str, Any]:
    """Figures by one protocol, ready for JSON.

    Returns
    -------
    dict
        words, why_not ("" where it could be judged), folds, seconds, and models: figures by name as
        `evaluation.judge` gives them, of the champion (the first of the names) and the baselines.
    """
    began = time.perf_counter()
    why, folds, judged = "", 0, {}
    try:
        dealt = _folds(protocol, asked, labels, settings)
        folds = len(dealt)
        forward = protocol == "chronological"
        table = _forward(dealt, asked, models, labels) if forward else _over(dealt, asked, models)
        judged = {
            str(name): evaluation.judge(part, asked.failures, asked.windows, labels, settings, forward=forward)
            for name, part in table.groupby("model", sort=False)
        }
    except InputError as error:
        why = str(error)
    if judged and not judged[asked.names[0]]["by_failure"]:
        why, judged = "no failure falls into the time that is judged", {}
    return {
        "words": WORDS[protocol],
        "why_not": why,
        "folds": folds,
        "seconds": time.perf_counter() - began,
        "models": judged,
    }


def _folds(protocol: Protocol, asked: Ask, labels: LabelSettings, settings: EvaluationSettings) -> Folds:
    """The folds of a protocol.

    Raises
    ------
    InputError
        It would leave nothing to learn from.
    """
    found = asked.failures
    if len(found) < 2:
        raise InputError("one failure only: with it left out there is none to learn from")
    if protocol == "node":
        if len(found["node"].unique()) == 1:
            raise InputError(
                f"all failures are on {found['node'].iloc[0]}: with it left out there is none to learn from"
            )
        return splits.leave_one_node_out(asked.windows, found, labels, settings)
    if protocol == "class":
        codes = found["xid"].astype("object").where(found["xid"].notna(), "none").unique().tolist()
        if len(codes) == 1:
            said = "without an XID" if codes == ["none"] else f"of XID {codes[0]}"
            raise InputError(f"all failures are {said}: there is no other class to learn from")
        return splits.leave_one_class_out(asked.windows, found, labels, settings)
    steps = settings.model_copy(update={"quiet_folds": _STEPS})
    return splits.chronological(asked.windows, found, labels, steps)


def _over(folds: Folds, asked: Ask, models: ModelSettings) -> pd.DataFrame:
    """`PREDICTIONS` by folds that share what was told."""
    table, skipped, _ = crossfit.over(
        folds, asked.told, asked.windows, asked.label, asked.names, models, began=asked.began, others=asked.others
    )
    _require(asked.names[0], skipped)
    return table


def _forward(folds: Folds, asked: Ask, models: ModelSettings, labels: LabelSettings) -> pd.DataFrame:
    """`PREDICTIONS` of each step by a line-up fitted on what was before it, as `Lineup.fit` is for the job.

    What came before is labelled by the failures of then: those to come would say which of it was early.
    """
    end = as_ns(asked.windows["end"])
    stride = int(np.diff(np.unique(end)).min())
    parts: list[pd.DataFrame] = []
    skipped: dict[tuple[int, str], str] = {}
    for fold in folds:
        found = asked.failures[~asked.failures["failure"].isin(fold.held_out)]
        y = label(asked.windows, found, labels)["label"].to_numpy(dtype=np.float32)
        thin, weight = splits.sample_quiet(fold, y, models.quiet_windows, models.seed)
        known, ask = asked.rows(thin.train)
        lineup = Lineup(asked.names, models).fit(known, y[thin.train], weight, others=asked.others)
        del known
        skipped |= {(fold.number, name): why for name, why in lineup.skipped.items() if name in asked.names}
        first = int(end[fold.test].min())
        # persistence looks back over windows before the step, which are there for the job too
        ahead = np.flatnonzero((end < first) & (end >= first - LOOK_BACK * stride))
        rows = np.concatenate([ahead, fold.test])
        signs = _told(lineup, ask, rows, asked.windows)
        scores = lineup.judge(signs, asked.began[rows]).iloc[len(ahead) :]
        about = asked.windows.iloc[fold.test]
        parts += [about.assign(model=name, fold=fold.number, score=scores[name].to_numpy()) for name in scores.columns]
    _require(asked.names[0], skipped)
    absent = {name for _, name in skipped}
    kept = [part for part in parts if part["model"].iloc[0] not in absent]
    return conform(pd.concat(kept, ignore_index=True), PREDICTIONS)[list(PREDICTIONS.columns)]


def _told(lineup: Lineup, ask: Callable[[Rows], pd.DataFrame], rows: Rows, windows: pd.DataFrame) -> Signs:
    """What a fitted line-up tells of rows; a step's matrix is not held whole."""
    assert lineup.teller is not None  # noqa: S101  # for the type checker: it has been fitted on a matrix
    where = crossfit.place_of(windows.iloc[rows])
    return lineup.teller.signs_by(lambda some: ask(rows[some]), where)


def _require(champion: str, skipped: Mapping[tuple[int, str], str]) -> None:
    why = next((why for (_, name), why in skipped.items() if name == champion), "")
    if why:
        raise InputError(f"{champion} could not be fitted in a fold: {why}")


def brief(judged: Mapping[str, Mapping[str, Any]]) -> str:
    """What the champion caught, in a few words."""
    name, found = next(iter(judged.items()))
    total = len(found["by_failure"])
    rate = found["false_alarms_per_day"]
    return f"{name} catches {found['before']} of {total} before, {found['at']} at, at {rate:.2f} false alarms a day"


def best_baseline(judged: Mapping[str, Mapping[str, Any]]) -> str | None:
    """The baseline that catches most before; None without one."""
    return max((name for name in judged if name in BASELINES), key=lambda name: judged[name]["before"], default=None)
