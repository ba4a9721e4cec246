"""A running Prometheus (or Thanos, Mimir, VictoriaMetrics) over its HTTP API.

Raw samples by range selectors (``m[1h]``) are asked for first: ``query_range`` repeats a dead series for five
minutes (its look-back), which moves the moment at which a GPU vanished.

https://prometheus.io/docs/prometheus/latest/querying/api/
"""

from __future__ import annotations

import gc
import queue
import random
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import httpx
import numpy as np
import orjson

from features.tables import UpstreamError, UsageError
from pipelines.readers.prometheus_json import parse
from pipelines.readers.samples import EARLIEST_NS, ReadContext, SampleChunk, clean
from pipelines.readers.tally import Tally

if TYPE_CHECKING:
    from pipelines.readers.answers import Decoded

MOST_POINTS = 11_000  # of a series in one query_range answer; Prometheus refuses more
_SECOND_NS = 1_000_000_000
_MS_NS = 1_000_000
_FLOOR_SECONDS = 60  # a chunk is not halved below this
_TOO_MUCH = frozenset({400, 413, 422, 504})  # answers of servers for which a shorter range may do
_AGAIN = frozenset({429, 500, 502, 503})
_MOST_BYTES = 512 << 20  # of one answer, unpacked: a shorter range is asked for instead
_MOST_TIMEOUTS = 5  # that one answer may take in all, however steadily it drips
_LARGE = 1 << 20  # bytes of an answer from which on the compiled reader pays
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

    def __post_init__(self) -> None:
        """UsageError when the address is none."""
        if not self.url.lower().startswith(("http://", "https://")):
            raise UsageError(f"{self.url}: no address of a server; write one as http://prometheus:9090")

    @property
    def shown(self) -> str:
        """The address without any password in it."""
        return re.sub(r"://[^/\s]+@", "://***@", self.url)


class _Answer(NamedTuple):
    """A response, and the span whose samples are wanted of it."""

    response: httpx.Response
    start_ns: int
    end_ns: int


class _TooMuchError(Exception):
    """The server refused; a shorter range may do."""


_Ask = Callable[[str, dict[str, str]], httpx.Response]


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
    with Pull(server, (start_ns, end_ns), match, tally, step_ns=step_ns, transport=transport) as pull:
        yield from pull


class Pull:
    """A `fetch` under way: the server is asked from the beginning on, and for the next answer while one is read."""

    def __init__(
        self,
        server: Server,
        span: tuple[int, int],
        match: Sequence[str],
        tally: Tally,
        *,
        step_ns: int | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._server, self._span, self._match, self._step = server, span, tuple(match) or _ALL, step_ns
        self._tally, self._context = tally, ReadContext(latest_ns=span[1])
        self._client = connect(server, transport)
        self._answers: queue.Queue[_Answer | BaseException | None] = queue.Queue(maxsize=1)
        self._over = threading.Event()
        # a daemon: a run that fails need not wait for an answer that it will not read
        self._thread = threading.Thread(target=self._ask_all, name="prometheus", daemon=True)

    def __enter__(self) -> Self:
        """Ask."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Ask no more."""
        self._over.set()

    def __iter__(self) -> Iterator[SampleChunk]:
        """The samples, once.

        Raises
        ------
        UpstreamError
            As `fetch`.
        """
        while (found := self._answers.get()) is not None:
            if isinstance(found, BaseException):
                raise found
            yield from _samples(found, self._server, self._tally, self._context)
        self._thread.join()

    def _ask_all(self) -> None:
        """The thread's work."""
        try:
            with self._client:
                for selector in self._match:
                    by = _raw(self._ask, selector, self._span, self._server)
                    if self._step is not None:
                        by = _stepped(self._ask, selector, self._span, self._step, self._server)
                    for answer in by:
                        if not self._put(answer):
                            return
            self._put(None)
        except BaseException as error:  # noqa: BLE001  # raised where the answers are read
            self._put(error)

    def _put(self, found: _Answer | BaseException | None) -> bool:
        while not self._over.is_set():
            try:
                self._answers.put(found, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def _post(self, path: str, query: dict[str, str]) -> httpx.Response:
        """The answer as an object of its own: a response and its stream keep each other, and so the bytes, alive."""
        until, size, parts = time.monotonic() + _MOST_TIMEOUTS * self._server.timeout_seconds, 0, list[bytes]()
        with self._client.stream("POST", path, data=query) as response:
            for part in response.iter_bytes():
                size += len(part)
                if size > _MOST_BYTES:
                    said = f'{{"error":"more than {_MOST_BYTES >> 20} MiB in one answer"}}'
                    return httpx.Response(httpx.codes.REQUEST_ENTITY_TOO_LARGE, content=said.encode())
                if time.monotonic() > until:
                    raise UpstreamError(f"{self._server.shown}: an answer had no end; is this a Prometheus API?")
                parts.append(part)
        return httpx.Response(response.status_code, content=b"".join(parts))

    def _ask(self, path: str, query: dict[str, str]) -> httpx.Response:
        """One request; POST, since long selectors do not fit in an address."""
        response = persist(self._server, lambda: self._post(path, query))
        if response.status_code in _TOO_MUCH:
            said = _said(response)
            if "parse error" not in said:
                raise _TooMuchError(said or f"status {response.status_code}")
        return response


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
        verify=not server.url.startswith("http://"),  # reading the certificates takes a tenth of a second
    )


def _raw(ask: _Ask, selector: str, span: tuple[int, int], server: Server) -> Iterator[_Answer]:
    """By ``selector[range]`` at instants; a range holds (t - range, t] or [t - range, t] by the server's version."""
    low, chunk = span[0] // _MS_NS, server.chunk_seconds * 1000
    end = -(-span[1] // _MS_NS)
    while low < end:
        high = min(low + chunk, end)
        # one millisecond past either edge, so that both versions give what lies between; the edges are cut below
        query = {"query": f"{selector}[{high - low + 1}ms]", "time": _seconds(high)}
        try:
            response = ask("/api/v1/query", query)
        except _TooMuchError as error:
            chunk = _halve(chunk, error, server)
            continue
        yield _Answer(response, max(low * _MS_NS, span[0]), min(high * _MS_NS, span[1]))
        low = high


def _stepped(ask: _Ask, selector: str, span: tuple[int, int], step_ns: int, server: Server) -> Iterator[_Answer]:
    """By ``query_range`` on the step's own grid, with both ends of a request in its answer."""
    step = step_ns // _MS_NS
    low, end = -(-span[0] // step_ns) * step, span[1] // _MS_NS
    chunk = step * (MOST_POINTS - 1)
    while low < end:
        points = max(1, min(chunk // step, -(-(end - low) // step)))
        high = low + (points - 1) * step
        query = {"query": selector, "start": _seconds(low), "end": _seconds(high), "step": _seconds(step)}
        try:
            response = ask("/api/v1/query_range", query)
        except _TooMuchError as error:
            chunk = _halve(chunk, error, server)
            continue
        yield _Answer(response, low * _MS_NS, high * _MS_NS + 1)
        low = high + step


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000}.{milliseconds % 1000:03d}"


def _halve(chunk: int, error: Exception, server: Server) -> int:
    if chunk // 2 < _FLOOR_SECONDS * 1000:
        raise UpstreamError(
            f"{server.shown} refuses even {_FLOOR_SECONDS}s at a time ({error}); narrow what is asked for by --match"
        ) from error
    return chunk // 2


def _samples(found: _Answer, server: Server, tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """An answer's samples inside its span; those outside belong to another request and are not counted."""
    span = found.start_ns, found.end_ns
    if found.response.status_code == httpx.codes.OK and len(found.response.content) >= _LARGE:
        from pipelines.readers import answers  # noqa: PLC0415  # its compiler is loaded while the server works

        decoded = answers.decode(found.response.content)
        if decoded is not None and isinstance(decoded.envelope, dict) and decoded.envelope.get("status") == "success":
            yield from _cut_decoded(decoded, span, tally, context)
            return
    for entry in _entries(found.response, server):
        if not isinstance(entry, dict):
            tally.drop("entry of another shape")
            continue
        counted = Tally()
        for chunk in parse(entry, counted, context):
            yield from _inside(chunk, span, counted)
        tally.add(counted)


def _cut_decoded(found: Decoded, span: tuple[int, int], tally: Tally, context: ReadContext) -> Iterator[SampleChunk]:
    """As of entries, of all series at once."""
    times = found.times * _MS_NS
    good = np.isfinite(found.values) & (times >= max(span[0], EARLIEST_NS)) & (times < span[1])
    whole = np.logical_and.reduceat(good, found.edges[:-1]) if len(found.labels) else good
    edges = found.edges.tolist()
    tally.keep(int(np.diff(found.edges)[whole].sum()))
    for at, (labels, sound) in enumerate(zip(found.labels, whole.tolist(), strict=True)):
        own = slice(edges[at], edges[at + 1])
        if sound:
            yield SampleChunk(labels, times[own], found.values[own])
            continue
        counted = Tally()
        chunk = clean(labels, times[own], found.values[own], counted, context.latest_ns)
        if chunk is not None:
            yield from _inside(chunk, span, counted)
        tally.add(counted)


def _inside(chunk: SampleChunk, span: tuple[int, int], counted: Tally) -> Iterator[SampleChunk]:
    inside = (chunk.times >= span[0]) & (chunk.times < span[1])
    outside = int((~inside).sum())
    counted.ok -= outside
    counted.read -= outside
    if outside:
        chunk = SampleChunk(chunk.labels, chunk.times[inside], chunk.values[inside])
    if len(chunk.times):
        yield chunk


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


def _said(response: httpx.Response) -> str:
    """The error that an answer tells of."""
    try:
        answer = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        return ""
    return str(answer.get("error", "")) if isinstance(answer, dict) else ""


def _entries(response: httpx.Response, server: Server) -> list[Any]:
    """The result entries of an answer."""
    try:
        answer = _loads(response.content)
    except orjson.JSONDecodeError:
        answer = None
    if response.is_error or not isinstance(answer, dict) or answer.get("status") != "success":
        raise UpstreamError(
            f"{server.shown} answers {response.status_code}: {_said(response) or 'not a Prometheus API answer'}; check "
            "the address, --header and --match"
        )
    data = answer.get("data")
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, list):
        raise UpstreamError(f"{server.shown}: the answer holds no result list; is this a Prometheus API?")
    return result
