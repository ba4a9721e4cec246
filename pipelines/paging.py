"""Which scores become a page to a person: one incident, one page.

A node over the threshold opens an alert. It stays open while the score keeps above ``clear_ratio`` of the threshold
and closes after ``clear_windows`` calm windows; within ``hold_off`` of its start it is reopened, not opened anew.
A window without a score is neither calm nor an alarm; of a node without one for longer than a sign may show before a
failure the alert foretells nothing more, and closes. Too much of the fleet at once is one alert of its own: then the
model is suspect, and a node opens one only if a failure of it has begun, which no model says. The same steps serve
the live job and `pipelines.backtest`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from features.settings import to_nanoseconds
from features.tables import to_time
from pipelines.config import ScoringSettings

FLEET = ""  # the node of the alert that says so
_FEWEST = 3  # nodes over the threshold before it can be the fleet: of two nodes one is half


@dataclass(frozen=True)
class Alert:
    """An open or closed alert; times in nanoseconds since 1970, ``end`` 0 while it is open.

    ``last`` is the last window over the threshold, ``scored`` the last with a score.
    """

    alert: str
    node: str
    gpu: str
    start: int
    last: int
    score: float
    threshold: float
    reasons: tuple[dict[str, Any], ...] = ()
    calm: int = 0
    end: int = 0
    silenced: bool = False
    scored: int = 0

    def report(self) -> dict[str, Any]:
        """As the commands print it."""
        return {
            "alert": self.alert,
            "node": self.node,
            "gpu": self.gpu,
            "start": text(self.start),
            "last": text(self.last),
            "end": text(self.end) if self.end else None,
            "state": "resolved" if self.end else "firing",
            "score": self.score,
            "threshold": self.threshold,
            "silenced": self.silenced,
            "reasons": list(self.reasons),
        }


def text(ns: int) -> str:
    """ISO 8601 in UTC."""
    return to_time(ns).isoformat().replace("+00:00", "Z")


def stamp(ns: int) -> str:
    """A time as a file's name or an alert's."""
    return f"{to_time(ns):%Y%m%dT%H%M%SZ}"


def is_fleet_wide(rows: Sequence[Mapping[str, Any]], settings: ScoringSettings) -> bool:
    """Too many of the scored nodes over the threshold at once to be nodes' own trouble."""
    scored = [row for row in _foretold(rows) if row["score"] is not None]
    over = sum(bool(row["alarm"]) for row in scored)
    return over >= _FEWEST and over > settings.fleet_share * len(scored)


def _foretold(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Rows that may speak against the model: a failure that has begun is no doing of it."""
    return [row for row in rows if not row.get("failing", False)]


def advance(
    alerts: Mapping[str, Alert],
    rows: Sequence[Mapping[str, Any]],
    end_ns: int,
    settings: ScoringSettings,
    silenced: Collection[str] = (),
    *,
    early: timedelta,
) -> dict[str, Alert]:
    """The latest alert of each node after one more window.

    Parameters
    ----------
    alerts
        The latest alert of each node before it.
    rows
        Scored nodes: node, score (over the threshold; None without one), alarm, probability, threshold,
        suspect_gpu, reasons, and whether a failure of the node has begun (failing).
    silenced
        Nodes being looked after: their alerts are kept and page no one.
    early
        How long before a failure a sign may show (`LabelSettings.early`): without a score for longer an alert closes.
    """
    # a clock that ran ahead may have begun one later than now
    after = {node: replace(held, start=min(held.start, end_ns)) for node, held in alerts.items()}
    fleet = is_fleet_wide(rows, settings)
    for row in rows:
        node, score = str(row["node"]), row["score"]
        if score is None:
            continue
        held = after.get(node)
        if row["alarm"]:
            found = _over(held, row, end_ns, settings, opens=bool(row.get("failing", False)) or not fleet)
        else:
            found = _under(held, score < settings.clear_ratio, end_ns, settings)
        if found is not None:
            after[node] = replace(found, scored=end_ns)
    worst = max((row["score"] for row in _foretold(rows) if row["score"] is not None), default=0.0)
    whole = {"node": FLEET, "score": worst, "threshold": 1.0, "suspect_gpu": "", "reasons": [_crowd(rows)]}
    held = after.get(FLEET)
    said = _over(held, whole, end_ns, settings) if fleet else _under(held, calm=True, end_ns=end_ns, settings=settings)
    if said is not None:
        after[FLEET] = replace(said, scored=end_ns)
    lasts = to_nanoseconds(early)
    return {node: replace(_unheard(held, end_ns, lasts), silenced=node in silenced) for node, held in after.items()}


def _crowd(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    counted = _foretold(rows)
    over = sum(bool(row["alarm"]) for row in counted)
    words = f"{over} of {len(counted)} nodes are over the threshold at once; the model is suspect"
    return {"feature": "fleet", "value": over, "peers": len(counted), "effect": 1.0, "text": words}


def _unheard(held: Alert, end_ns: int, lasts_ns: int) -> Alert:
    """The alert, closed if its node has had no score for so long; one that has left the fleet has none either."""
    silent = end_ns - max(held.last, held.scored)
    return replace(held, end=end_ns) if not held.end and silent > lasts_ns else held


def _over(
    held: Alert | None, row: Mapping[str, Any], end_ns: int, settings: ScoringSettings, *, opens: bool = True
) -> Alert | None:
    """The alert of a node over the threshold."""
    if held is not None and (not held.end or end_ns - held.start < to_nanoseconds(settings.hold_off)):
        higher = row["score"] > held.score
        reasons = tuple(row["reasons"]) if higher else held.reasons
        score = max(held.score, row["score"])
        return replace(held, last=end_ns, score=score, reasons=reasons, calm=0, end=0)
    if not opens:
        return held
    name = f"{stamp(end_ns)}-{row['node'] or 'fleet'}"
    gpu, reasons = str(row["suspect_gpu"]), tuple(row["reasons"])
    return Alert(name, str(row["node"]), gpu, end_ns, end_ns, row["score"], row["threshold"], reasons)


def _under(held: Alert | None, calm: bool, end_ns: int, settings: ScoringSettings) -> Alert | None:
    """The alert of a node under the threshold."""
    if held is None or held.end:
        return held
    count = held.calm + 1 if calm else 0
    return replace(held, calm=count, end=end_ns if count >= settings.clear_windows else 0)
