"""A scheduler's record as JSON: one document or one object a line; ``sacct --json`` and slurmrestd among them.

Every scheduler has its own keys, so each column is the first of these that an object has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.readers.tally import Tally

_KEYS = {
    "job": ("job", "job_name", "jobName", "name", "job_id", "jobId", "id"),
    "attempt": ("attempt", "try", "retry", "attempt_number", "restart_cnt", "restart_count"),
    "started": ("started", "start", "start_time", "startTime", "started_at", "startedAt", "begin"),
    "ended": (
        "ended",
        "end",
        "end_time",
        "endTime",
        "ended_at",
        "endedAt",
        "finished_at",
        "completionTime",
        "finished",
    ),
    "outcome": ("outcome", "state", "job_state", "status", "result", "exit_reason"),
    "nodes": ("nodes", "node_list", "nodeList", "nodelist", "hosts", "hostnames", "NodeList"),
    "excluded": ("excluded", "excluded_nodes", "exclude", "exc_nodes", "excludedNodes", "blacklist"),
}
_LISTS = ("sessions", "jobs", "attempts", "runs", "items", "data", "results")


def tries(documents: list[Any], tally: Tally) -> list[dict[str, Any]]:
    """Objects of the documents as `pipelines.readers.sessions.table` wants them."""
    out = []
    for item in _objects(documents):
        if not isinstance(item, Mapping):
            tally.drop("no JSON object")
            continue
        out.append({column: _plain(_first(item, keys)) for column, keys in _KEYS.items()})
    return out


def _objects(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, list):
            yield from document
            continue
        inner = next(
            (
                document[name]
                for name in _LISTS
                if isinstance(document, Mapping) and isinstance(document.get(name), list)
            ),
            None,
        )
        if inner is not None and not any(isinstance(document.get(key), str) for key in _KEYS["job"]):
            yield from inner
        else:
            yield document


def _first(item: Mapping[str, Any], keys: tuple[str, ...]) -> Any:
    """The first key the object has; Slurm keeps its times one level down."""
    times = item.get("time")
    for place in (item, times if isinstance(times, Mapping) else {}):
        for key in keys:
            if place.get(key) not in (None, ""):
                return place[key]
    return None


def _plain(value: Any) -> Any:
    """Slurm's wrapped values: ``{"current": ["FAILED"]}``, ``{"set": true, "number": 17}``."""
    if isinstance(value, Mapping):
        if value.get("set") is False or value.get("infinite"):
            return None
        value = value.get("number", value.get("current"))
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str):
        return value[0]
    return value
