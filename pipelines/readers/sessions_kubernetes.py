"""Kubernetes' record of jobs: ``kubectl get jobs,pods,events -A -o json``, whole or an object a line.

Jobs say when they began and how they ended, pods on which node they ran; events say both, but the cluster forgets
them after an hour unless they are exported. A job's pods that began together are one try of it; kinds that own pods
through another (PyTorchJob, JobSet) are known by their pods' labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Any

from pipelines.readers.stamps import iso
from pipelines.readers.tally import Tally

_KINDS = frozenset({"Job", "Pod", "Event"})
_TOGETHER_S = 120  # pods of one try are placed within this
_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "batch.kubernetes.io/job-name",
    "volcano.sh/job-name",
    "job-name",
)
_POD_SUFFIX = re.compile(r"(-\d+)?-[a-z0-9]{5}$|-(master|worker|launcher|ps)-\d+$")
_PLACED = re.compile(r"Successfully assigned \S+ to (\S+)")
_GOOD = frozenset({"Completed", "JobComplete", "Complete", "SuccessCriteriaMet", "Succeeded"})
_BAD = frozenset(
    {
        *("BackoffLimitExceeded", "DeadlineExceeded", "Failed", "BackOff", "OOMKilling", "OOMKilled", "Evicted"),
        *("NodeNotReady", "Error", "NodeLost", "PodFailurePolicy"),
    }
)
# Somebody or something more important ended it; a pod that is done or broken is told so beside
_STOPPED = frozenset({"Killing", "Preempted", "Preempting", "SuspendedJob", "Suspended"})


def is_listing(documents: list[Any]) -> bool:
    """Whether these are objects of Kubernetes."""
    first = next(_objects(documents), None)
    return (
        isinstance(first, Mapping) and str(first.get("kind")) in _KINDS and isinstance(first.get("metadata"), Mapping)
    )


def tries(documents: list[Any], tally: Tally) -> list[dict[str, Any]]:
    """Tries as `pipelines.readers.sessions.table` wants them."""
    begun: dict[str, list[dict[str, Any]]] = {}  # of each job: pods with their times
    ends: dict[str, list[tuple[float, str]]] = {}  # of each job: when something ended, and how
    alone: list[dict[str, Any]] = []  # jobs, for those without pods
    for item in _objects(documents):
        if not isinstance(item, Mapping) or str(item.get("kind")) not in _KINDS:
            tally.drop("object of another kind")
        elif item["kind"] == "Job":
            alone.append(_job(item, ends))
        elif item["kind"] == "Pod":
            _pod(item, begun, ends, tally)
        else:
            _event(item, begun, ends, tally)
    out = [one for job, pods in begun.items() for one in _tried(job, pods, sorted(ends.get(job, [])))]
    out += [one for one in alone if one["job"] not in begun]
    tally.note("several objects told one try", max(0, sum(map(len, begun.values())) - len(out)))
    return out


def _objects(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        inner = document.get("items") if isinstance(document, Mapping) else document
        # `kubectl get --watch` wraps each object
        if isinstance(document, Mapping) and "object" in document and "kind" not in document:
            inner = [document["object"]]
        if isinstance(inner, list):
            yield from inner
        else:
            yield document


def _job(item: Mapping[str, Any], ends: dict[str, list[tuple[float, str]]]) -> dict[str, Any]:
    status, name = _inside(item, "status"), _name(item)
    ended, outcome = status.get("completionTime"), ""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else []:
        if (
            isinstance(condition, Mapping)
            and condition.get("status") == "True"
            and condition.get("type") in ("Complete", "Failed")
        ):
            outcome = "completed" if condition["type"] == "Complete" else "failed"
            ended = ended or condition.get("lastTransitionTime")
    if outcome and (time := _seconds(ended)) is not None:
        ends.setdefault(name, []).append((time, outcome))
    return {
        "job": name,
        "started": status.get("startTime"),
        "ended": ended,
        "outcome": outcome,
        "nodes": [],
        "excluded": [],
    }


def _pod(
    item: Mapping[str, Any],
    begun: dict[str, list[dict[str, Any]]],
    ends: dict[str, list[tuple[float, str]]],
    tally: Tally,
) -> None:
    labels, status = _inside(_inside(item, "metadata"), "labels"), _inside(item, "status")
    own = next((str(labels[key]) for key in _JOB_LABELS if labels.get(key)), "")
    started, node = _seconds(status.get("startTime")), _inside(item, "spec").get("nodeName")
    if not own or started is None:
        tally.drop("pod of no job" if not own else "pod that has not started")
        return
    name = _named(item, own)
    states = status.get("containerStatuses")
    over = [
        _seconds(_inside(_inside(one, "state"), "terminated").get("finishedAt"))
        for one in (states if isinstance(states, list) else [])
        if isinstance(one, Mapping)
    ]
    known = [time for time in over if time is not None]
    phase = str(status.get("phase", ""))
    begun.setdefault(name, []).append({"time": started, "node": node})
    if phase in ("Succeeded", "Failed") and known:
        ends.setdefault(name, []).append((max(known), "completed" if phase == "Succeeded" else "failed"))


def _event(
    item: Mapping[str, Any],
    begun: dict[str, list[dict[str, Any]]],
    ends: dict[str, list[tuple[float, str]]],
    tally: Tally,
) -> None:
    about = _inside(item, "involvedObject") or _inside(item, "regarding")
    kind, reason = about.get("kind"), str(item.get("reason", ""))
    moments = (item.get(key) for key in ("lastTimestamp", "eventTime", "deprecatedLastTimestamp", "firstTimestamp"))
    time = next((found for moment in moments if (found := _seconds(moment)) is not None), None)
    own = str(about.get("name", ""))
    if time is None or not own or kind not in ("Job", "Pod"):
        tally.drop("event of another kind of object" if time is not None else "event without a time")
        return
    job = f"{about.get('namespace') or 'default'}/{own if kind == 'Job' else _POD_SUFFIX.sub('', own)}"
    placed = _PLACED.match(str(item.get("message") or item.get("note") or ""))
    if placed:
        begun.setdefault(job, []).append({"time": time, "node": placed[1]})
    elif reason in _GOOD | _BAD | _STOPPED:
        outcome = "completed" if reason in _GOOD else "failed" if reason in _BAD else "stopped"
        ends.setdefault(job, []).append((time, outcome))
    else:
        tally.drop(f"event that neither begins nor ends a try ({reason[:40] or 'no reason'})")


def _tried(job: str, pods: list[dict[str, Any]], ends: list[tuple[float, str]]) -> Iterator[dict[str, Any]]:
    """Pods placed together are one try; it ended when the first of them broke, or the last when the first was done."""
    pods = sorted(pods, key=lambda pod: float(pod["time"]))
    waves: list[list[dict[str, Any]]] = []
    for pod in pods:
        if waves and pod["time"] - waves[-1][0]["time"] <= _TOGETHER_S:
            waves[-1].append(pod)
        else:
            waves.append([pod])
    for place, wave in enumerate(waves):
        start = wave[0]["time"]
        until = waves[place + 1][0]["time"] if place + 1 < len(waves) else float("inf")
        ended, outcome = _ending([(time, outcome) for time, outcome in ends if start <= time <= until])
        yield {
            "job": job,
            "started": start,
            "ended": ended,
            "outcome": outcome,
            "nodes": [str(pod["node"]) for pod in wave if pod["node"]],
            "excluded": [],
        }


def _ending(ends: list[tuple[float, str]]) -> tuple[float | None, str]:
    """When a try ended and how; ``ends`` in time order."""
    told = [end for end in ends if end[1] != "stopped"]
    if told:
        return told[0] if told[0][1] == "failed" else (told[-1][0], "completed")
    return ends[0] if ends else (None, "")


def _name(item: Mapping[str, Any]) -> str:
    return _named(item, str(_inside(item, "metadata").get("name", "")))


def _named(item: Mapping[str, Any], name: str) -> str:
    return f"{_inside(item, 'metadata').get('namespace') or 'default'}/{name}"


def _inside(item: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = item.get(key)
    return found if isinstance(found, Mapping) else {}


def _seconds(told: object) -> float | None:
    """Seconds since 1970 of Kubernetes' RFC 3339."""
    found = iso(told, UTC) if isinstance(told, str) else None
    return None if found is None else found / 1e9
