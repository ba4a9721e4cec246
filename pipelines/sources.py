"""Where live windows come from: a store that an export fills, or a running Prometheus with logs beside it."""

from __future__ import annotations

import hashlib
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from features import gauge
from features.matrix import reach
from features.tables import InputError, Panel, Series, to_time
from pipelines import failures, live, log_sources
from pipelines.asking import Asked, Source, selectors
from pipelines.config import Config
from pipelines.frozen import Frozen
from pipelines.grid import DAY_NS
from pipelines.readers import prometheus_api
from pipelines.readers.samples import SampleChunk
from pipelines.readers.tally import Tally
from pipelines.store import Store
from pipelines.watch import SPAN_NS, Evidence, Hindsight, Watch, known_gpus

log = logging.getLogger(__name__)

_PAUSE_NS = 12 * 3_600_000_000_000  # a job that slept longer says that it reads the week again


@dataclass(frozen=True)
class Moment:
    """All that some window ends depend on."""

    panels: dict[str, Panel]
    logs: pd.DataFrame
    past: Hindsight
    gpus: pd.DataFrame
    nodes: tuple[str, ...]
    heard: tuple[str, ...]
    step_ns: int
    rejected: Counter[str]
    watch: Watch


def take(
    source: Source,
    frozen: Frozen,
    config: Config,
    ends_ns: Sequence[int],
    watch: Watch | None = None,
    under_way: Asked | None = None,
) -> Moment:
    """Samples, lines and past of these window ends.

    Parameters
    ----------
    watch
        What was seen by an earlier run; it is brought up to the last end. Without it (or where it does not reach back
        far enough, or came of other settings) the week before is read from the source.
    under_way
        A server's answer that was asked for already; without it it is asked now.

    Raises
    ------
    InputError
        The store has another grid than the models were trained on, or there is no sample at all.
    UpstreamError
        The server can't be reached or refuses.
    """
    start, end = min(ends_ns) - reach(frozen.features), max(ends_ns)
    key = watch_key(source, frozen)
    if watch is None or watch.key != key or watch.since > start - SPAN_NS + DAY_NS or watch.upto < start - SPAN_NS:
        since = start - SPAN_NS
        watch = Watch(key, frozen.step_ns, since, since, frozen.gpus, set(frozen.heard))
    if start - watch.upto > _PAUSE_NS:
        log.info("reading what happened since %s", to_time(watch.upto).isoformat())
    moment = (
        _from_store(source.store, frozen, config, (start, end), watch)
        if source.store is not None
        else _from_server(source, frozen, config, (start, end), watch, under_way)
    )
    if not any(panel.values.size for panel in moment.panels.values()):
        raise InputError(f"no sample between {to_time(start)} and {to_time(end)}; is the export or the scrape running?")
    return moment


def watch_key(source: Source, frozen: Frozen) -> str:
    """What evidence depends on: the grid, the names of nodes, and where it is read."""
    said = [str(frozen.step_ns), frozen.ingest.model_dump_json(), str(source.store), str(source.prometheus)]
    return hashlib.sha256("\0".join(said).encode()).hexdigest()[:16]


def _from_store(path: Path, frozen: Frozen, config: Config, span: tuple[int, int], watch: Watch) -> Moment:
    store = Store.open(path)
    if store.step_ns != frozen.step_ns:
        raise InputError(
            f"{path} has a grid of {store.step_ns / 1e9:g} s, the model one of {frozen.step_ns / 1e9:g} s; train again"
        )
    start, end = span
    nodes = tuple(store.nodes())
    watch.gpus = store.gpus()
    watch.heard = {node for node in nodes if store.log_days(node)}
    if watch.told.empty:
        watch.told = failures._given_onsets(store.incidents(), store.gpus())  # noqa: SLF001  # of this floor
    first = store.span()[0]
    for low, high in _days(max(watch.upto, first // DAY_NS * DAY_NS), start):
        watch.add(_evidence(store, nodes, low, high), nodes)
    panels = {node: store.panel(node, start, end) for node in nodes}
    lines = store.logs(start, end)
    watch.add(Evidence(panels, _stamps(store, nodes, start, end), lines, start, end), nodes)
    tickets = failures._tickets(store)  # noqa: SLF001  # of this floor
    past = Hindsight(watch, config.labels, tickets)
    heard = tuple(sorted(watch.heard))
    return Moment(panels, lines, past, watch.gpus, nodes, heard, store.step_ns, Counter(), watch)


def _days(start: int, end: int) -> Iterator[tuple[int, int]]:
    """The span in pieces of at most a day."""
    while start < end:
        stop = min(end, (start // DAY_NS + 1) * DAY_NS)
        yield start, stop
        start = stop


def _evidence(store: Store, nodes: Sequence[str], start: int, end: int) -> Evidence:
    panels = {node: store.panel(node, start, end) for node in nodes}
    return Evidence(panels, _stamps(store, nodes, start, end), store.logs(start, end), start, end)


def _stamps(store: Store, nodes: Sequence[str], start: int, end: int) -> dict[str, live.Stamps]:
    """When the gauges of XIDs were read, over the cells of the span."""
    out: dict[str, live.Stamps] = {}
    for node in nodes:
        days = [day for day in store.days(node) if start < (day + 1) * DAY_NS and day * DAY_NS < end]
        held = {day: store.stamps(node, day, gauge.is_gauge) for day in days}
        names: set[Series] = {one for of_day in held.values() for one in of_day}
        out[node] = live.over(held, names, start, end, store.step_ns)
    return out


def _from_server(
    source: Source, frozen: Frozen, config: Config, span: tuple[int, int], watch: Watch, under_way: Asked | None
) -> Moment:
    server = prometheus_api.Server(str(source.prometheus), source.headers)
    tally = Tally()
    start, end = span
    if watch.upto < start:
        _catch_up(server, source, frozen, config, watch, start)
    chunks: Iterable[SampleChunk]
    if under_way is not None and (under_way.start_ns, under_way.end_ns) == span:
        chunks, tally = under_way.pull, under_way.tally
    else:
        chunks = prometheus_api.fetch(server, start, end, selectors(frozen.metrics), tally)
    found = live.gather(chunks, config, frozen.step_ns, start, end)
    watch.gpus = known_gpus(watch.gpus, found.gpus)
    lines = log_sources.read(source.logs, source.loki, config, start, end, tally, source.headers)
    nodes = tuple(sorted({*found.panels, *frozen.nodes}))
    watch.add(Evidence(found.panels, found.stamps, lines, start, end), nodes)
    past = Hindsight(watch, config.labels, None)
    heard = tuple(sorted(watch.heard))
    return Moment(found.panels, lines, past, watch.gpus, nodes, heard, frozen.step_ns, tally.rejected, watch)


def _catch_up(
    server: prometheus_api.Server, source: Source, frozen: Frozen, config: Config, watch: Watch, upto: int
) -> None:
    """What happened before the windows' own samples, from few series: a GPU is there while its gauge is."""
    few = telling(frozen.metrics)
    for low, high in _days(watch.upto, upto):
        tally = Tally()  # what is wrong with old records was told when they were new
        chunks = prometheus_api.fetch(server, low, high, selectors(few), tally) if few else iter(())
        found = live.gather(chunks, config, frozen.step_ns, low, high)
        watch.gpus = known_gpus(watch.gpus, found.gpus)
        lines = log_sources.read(source.logs, source.loki, config, low, high, tally, source.headers)
        watch.add(Evidence(found.panels, found.stamps, lines, low, high), frozen.nodes)


def telling(metrics: Sequence[str]) -> list[str]:
    """The few metrics that say which codes GPUs showed, which were there, and that their exporter answered."""
    codes = [name for name in metrics if gauge.is_gauge(name) or "xid_error" in name.lower()]
    there = [name for name in metrics if name in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_GPU_UTIL")][:1]
    other = [name for name in metrics if name.startswith("DCGM_") and name not in codes][:1]
    return sorted({*codes, *(there or other), "up"} & set(metrics))
