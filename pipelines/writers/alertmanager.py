"""Alerts to Alertmanager, API v2.

Labels are an alert's identity there: node and GPU, never a score, a time or a run, so that sending twice is sending
once. An alert is sent again at every run while it lasts; ``endsAt`` lies four strides after it is sent, so it
outlives late runs and ends by itself should foreshock fall silent. One that is over is sent with its past end.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

import orjson

from features.tables import to_ns, to_time
from pipelines import console
from pipelines.writers.post import deliver

_LONGEST = 1000  # characters of an annotation: pagers cut longer ones anywhere
_STRIDES = 4


def payload(alerts: Sequence[dict[str, Any]], now_ns: int, stride_ns: int) -> list[dict[str, Any]]:
    """The alerts as Alertmanager takes them."""
    return [_one(alert, now_ns, stride_ns) for alert in alerts]


def _one(alert: dict[str, Any], now_ns: int, stride_ns: int) -> dict[str, Any]:
    labels = {"alertname": "ForeshockNodeAtRisk" if alert["node"] else "ForeshockModelSuspect", "severity": "warning"}
    if alert["node"]:
        labels["node"] = alert["node"]
    if alert["gpu"]:
        labels["UUID"] = alert["gpu"]
    start = to_ns(alert["start"])
    end = now_ns + _STRIDES * stride_ns if alert["state"] == "firing" else to_ns(alert["end"])
    reasons = "; ".join(reason["text"] for reason in alert["reasons"]) or "see the scores"
    summary = (
        f"{alert['node']} may be about to fail"
        if alert["node"]
        else "foreshock finds too many nodes odd at once: the model is suspect, not the fleet"
    )
    return {
        "labels": labels,
        "annotations": {"summary": _shown(summary), "description": _shown(reasons)},
        "startsAt": _text(start),
        # equal times would read as resolved before it began
        "endsAt": _text(max(end, start + 1_000_000_000)),
    }


def _text(ns: int) -> str:
    return to_time(ns).isoformat().replace("+00:00", "Z")


def _shown(text: str) -> str:
    """Text that no pager takes for markup: chat messages and mails both read <...>."""
    safe = html.escape(console.printable(" ".join(text.split())), quote=False)
    return safe if len(safe) <= _LONGEST else safe[: _LONGEST - 1] + "…"


def send(url: str, alerts: Sequence[dict[str, Any]], now_ns: int, stride_ns: int) -> None:
    """Post the alerts; none is no request.

    Parameters
    ----------
    now_ns
        The moment, not before the window's end: counted from a late run's window, an open alert would be over already.

    Raises
    ------
    UpstreamError
        Alertmanager can't be reached or refuses.
    """
    if alerts:
        body = orjson.dumps(payload(alerts, now_ns, stride_ns))
        deliver("Alertmanager", "POST", f"{url.rstrip('/')}/api/v2/alerts", body, "application/json")
