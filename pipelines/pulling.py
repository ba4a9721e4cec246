"""Samples and lines of running servers into the staging folder, a day at a time."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from features.tables import UsageError, to_ns, to_time
from pipelines.config import IngestSettings
from pipelines.grid import DAY_NS
from pipelines.identity import Identifier
from pipelines.readers import loki_api, prometheus_api
from pipelines.readers.context import LogContext
from pipelines.readers.tally import Tally
from pipelines.staging import Staged, stage_chunks, tally_record
from pipelines.store import Store


@dataclass(frozen=True)
class Prometheus:
    """What to pull from a running server: ``[start, end)`` of the series that match."""

    url: str
    start: pd.Timestamp
    end: pd.Timestamp
    match: tuple[str, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Loki:
    """What to pull from a running Loki: lines in ``[start, end)`` that a LogQL query selects."""

    url: str
    start: pd.Timestamp
    end: pd.Timestamp
    query: str = loki_api.ALL
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Said:
    """What the user says about all inputs: settings, the name of what names none, and both as a digest."""

    ingest: IngestSettings
    node: str
    digest: bytes


def pull(
    store: Store, server: Prometheus | Loki, said: Said, context: LogContext, say: Callable[[str], None]
) -> dict[str, Any]:
    """A span of a server, and what came of it; days that were whole when a run broke off are not pulled again.

    Raises
    ------
    UsageError
        The end is not after the start.
    UpstreamError
        The server can't be reached or refuses.
    """
    if server.end <= server.start:
        raise UsageError("--end is not after --start")
    whole, shown = Tally(), prometheus_api.Server(server.url).shown
    kind = "prometheus-api" if isinstance(server, Prometheus) else "loki-api"
    for low, high in _days(to_ns(server.start), to_ns(server.end)):
        asked = json.dumps([server.url, server.match if isinstance(server, Prometheus) else server.query, low, high])
        digest = hashlib.sha256(asked.encode() + said.digest).hexdigest()
        done = store.path / "staging" / digest / "done.json"
        if not done.exists():
            say(f"pulling {to_time(low)} to {to_time(high)} from {shown}")
            _stage_day(Staged(done.parent, store.step_ns, said.ingest.memory_bytes), server, (low, high), said, context)
        record = json.loads(done.read_bytes())["record"]
        whole.add(
            Tally(record["read"], record["ok"], Counter(record["rejected"]), Counter(record["noted"]), record["hints"])
        )
    return {**tally_record(shown, kind, whole), "already": False}


def _stage_day(
    staged: Staged, server: Prometheus | Loki, span: tuple[int, int], said: Said, context: LogContext
) -> None:
    tally = Tally()
    asked = prometheus_api.Server(server.url, server.headers)
    if isinstance(server, Prometheus):
        chunks = prometheus_api.fetch(asked, *span, server.match, tally)
        stage_chunks(chunks, Identifier(said.ingest, said.node), staged, tally)
        staged.finish(tally_record(asked.shown, "prometheus-api", tally))
        return
    for frame in loki_api.fetch(asked, *span, tally, context=context, query=server.query):
        staged.add_logs(frame, ordered=False)
    staged.finish(tally_record(asked.shown, "loki-api", tally))


def _days(start_ns: int, end_ns: int) -> Iterator[tuple[int, int]]:
    """The span cut at every midnight in UTC."""
    low = start_ns
    while low < end_ns:
        high = min((low // DAY_NS + 1) * DAY_NS, end_ns)
        yield low, high
        low = high
