"""Which registered version scores: a challenger takes over when it beats the champion on the same folds."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from features.tables import InputError, ModelError, UsageError
from models import tracked
from models.intervals import mcnemar
from models.tracking import Tracker, Version, quiet

CHAMPION = "champion"
JUDGING_TAG = "judging.sha256"  # of folds, failures and the rules they were judged by: equal means comparable


class Gate(NamedTuple):
    """Whether a version may become champion, and why in words."""

    passed: bool
    reason: str


def promote(uri: str, name: str, version: int, alias: str = CHAMPION, *, force: bool = False) -> tuple[Version, Gate]:
    """Give an alias to a registered version: scoring asks for ``champion``, and only that one is guarded.

    What was decided stays with the version as tags.

    Raises
    ------
    UsageError
        The alias is not in MLflow's letters.
    ModelError
        There is no such version, or it does not beat the champion and is not forced.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", alias):
        raise UsageError(f"alias {alias!r}: write letters, digits, - and _, a letter first")
    tracker = Tracker(uri)
    found = tracker.find(f"models:/{name}/{version}")
    gate = check(tracker, found) if alias == CHAMPION else Gate(passed=True, reason=f"alias {alias} has no gate")
    if not gate.passed and not force:
        raise ModelError(f"{found.uri} stays what it is: {gate.reason}; --force promotes it all the same, on record")
    tags = {
        "foreshock.gate": gate.reason if gate.passed else f"forced: {gate.reason}",
        "foreshock.forced": "false" if gate.passed else "true",
        "foreshock.promoted_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    tracker.promote(name, found.version, alias)
    with quiet(f"tag {found.uri}", uri):
        for key, value in tags.items():
            tracker.client.set_model_version_tag(name, found.version, key, value[:5000])
    return found, gate


def check(tracker: Tracker, challenger: Version) -> Gate:
    """Hold a version against the champion of its name."""
    try:
        champion = tracker.find(f"models:/{challenger.name}@{CHAMPION}")
    except ModelError:
        return Gate(passed=True, reason="there was no champion")
    if champion.version == challenger.version:
        return Gate(passed=True, reason="it is the champion already")
    try:
        new, old = (_judged(tracker, version) for version in (challenger, champion))
    except InputError as error:
        return Gate(passed=False, reason=f"the two can't be compared: {error}")
    return compare(new, old, f"version {challenger.version}", f"version {champion.version}")


class Judged(NamedTuple):
    """What a version's training said of the model in its bundle."""

    judging: str
    budget: float
    figures: Mapping[str, Any]


def _judged(tracker: Tracker, version: Version) -> Judged:
    with quiet(f"look up {version.uri}", tracker.uri):
        run_id = str(tracker.client.get_model_version(version.name, version.version).run_id)
    told = tracked.run(tracker, run_id)
    report = json.loads(tracked.fetch(tracker, run_id, "report.json"))
    figures = report["models"][report["champion"]]
    return Judged(told.tags.get(JUDGING_TAG, ""), float(report["budget_per_day"]), figures)


def compare(new: Judged, old: Judged, new_name: str, old_name: str) -> Gate:
    """The challenger must catch more before; as many, with fewer false alarms; as many of both, more at or earlier.

    One that spends more than double the budget buys its catches and does not pass, unless the champion spends more.
    """
    if not new.judging or new.judging != old.judging:
        return Gate(
            passed=False,
            reason=f"{new_name} and {old_name} were judged on other data, folds or rules; "
            "train both on the same store with the same settings of labels and evaluation",
        )
    ours, theirs = new.figures, old.figures
    p = _versus(ours, theirs)
    said = (
        f"{new_name} catches {ours['before']} before at {ours['false_alarms_per_day']:.2f} false alarms a day, "
        f"{old_name} {theirs['before']} at {theirs['false_alarms_per_day']:.2f} (McNemar p = {p:.2f})"
    )
    spent = float(ours["false_alarms_per_day"])
    if spent > max(2 * new.budget, float(theirs["false_alarms_per_day"])):
        return Gate(passed=False, reason=f"{said}; that is more than double the budget of {new.budget}")
    return Gate(passed=_rank(ours) > _rank(theirs), reason=said)


def _rank(found: Mapping[str, Any]) -> tuple[float, ...]:
    lead = found["lead_minutes_median"] or 0.0
    return (found["before"], -found["false_alarms_per_day"], found["before"] + found["at"], lead)


def _versus(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> float:
    mine, other = (
        {row["failure"] for row in found["by_failure"] if row["outcome"] == "before"} for found in (ours, theirs)
    )
    return mcnemar(len(mine - other), len(other - mine))
