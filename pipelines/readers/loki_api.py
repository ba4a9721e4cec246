"""A running Loki over its HTTP API: ``/loki/api/v1/query_range``, page after page.

https://grafana.com/docs/loki/latest/reference/loki-http-api/
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
import pandas as pd

from features.tables import UpstreamError, to_time
from pipelines.readers import json_lines
from pipelines.readers.context import LogContext
from pipelines.readers.lines import Rows
from pipelines.readers.logs import frames
from pipelines.readers.prometheus_api import Server, connect, persist
from pipelines.readers.tally import Tally

ALL = '{job=~".+"}'  # Loki wants a label that is not empty
PAGE = 5000  # lines a request: what servers allow unless told otherwise
_FLOOR_NS = 60_000_000_000  # a range is not halved below this
_LEAST_PAGE = 100
_TOO_MUCH = frozenset({400, 413, 422, 504})  # answers of servers for which a shorter range or page may do
_Entry = tuple[int, str, bytes]  # time, line, labels as JSON


@dataclass
class _Pull:
    """One `fetch`: the open client, and how much is asked for at once."""

    client: httpx.Client
    server: Server
    query: str
    page: int
    range_ns: int


def fetch(
    server: Server,
    start_ns: int,
    end_ns: int,
    tally: Tally,
    *,
    context: LogContext,
    query: str = ALL,
    page: int = PAGE,
    transport: httpx.BaseTransport | None = None,
) -> Iterator[pd.DataFrame]:
    """Frames of `LOGS` of the lines in ``[start_ns, end_ns)`` that a LogQL query selects, in time order.

    A page that is full is followed by one from its last line's time on, so that a server's limit never looks like a
    quiet hour; more lines of one nanosecond than a page holds can't be had, and are counted.

    Raises
    ------
    UpstreamError
        The server can't be reached, refuses, or finds even the shortest range too much.
    """
    with connect(server, transport) as client:
        pull = _Pull(client, server, query, page, server.chunk_seconds * 1_000_000_000)
        yield from frames(_rows(pull, start_ns, end_ns, context, tally), context, tally)


def _rows(pull: _Pull, start_ns: int, end_ns: int, context: LogContext, tally: Tally) -> Iterator[Rows]:
    low = start_ns
    seen: Counter[_Entry] = Counter()  # lines of the moment at which the last page broke off
    while low < end_ns:
        high = min(low + pull.range_ns, end_ns)
        try:
            entries = _ask(pull, low, high)
        except _TooMuchError as error:
            _ask_less(pull, error)
            continue
        full = len(entries) >= pull.page
        last = entries[-1][0] if entries else low
        fresh = []
        for entry in entries:
            if seen[entry] > 0:
                seen[entry] -= 1
            else:
                fresh.append(entry)
        tally.read += len(fresh)
        yield json_lines.rows([_document(entry) for entry in fresh], context, tally)
        if not full:
            low, seen = high, Counter()
        elif last > low:
            low, seen = last, Counter(entry for entry in entries if entry[0] == last)
        else:
            tally.note("moments with more lines than a page")
            tally.hint(
                f"{to_time(last)} holds more lines than the {pull.page} that Loki gives at once; the others are lost: "
                "raise max_entries_limit_per_query"
            )
            low, seen = last + 1, Counter()


def _document(entry: _Entry) -> dict[str, Any]:
    time, line, labels = entry
    return {"labels": orjson.loads(labels), "timestamp": str(time), "line": line}


class _TooMuchError(Exception):
    """The server refused; less at once may do."""


def _ask_less(pull: _Pull, error: Exception) -> None:
    """Halve the page or the range, by what the server finds too much."""
    if "entries limit" in str(error) and pull.page // 2 >= _LEAST_PAGE:
        pull.page //= 2
    elif pull.range_ns // 2 >= _FLOOR_NS:
        pull.range_ns //= 2
    else:
        raise UpstreamError(f"{pull.server.shown} refuses even {_FLOOR_NS // 10**9}s at a time ({error})") from error


def _ask(pull: _Pull, low: int, high: int) -> list[_Entry]:
    """One page of lines, in time order."""
    asked = {"query": pull.query, "start": str(low), "end": str(high), "limit": str(pull.page), "direction": "forward"}
    response = persist(pull.server, lambda: pull.client.get("/loki/api/v1/query_range", params=asked))
    try:
        answer = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        answer = None  # Loki tells its errors as plain text
    said = "" if answer is not None else " ".join(response.text.split())[:200]
    if response.status_code in _TOO_MUCH and "parse error" not in said:
        raise _TooMuchError(said or f"status {response.status_code}")
    data = answer.get("data") if isinstance(answer, dict) else None
    if response.is_error or not isinstance(data, dict) or data.get("resultType") != "streams":
        raise UpstreamError(
            f"{pull.server.shown} answers {response.status_code}: {said or 'no streams of lines'}; check the address, "
            "--header and --loki-query"
        )
    found = []
    for stream in data.get("result") or []:
        labels = orjson.dumps(stream.get("stream") or {}, option=orjson.OPT_SORT_KEYS)
        found += [(int(value[0]), str(value[1]), labels) for value in stream.get("values") or []]
    return sorted(found)
