"""Which of the models that were judged is the champion, and whether it shows any signal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.evaluation import verdict
from models.intervals import mcnemar


def affordable(
    judged: Mapping[str, Mapping[str, Any]], baselines: frozenset[str], budget: float
) -> Mapping[str, Mapping[str, Any]]:
    """The baselines, and the models that kept near the budget: a threshold carried to a new fold spends other than
    it was set for, but one that spends more than double buys its catches. All models when none kept near it.
    """
    kept = {
        name: found
        for name, found in judged.items()
        if name in baselines or found["false_alarms_per_day"] <= 2 * budget
    }
    return kept if kept.keys() - baselines else judged


def compare(
    models: Mapping[str, Mapping[str, Any]], baselines: frozenset[str], tried: int | None = None
) -> dict[str, Any]:
    """The champion among the models that are no baselines, the verdict on it, and McNemar's p against each other one.

    A champion that a baseline equals is "no signal": the node's name or the hour of day would have done as well.
    ``tried`` is how many models were looked at, where some of them are not among these.
    """
    own = [name for name in models if name not in baselines]
    if not own:
        return {"champion": None, "verdict": "no signal", "reason": "only baselines were tried", "mcnemar": {}}

    def rank(name: str) -> tuple[float, ...]:
        found = models[name]
        return (found["before"], found["before"] + found["at"], found["lead_minutes_median"] or 0.0)

    champion = max(own, key=rank)  # the first named wins a tie
    said, reason = verdict(models[champion], tried=tried or len(own))
    rival = max((name for name in models if name in baselines), key=rank, default=None)
    if said == "signal" and rival and models[rival]["before"] >= models[champion]["before"]:
        said = "no signal"
        reason = f"the baseline {rival} catches {models[rival]['before']} before, {champion} no more"
    return {"champion": champion, "verdict": said, "reason": reason, "mcnemar": _versus(models, champion)}


def _versus(models: Mapping[str, Mapping[str, Any]], champion: str) -> dict[str, float]:
    def before(name: str) -> set[str]:
        return {row["failure"] for row in models[name]["by_failure"] if row["outcome"] == "before"}

    own = before(champion)
    return {name: mcnemar(len(own - before(name)), len(before(name) - own)) for name in models if name != champion}
