"""How good scores are: failures caught before, at or missed, and what that costs in false alarms.

A window's alarm time is its end ``e``. For a failure from ``t0`` (first line) to ``t1`` (last line)::

    e in [t0 - early, t0 - horizon)           early    on the node that began it
    e in [t0 - horizon, t0 - gap)             before   on the node that began it
    e in [t0 - gap, t0 + grace]               at       on the node that began it
    otherwise, until the window is clear of
    ``t1 + recovery``; and all of it on the
    other nodes it touched                    neither
    everywhere else                           quiet    where an alarm is false

Alarms of a node no further apart than ``merge`` are one episode. An episode costs one false alarm for each started
hour of its quiet part; one that touches an incident has its first quiet hour free. Early alarms are free in an episode
that goes on until the failure is warned of: who was paged then was not paged in vain. In any other they are quiet time.
The threshold of a fold spends the budget on the other folds' scores. A failure that has begun (`rules.SCORE`) is an
alarm whatever the threshold: where it is false it is counted, but the budget is for what models say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.settings import LabelSettings, to_nanoseconds
from features.tables import InputError, to_time
from features.windows import as_ns
from models import rules
from models.intervals import clopper_pearson, poisson_rate
from models.settings import EvaluationSettings

QUIET, BEFORE, AT, NEITHER, EARLY = 0, 1, 2, 3, 4
_HOUR = 3_600_000_000_000
_DAY = 24 * _HOUR
_LOWEST = 1e-12  # a threshold that scores can be divided by

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Ground:
    """Scored windows sorted by node and end, and what an alarm of each would mean.

    Attributes
    ----------
    order
        Positions in the predictions.
    node, end
        int64 [n], node code and alarm time in nanoseconds since 1970.
    bounds
        First row of each node, and n.
    zone
        QUIET, EARLY, BEFORE, AT or NEITHER.
    failure
        Row of the failures table that BEFORE and AT belong to, else -1.
    stride
        Nanoseconds from one window to the next.
    days
        Days in which at least one node was watched.
    """

    order: Ints
    node: Ints
    end: Ints
    bounds: Ints
    codes: dict[str, int]
    zone: NDArray[np.int8]
    failure: Ints
    stride: int
    days: float

    def rows_between(self, name: str, low: int, high: int) -> slice:
        """Rows of a node whose alarm time is in ``[low, high)``."""
        code = self.codes.get(name)
        if code is None:
            return slice(0, 0)
        first, last = self.bounds[code], self.bounds[code + 1]
        a, b = np.searchsorted(self.end[first:last], [low, high])
        return slice(int(first + a), int(first + b))


@dataclass(frozen=True)
class Truth:
    """Failures that fall into the scored time, as arrays."""

    table: pd.DataFrame
    begin: Ints
    over: Ints


def judged_failures(predictions: pd.DataFrame, failures: pd.DataFrame, labels: LabelSettings) -> Truth:
    """The failures in the time that was scored; the others can be neither caught nor missed."""
    ends = as_ns(predictions["end"])
    begin = as_ns(failures["time"])
    inside = (begin > ends.min()) & (begin <= ends.max() + to_nanoseconds(labels.horizon))
    table = failures[inside].sort_values("time", kind="stable").reset_index(drop=True)
    begin = as_ns(table["time"])
    return Truth(table, begin, np.maximum(begin, as_ns(table["end"].fillna(table["time"]))))


def survey(predictions: pd.DataFrame, truth: Truth, length: int, labels: LabelSettings) -> Ground:
    """Sort the scored windows and say what an alarm of each would mean; ``length`` of a window in nanoseconds."""
    codes, names = pd.factorize(predictions["node"], sort=True)
    end = as_ns(predictions["end"])
    order = np.lexsort((end, codes))
    node, end = codes[order].astype(np.int64), end[order]
    moments = np.unique(end)
    stride = int(np.diff(moments).min()) if len(moments) > 1 else length
    bounds = np.searchsorted(node, np.arange(len(names) + 1))
    ground = Ground(
        order.astype(np.int64),
        node,
        end,
        bounds.astype(np.int64),
        {str(name): code for code, name in enumerate(names)},
        np.zeros(len(end), dtype=np.int8),
        np.full(len(end), -1, dtype=np.int64),
        stride,
        len(moments) * stride / _DAY,
    )
    _mark(ground, truth, length, labels)
    return ground


def _mark(ground: Ground, truth: Truth, length: int, labels: LabelSettings) -> None:
    horizon, gap = to_nanoseconds(labels.horizon), to_nanoseconds(labels.gap)
    grace, recovery = to_nanoseconds(labels.grace), to_nanoseconds(labels.recovery)
    nodes = list(truth.table["node"])
    for row, name in enumerate(nodes):
        low = truth.begin[row] - to_nanoseconds(labels.early)
        ground.zone[ground.rows_between(name, low, truth.begin[row] - horizon)] = EARLY
    for row in range(len(nodes) - 1, -1, -1):  # the nearest failure to come is written last
        rows = ground.rows_between(nodes[row], truth.begin[row] - horizon, truth.begin[row] - gap)
        ground.zone[rows], ground.failure[rows] = BEFORE, row
    for row, touched in enumerate(truth.table["nodes"]):  # a repair is no warning of the next failure
        for name in {*touched} | {nodes[row]}:
            low = truth.begin[row] - (gap if name == nodes[row] else horizon)
            rows = ground.rows_between(name, low, truth.over[row] + recovery + length)
            ground.zone[rows], ground.failure[rows] = NEITHER, -1
    for row, name in enumerate(nodes):
        rows = ground.rows_between(name, truth.begin[row] - gap, truth.begin[row] + grace + 1)
        ground.zone[rows], ground.failure[rows] = AT, row


def charged(ground: Ground, rows: Ints, episode: Ints) -> Mask:
    """Which alarms (rows, with the number of each one's episode) lie where an alarm is false."""
    zone = ground.zone[rows]
    warned = episode[(zone == BEFORE) | (zone == AT)]
    return np.asarray((zone == QUIET) | ((zone == EARLY) & ~np.isin(episode, warned)))


def false_alarms(ground: Ground, rows: Ints, merge: int) -> int:
    """What alarms at these rows (ascending) cost, by the rule in the module's head."""
    if not len(rows):
        return 0
    node, end = ground.node[rows], ground.end[rows]
    apart = np.r_[True, (np.diff(node) != 0) | (np.diff(end) > merge)]
    episode = np.cumsum(apart)
    quiet = charged(ground, rows, episode)
    first = np.flatnonzero(apart | np.r_[True, quiet[1:] != quiet[:-1]])
    last = np.r_[first[1:], len(rows)] - 1
    hours = -(-(end[last] - end[first] + ground.stride) // _HOUR)[quiet[first]]
    of, free = np.unique(episode[first][quiet[first]], return_index=True)  # the first quiet stretch of each episode
    hours[free] -= np.isin(of, episode[~quiet])
    return int(hours.sum())


def spend(score: Floats, ground: Ground, among: Mask, budgets: tuple[float, ...], merge: int) -> Floats:
    """For each budget (false alarms a day) the lowest threshold that keeps it on the rows ``among``.

    An alarm is a score above the threshold. Every threshold above the returned one keeps the budget too.
    """
    days = ground.days * np.count_nonzero(among) / len(among)
    among = among & (score < rules.SCORE)
    watched = np.flatnonzero(among & ((ground.zone == QUIET) | (ground.zone == EARLY)))
    if not len(watched):
        return np.full(len(budgets), rules.MOST)
    # No hour that is charged holds more windows than this, so the best this many decide (early ones may be free).
    per_hour = _HOUR // ground.stride + 1
    free = np.count_nonzero(ground.zone[watched] == EARLY)
    most = free + int(per_hour * (max(budgets) * days + 2 * np.unique(ground.failure).size + 8))
    best = np.sort(score[watched])[::-1][: most + 1]
    levels = np.unique(best)[::-1]
    levels = levels[np.unique(np.geomspace(1, len(levels), 400).astype(int)) - 1]
    rows = np.flatnonzero(among & (score > levels[-1]))
    values = score[rows]
    costs = np.array([false_alarms(ground, rows[values > level], merge) for level in levels])
    over = costs[None, :] > np.asarray(budgets)[:, None] * days
    allowed = np.where(over.any(axis=1), over.argmax(axis=1) - 1, len(levels) - 1)
    kept = np.where(allowed < 0, score[watched].max(), levels[np.maximum(allowed, 0)])
    return np.asarray(np.clip(kept, _LOWEST, rules.MOST), dtype=np.float64)


def thresholds(
    score: Floats, fold: Ints, ground: Ground, budgets: tuple[float, ...], merge: int, *, forward: bool = False
) -> tuple[Ints, Floats, Floats]:
    """Folds, thresholds [fold, budget] each spent on the other folds' scores, and [budget] spent on all.

    Forward a threshold is spent on the folds before; the first, which has none, is given its own.
    """
    numbers = np.unique(fold)
    everything = spend(score, ground, np.ones(len(score), dtype=bool), budgets, merge)
    if len(numbers) == 1:
        return numbers, everything[None, :], everything
    others = [fold < max(n, numbers[1]) if forward else fold != n for n in numbers]
    return numbers, np.vstack([spend(score, ground, among, budgets, merge) for among in others]), everything


def outcomes(ground: Ground, truth: Truth, alarm: Mask) -> tuple[list[str], Floats]:
    """For each failure before, at or missed, and the lead in minutes (NaN unless before)."""
    count = len(truth.begin)
    lead = np.full(count, np.nan)
    at = np.zeros(count, dtype=bool)
    for row in np.flatnonzero(alarm & (ground.failure >= 0)):
        failure = ground.failure[row]
        if ground.zone[row] == BEFORE:
            lead[failure] = np.fmax(lead[failure], (truth.begin[failure] - ground.end[row]) / 60e9)
        else:
            at[failure] = True
    names = np.where(~np.isnan(lead), "before", np.where(at, "at", "missed"))
    return [str(name) for name in names], lead


def by_chance(ground: Ground, truth: Truth, alarm: Mask, labels: LabelSettings, settings: EvaluationSettings) -> Ints:
    """Failures caught before in each of many worlds where failures came at a random watched time of their node."""
    horizon, gap = to_nanoseconds(labels.horizon), to_nanoseconds(labels.gap)
    random = np.random.default_rng(0)  # the same worlds for every model
    caught = np.zeros(settings.permutations, dtype=np.int64)
    watched = np.isin(ground.zone, (QUIET, EARLY, BEFORE))
    for name in truth.table["node"]:
        code = ground.codes.get(name)
        if code is None:
            continue
        rows = np.arange(ground.bounds[code], ground.bounds[code + 1])
        times = ground.end[rows[watched[rows]]]
        alarms = ground.end[rows[watched[rows] & alarm[rows]]]
        if not len(times) or not len(alarms):
            continue
        moved = random.choice(times, settings.permutations) + random.integers(1, ground.stride + 1)
        caught += np.searchsorted(alarms, moved - horizon) < np.searchsorted(alarms, moved - gap)
    return caught


def judge(
    predictions: pd.DataFrame,
    failures: pd.DataFrame,
    windows: pd.DataFrame,
    labels: LabelSettings,
    settings: EvaluationSettings,
    *,
    forward: bool = False,
) -> dict[str, Any]:
    """One model's figures, in the form of the train command's JSON and ready for it.

    Parameters
    ----------
    predictions
        `PREDICTIONS` of one model, each window once, by a model that did not see it.
    failures, windows
        `FAILURES` and `WINDOWS` of the judged time.
    forward
        Folds are steps in time: a threshold is spent on the steps before, and the first step, which has none, is
        not judged.

    Raises
    ------
    InputError
        Nothing was scored, a score is no number, or forward there is one step only.
    """
    if predictions.empty or windows.empty:
        raise InputError("no window was scored, so there is nothing to judge; give a longer span")
    if not np.isfinite(predictions["score"]).all():
        raise InputError(f"{int((~np.isfinite(predictions['score'])).sum())} scores are no numbers")
    truth = judged_failures(predictions, failures, labels)
    length = int((as_ns(windows["end"]) - as_ns(windows["start"])).max())
    ground = survey(predictions, truth, length, labels)
    score, fold = _in_order(predictions, ground)
    budgets, merge = (settings.budget_per_day, *settings.curve_budgets), to_nanoseconds(settings.merge)
    numbers, levels, everything = thresholds(score, fold, ground, budgets, merge, forward=forward)
    if forward:
        if len(numbers) == 1:
            raise InputError("one step in time only: there is none before it to set a threshold on")
        predictions = predictions[(predictions["fold"] > numbers[0]).to_numpy()].reset_index(drop=True)
        truth = judged_failures(predictions, failures, labels)
        ground = survey(predictions, truth, length, labels)
        score, fold = _in_order(predictions, ground)
    place = np.searchsorted(numbers, fold)
    curve = []
    for column, budget in enumerate(budgets):
        alarm = score > levels[place, column]
        curve.append({"budget": budget, **_figures(ground, truth, alarm, settings)})
    alarm = score > levels[place, 0]
    result = {**_figures(ground, truth, alarm, settings), "threshold": float(everything[0])}
    result["thresholds"] = {int(n): float(level) for n, level in zip(numbers, levels[:, 0], strict=True)}
    result |= _confidence(result, len(truth.begin), ground, settings)
    chance = by_chance(ground, truth, alarm, labels, settings)
    result["p_permutation"] = float((1 + np.sum(chance >= result["before"])) / (1 + len(chance)))
    result["before_by_chance"] = float(chance.mean())
    result["unjudged"] = len(failures) - len(truth.begin)
    result["curve"] = curve[1:]
    result["by_failure"] = _by_failure(ground, truth, alarm)
    result["verdict"], result["reason"] = verdict(result)
    return result


def _in_order(predictions: pd.DataFrame, ground: Ground) -> tuple[Floats, Ints]:
    """Scores and folds of the surveyed windows."""
    score = predictions["score"].to_numpy(dtype=np.float64)[ground.order]
    return score, predictions["fold"].to_numpy(dtype=np.int64)[ground.order]


def _figures(ground: Ground, truth: Truth, alarm: Mask, settings: EvaluationSettings) -> dict[str, Any]:
    names, lead = outcomes(ground, truth, alarm)
    cost = false_alarms(ground, np.flatnonzero(alarm), to_nanoseconds(settings.merge))
    caught = lead[~np.isnan(lead)]
    return {
        "before": names.count("before"),
        "at": names.count("at"),
        "missed": names.count("missed"),
        "lead_minutes_median": float(np.median(caught)) if len(caught) else None,
        "false_alarms": cost,
        "false_alarms_per_day": cost / ground.days,
    }


def _confidence(found: Mapping[str, Any], count: int, ground: Ground, settings: EvaluationSettings) -> dict[str, Any]:
    node_days = np.count_nonzero(ground.zone != NEITHER) * ground.stride / _DAY
    return {
        "before_interval": list(clopper_pearson(found["before"], count, settings.confidence)),
        "caught_interval": list(clopper_pearson(found["before"] + found["at"], count, settings.confidence)),
        "false_alarms_interval": list(poisson_rate(found["false_alarms"], ground.days, settings.confidence)),
        "false_alarms_per_node_day": found["false_alarms"] / node_days if node_days else None,
        "monitored_days": ground.days,
        "monitored_node_days": float(node_days),
    }


def _by_failure(ground: Ground, truth: Truth, alarm: Mask) -> list[dict[str, Any]]:
    names, lead = outcomes(ground, truth, alarm)
    rows = truth.table.to_dict("records")
    return [
        {
            "failure": row["failure"],
            "node": row["node"],
            "time": to_time(int(begin)).isoformat(),
            "xid": None if pd.isna(row["xid"]) else int(row["xid"]),
            "outcome": name,
            "lead_minutes": None if np.isnan(minutes) else float(minutes),
            "suspect_gpu": "",
        }
        for row, begin, name, minutes in zip(rows, truth.begin, names, lead, strict=True)
    ]


def verdict(found: Mapping[str, Any], tried: int = 1, level: float = 0.05) -> tuple[str, str]:
    """Signal or no signal, and why; ``tried`` models looked at cost significance (Bonferroni)."""
    total = found["before"] + found["at"] + found["missed"]
    p = min(1.0, found["p_permutation"] * tried)
    said = f"{found['before']} of {total} failures caught before; chance gives {found['before_by_chance']:.1f}"
    if total < 2:  # the threshold of a lone failure's fold was set without any failure
        return "no signal", f"{total or 'no'} failure fell into the scored time; with fewer than two nothing is shown"
    if found["before"] == 0:
        return "no signal", "no failure was caught before it began"
    many = f" after looking at {tried} models" if tried > 1 else ""
    if p > level:
        return "no signal", f"{said} (p = {p:.3f}{many})"
    return "signal", f"{said} (p = {p:.4f}{many})"
