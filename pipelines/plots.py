"""Figures: what each budget of false alarms buys, and the hours around each failure.

Drawn on the Agg canvas without pyplot, so no display, no state, and the same bytes for the same data.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

_COLOURS = ("#1b6ca8", "#d1495b", "#2e8b57", "#8d6a9f", "#c98b2b", "#4f5d75", "#999999")


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=110, metadata={"Software": None})
    return out.getvalue()


def _plain(text: str) -> str:
    """A name as matplotlib should draw it: a dollar sign would begin a formula."""
    return "".join(char if char.isprintable() else "?" for char in text).replace("$", r"\$")[:80]


def trade_off(models: Mapping[str, Mapping[str, Any]], budget: float) -> bytes:
    """Failures caught before, and median lead time, against false alarms a day; PNG.

    Parameters
    ----------
    models
        Judged models in the form of the train command's JSON, the first drawn strongest.
    budget
        False alarms a day that the thresholds were set for; marked.
    """
    figure = Figure(figsize=(10, 4.2), layout="constrained")
    caught, lead = figure.subplots(1, 2)
    for number, (name, judged) in enumerate(models.items()):
        curve = judged["curve"]
        budgets = [point["budget"] for point in curve]
        style = {
            "color": _COLOURS[min(number, len(_COLOURS) - 1)],
            "label": _plain(name),
            "linewidth": 2.2 if number == 0 else 1.1,
            "marker": "o",
            "markersize": 4 if number == 0 else 2.5,
        }
        caught.plot(budgets, [point["before"] for point in curve], **style)
        minutes = [np.nan if (m := point["lead_minutes_median"]) is None else m for point in curve]
        lead.plot(budgets, minutes, **style)
    marks = sorted({point["budget"] for judged in models.values() for point in judged["curve"]})
    for axes, words in ((caught, "failures caught before"), (lead, "median lead time [min]")):
        axes.axvline(budget, color="#bbbbbb", linestyle="--", linewidth=1, zorder=0)
        axes.set_xscale("log")
        axes.set_xticks(marks, [f"{mark:g}" for mark in marks], fontsize=7)
        axes.set_xticks([], minor=True)
        axes.set_xlabel("false alarms a day, whole cluster")
        axes.set_ylabel(words)
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.25)
    first = next(iter(models.values()), None)
    if first is not None:
        total = first["before"] + first["at"] + first["missed"]
        caught.set_ylim(0, max(total, 1) * 1.05)
        caught.set_title(f"of {total} failures, each left out in turn", fontsize=10)
        caught.legend(fontsize=7, loc="upper left")
    return _png(figure)


def timeline(failure: Mapping[str, Any], scores: pd.DataFrame, threshold: float, horizon_minutes: float) -> bytes:
    """Scores of a failure's node around it; PNG.

    Parameters
    ----------
    failure
        A row of ``by_failure``: node, time, xid, outcome, lead_minutes.
    scores
        Columns end and score, of this node, by models that did not see the failure.
    threshold
        A score above it is an alarm.
    """
    moment = pd.Timestamp(failure["time"])
    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    minutes = (scores["end"] - moment).dt.total_seconds().to_numpy() / 60
    values = scores["score"].to_numpy(dtype=float)
    axes.axvspan(-horizon_minutes, 0, color="#fff3d6", zorder=0)
    axes.plot(minutes, values, color=_COLOURS[0], linewidth=1.2, marker=".", markersize=4)
    over = values > threshold
    axes.plot(minutes[over], values[over], linestyle="none", color=_COLOURS[1], marker="o", markersize=5)
    axes.axhline(threshold, color=_COLOURS[1], linewidth=1, linestyle="--")
    axes.axvline(0, color="black", linewidth=1.5)
    code = "no code" if failure["xid"] is None else f"XID {failure['xid']}"
    lead = f", {failure['lead_minutes']:.0f} min ahead" if failure["lead_minutes"] is not None else ""
    when = f"{moment.tz_convert('UTC'):%Y-%m-%d %H:%M} UTC"
    axes.set_title(_plain(f"{failure['node']}, {code}, {when}: {failure['outcome']}{lead}"), fontsize=10)
    axes.set_xlabel("minutes from the first XID line")
    axes.set_ylabel("score")
    axes.set_ylim(0, 1.02)
    axes.grid(visible=True, alpha=0.25)
    return _png(figure)


def figures(
    judged: Mapping[str, Mapping[str, Any]],
    champion: str,
    predictions: pd.DataFrame,
    budget: float,
    horizon_minutes: float,
    most: int = 60,
) -> dict[str, bytes]:
    """All figures of a training run by file name: the trade-off, and a timeline for each of at most ``most`` failures.

    Parameters
    ----------
    predictions
        Frame of `PREDICTIONS`, at least the champion's.
    """
    order = [champion, *(name for name in judged if name != champion)]
    found = {"trade_off.png": trade_off({name: judged[name] for name in order if name in judged}, budget)}
    mine = predictions[predictions["model"] == champion]
    around = pd.Timedelta(minutes=3 * horizon_minutes)
    rows: Sequence[Mapping[str, Any]] = judged[champion]["by_failure"][:most] if champion in judged else []
    for row in rows:
        moment = pd.Timestamp(row["time"])
        near = mine[(mine["node"] == row["node"]) & ((mine["end"] - moment).abs() <= around)].sort_values("end")
        name = "".join(char if char.isalnum() or char in "-_" else "_" for char in str(row["failure"]))
        # the threshold that the failure's own fold was given, as the outcome was decided by it
        level = judged[champion]["threshold"]
        folds = judged[champion].get("thresholds", {})
        at = near[near["end"] <= moment]
        if len(at):
            level = folds.get(int(at["fold"].iloc[-1]), level)
        found[f"failures/{name}.png"] = timeline(row, near, level, horizon_minutes)
    return found
