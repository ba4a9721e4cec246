"""A running Prometheus (or Thanos, Mimir, VictoriaMetrics) over its HTTP API.

Raw samples by range selectors (``m[1h]``) are asked for first: ``query_range`` repeats a dead series for five
minutes (its look-back), which moves the moment at which a GPU vanished.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import gc
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import orjson

from features.tables import UpstreamError
from pipelines.readers.prometheus_json import parse
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally

MOST_POINTS = 11_000  # of a series in one query_range answer; Prometheus refuses more
_SECOND_NS = 1_000_000_000
_MS_NS = 1_000_000
_FLOOR_SECONDS = 60  # a chunk is not halved below this
_TOO_MUCH = frozenset({400, 413, 422, 504})  # answers of servers for which a shorter range may do
_AGAIN = frozenset({429, 500, 502, 503})
_ALL = ('{__name__=~".+"}',)


@dataclass(frozen=True)
class Server:
    """Where and how to ask.

    Attributes
    ----------
    url
        Base address, without ``/api/v1``.
    headers
        Sent with every request, such as a tenant's.
    chunk_seconds
        Length of one request for raw samples; halved when the server finds it too much.
    tries
        Of one request, when the server can't be reached or is busy.
    pause_seconds
        Before the second try; doubled before each further one, plus up to half of it by chance.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    chunk_seconds: int = 3600
    timeout_seconds: float = 60.0
    tries: int = 4
    pause_seconds: float = 0.5

    @property
    def shown(self) -> str:
        """The address without any password in it."""
        return re.sub(r"://[^/@\s]+@", "://***@", self.url)


@dataclass(frozen=True)
class _Pull:
    """One `fetch`: the open client and where counts go."""

    client: httpx.Client
    server: Server
    tally: Tally
    context: ReadContext


class _TooMuchError(Exception):
    """The server refused; a shorter range may do."""


def fetch(
    server: Server,
    start_ns: int,
    end_ns: int,
    match: Sequence[str],
    tally: Tally,
    *,
    step_ns: int | None = None,
    transport: httpx.BaseTransport | None = None,
) -> Iterator[SampleChunk]:
    """Samples in ``[start_ns, end_ns)`` of all series that match one of the selectors (all series when there is none).

    With ``step_ns`` they are asked for by ``query_range`` at that step instead of raw, for servers that limit
    raw selectors.

    Raises
    ------
    UpstreamError
        The server can't be reached, refuses, or finds even the shortest range too much.
    """
    with connect(server, transport) as client:
        pull = _Pull(client, server, tally, ReadContext(latest_ns=end_ns))
        for selector in match or _ALL:
            if step_ns is None:
                yield from _raw(pull, selector, (start_ns, end_ns))
            else:
                yield from _stepped(pull, selector, (start_ns, end_ns), step_ns)


def connect(server: Server, transport: httpx.BaseTransport | None = None) -> httpx.Client:
    """An open client; a password in the address goes into a header, since httpx logs addresses."""
    try:
        address = httpx.URL(server.url.rstrip("/"))
    except httpx.InvalidURL as error:
        raise UpstreamError(f"{server.shown} is no address: {error}; write it as http://HOST:PORT") from error
    return httpx.Client(
        base_url=address.copy_with(username=None, password=None) if address.userinfo else address,
        auth=(address.username, address.password) if address.userinfo else None,
        headers=dict(server.headers),
        timeout=server.timeout_seconds,
        transport=transport,
    )


def _raw(pull: _Pull, selector: str, span: tuple[int, int]) -> Iterator[SampleChunk]:
    """By ``selector[range]`` at instants; a range holds (t - range, t] or [t - range, t] by the server's version."""
    low, chunk = span[0] // _MS_NS, pull.server.chunk_seconds * 1000
    end = -(-span[1] // _MS_NS)
    while low < end:
        high = min(low + chunk, end)
        # one millisecond past either edge, so that both versions give what lies between; the edges are cut below
        query = {"query": f"{selector}[{high - low + 1}ms]", "time": _seconds(high)}
        try:
            entries = _ask(pull, "/api/v1/query", query)
        except _TooMuchError as error:
            chunk = _halve(chunk, error, pull.server)
            continue
        yield from _cut(entries, (max(low * _MS_NS, span[0]), min(high * _MS_NS, span[1])), pull)
        low = high


def _stepped(pull: _Pull, selector: str, span: tuple[int, int], step_ns: int) -> Iterator[SampleChunk]:
    """By ``query_range`` on the step's own grid, with both ends of a request in its answer."""
    step = step_ns // _MS_NS
    low, end = -(-span[0] // step_ns) * step, span[1] // _MS_NS
    chunk = step * (MOST_POINTS - 1)
    while low < end:
        points = max(1, min(chunk // step, -(-(end - low) // step)))
        high = low + (points - 1) * step
        query = {"query": selector, "start": _seconds(low), "end": _seconds(high), "step": _seconds(step)}
        try:
            entries = _ask(pull, "/api/v1/query_range", query)
        except _TooMuchError as error:
            chunk = _halve(chunk, error, pull.server)
            continue
        yield from _cut(entries, (low * _MS_NS, high * _MS_NS + 1), pull)
        low = high + step


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _halve(chunk: int, error: Exception, server: Server) -> int:
    if chunk // 2 < _FLOOR_SECONDS * 1000:
        raise UpstreamError(
            f"{server.shown} refuses even {_FLOOR_SECONDS}s at a time ({error}); narrow what is asked for by --match"
        ) from error
    return chunk // 2


def _cut(entries: list[Any], span: tuple[int, int], pull: _Pull) -> Iterator[SampleChunk]:
    """The entries' samples inside the span; those outside belong to another request and are not counted."""
    for entry in entries:
        if not isinstance(entry, dict):
            pull.tally.drop("entry of another shape")
            continue
        counted = Tally()
        for chunk in parse(entry, counted, pull.context):
            inside = (chunk.times >= span[0]) & (chunk.times < span[1])
            outside = int((~inside).sum())
            counted.ok -= outside
            counted.read -= outside
            if not inside.all():
                chunk = SampleChunk(chunk.labels, chunk.times[inside], chunk.values[inside])  # noqa: PLW2901  # the same chunk, cut
            if len(chunk.times):
                yield chunk
        pull.tally.add(counted)


def _ask(pull: _Pull, path: str, query: dict[str, str]) -> list[Any]:
    """One request; POST, since long selectors do not fit in an address."""
    return _entries(persist(pull.server, lambda: pull.client.post(path, data=query)), pull.server)


def persist(server: Server, request: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer to a request, which is made again after a pause while the server is away or busy.

    Raises
    ------
    UpstreamError
        It stays so, or the address is none.
    """
    pause = server.pause_seconds
    reason = ""
    for attempt in range(server.tries):
        if attempt:
            time.sleep(pause * (1 + random.random() / 2))  # noqa: S311  # spreads retries, guards nothing
            pause *= 2
        try:
            response = request()
        except httpx.TimeoutException as error:
            reason = f"no answer within {server.timeout_seconds:g}s ({type(error).__name__})"
            continue
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            continue
        except httpx.InvalidURL as error:
            raise UpstreamError(f"{server.shown} is no address: {error}; write it as http://HOST:PORT") from error
        if response.status_code in _AGAIN:
            reason = f"status {response.status_code}"
            continue
        return response
    raise UpstreamError(
        f"{server.shown} can't be reached: {reason}, {server.tries} times; check the address and that it runs"
    )


def _loads(content: bytes) -> Any:
    """JSON with the garbage collector at rest: it would walk millions of new lists, none of which is garbage."""
    running = gc.isenabled()
    gc.disable()
    try:
        return orjson.loads(content)
    finally:
        if running:
            gc.enable()


def _entries(response: httpx.Response, server: Server) -> list[Any]:
    """The result entries of an answer."""
    try:
        answer = _loads(response.content)
    except orjson.JSONDecodeError:
        answer = None
    said = str(answer.get("error", "")) if isinstance(answer, dict) else ""
    if response.status_code in _TOO_MUCH and "parse error" not in said:
        raise _TooMuchError(said or f"status {response.status_code}")
    if response.is_error or not isinstance(answer, dict) or answer.get("status") != "success":
        raise UpstreamError(
            f"{server.shown} answers {response.status_code}: {said or 'not a Prometheus API answer'}; check the "
            "address, --header and --match"
        )
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, list):
        raise UpstreamError(f"{server.shown}: the answer holds no result list; is this a Prometheus API?")
    return result
