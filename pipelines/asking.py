"""Asking a server, before the models that will judge its answer are loaded: a start takes the time of a few imports.

Here is only what the first request needs; the rest of the job is in `pipelines.judging`, which is imported while the
server works.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from features.settings import to_nanoseconds
from features.windows import reach
from pipelines.frozen import Terms
from pipelines.readers import prometheus_api
from pipelines.readers.tally import Tally

CONTEXT = 25  # windows before the judged one that its score depends on; a test holds it to the models' look-back
_NAMES = 60  # metric names of one selector: servers limit the length of a query
AT_ONCE = 10_800  # seconds asked for in one request: a window's whole reach, so that labels come once


@dataclass(frozen=True)
class Source:
    """One of the two: a store's folder, or a Prometheus address with log files, folders, or a Loki address."""

    store: Path | None = None
    prometheus: str | None = None
    logs: tuple[Path, ...] = ()
    loki: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Asked:
    """A pull of the samples in ``[start_ns, end_ns)`` that is under way, and where its records are counted."""

    pull: prometheus_api.Pull
    tally: Tally
    start_ns: int
    end_ns: int


def with_context(ends: Sequence[int], stride_ns: int) -> list[int]:
    """The windows' ends with those before them that scores depend on, ascending."""
    return [*(min(ends) - stride_ns * back for back in range(CONTEXT, 0, -1)), *ends]


@contextmanager
def asked(source: Source, terms: Terms, ends: Sequence[int]) -> Iterator[Asked | None]:
    """Ask a server for all that these window ends depend on; None of a store, which is read when it is needed."""
    if source.prometheus is None or not ends:
        yield None
        return
    whole = with_context(ends, to_nanoseconds(terms.features.window.stride))
    start, end, tally = min(whole) - reach(terms.features), max(whole), Tally()
    server = prometheus_api.Server(source.prometheus, source.headers, chunk_seconds=AT_ONCE)
    with prometheus_api.Pull(server, (start, end), selectors(terms.metrics), tally) as pull:
        yield Asked(pull, tally, start, end)


def selectors(metrics: Sequence[str]) -> list[str]:
    """Selectors that ask for just these metrics."""
    return [f'{{__name__=~"{"|".join(metrics[start : start + _NAMES])}"}}' for start in range(0, len(metrics), _NAMES)]
