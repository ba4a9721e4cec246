"""Where live windows come from: a store that an export fills, or a running Prometheus with log files beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from features import gauge, incidents, xid
from features.matrix import Past, reach
from features.settings import LabelSettings
from features.tables import EVENTS, GPUS, LOGS, InputError, Panel, conform, to_time
from pipelines import failures, live
from pipelines.config import Config
from pipelines.frozen import Frozen
from pipelines.readers import prometheus_api
from pipelines.readers.context import LogContext
from pipelines.readers.logs import read_logs
from pipelines.readers.tally import Tally
from pipelines.store import Store

_WEEK_NS = 7 * 86_400_000_000_000  # what a row's history columns look back to
_NAMES = 60  # metric names of one selector: servers limit the length of a query


@dataclass(frozen=True)
class Source:
    """One of the two: a store's folder, or a Prometheus address with log files or folders."""

    store: Path | None = None
    prometheus: str | None = None
    logs: tuple[Path, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Moment:
    """All that some window ends depend on."""

    panels: dict[str, Panel]
    logs: pd.DataFrame
    past: Past
    gpus: pd.DataFrame
    nodes: tuple[str, ...]
    heard: tuple[str, ...]
    step_ns: int
    rejected: Counter[str]


def newest(source: Source, now_ns: int) -> int:
    """Up to when there are data [ns]: a store's end, or for a server the present."""
    return now_ns if source.store is None else min(Store.open(source.store).span()[1], now_ns)


def take(source: Source, frozen: Frozen, config: Config, ends_ns: Sequence[int]) -> Moment:
    """Samples, lines and past of these window ends.

    Raises
    ------
    InputError
        The store has another grid than the models were trained on, or there is no sample at all.
    UpstreamError
        The server can't be reached or refuses.
    """
    start = min(ends_ns) - reach(frozen.features)
    moment = (
        _from_store(source.store, frozen, config, start, max(ends_ns))
        if source.store is not None
        else _from_server(source, frozen, config, start, max(ends_ns))
    )
    if not any(panel.values.size for panel in moment.panels.values()):
        raise InputError(
            f"no sample between {to_time(start)} and {to_time(max(ends_ns))}; is the export or the scrape running?"
        )
    return moment


def _from_store(path: Path, frozen: Frozen, config: Config, start: int, end: int) -> Moment:
    store = Store.open(path)
    if store.step_ns != frozen.step_ns:
        raise InputError(
            f"{path} has a grid of {store.step_ns / 1e9:g} s, the model one of {frozen.step_ns / 1e9:g} s; train again"
        )
    events = failures.events(store, config)
    past = Past(failures.failures(store, config), events, store.sessions())
    return Moment(
        panels={node: store.panel(node, start, end) for node in store.nodes()},
        logs=store.logs(start, end),
        past=past,
        gpus=store.gpus(),
        nodes=tuple(store.nodes()),
        heard=tuple(node for node in store.nodes() if store.log_days(node)),
        step_ns=store.step_ns,
        rejected=Counter(),
    )


def _from_server(source: Source, frozen: Frozen, config: Config, start: int, end: int) -> Moment:
    server = prometheus_api.Server(str(source.prometheus), source.headers)
    tally = Tally()
    chunks = prometheus_api.fetch(server, start, end, selectors(frozen.metrics), tally)
    panels, seen = live.panels(chunks, config, frozen.step_ns, start, end)
    gpus = _known(frozen.gpus, seen)
    lines = read_lines(source.logs, config, end - _WEEK_NS, end, tally)
    events = _events(panels, lines, gpus)
    past = Past(_incidents(events, frozen.labels), events)
    window = lines[lines["time"] >= to_time(start)].reset_index(drop=True)
    heard = tuple(sorted({*frozen.heard, *lines["node"].unique()}))
    nodes = tuple(sorted({*panels, *frozen.nodes}))
    return Moment(panels, window, past, gpus, nodes, heard, frozen.step_ns, tally.rejected)


def selectors(metrics: Sequence[str]) -> list[str]:
    """Selectors that ask for just these metrics."""
    return [f'{{__name__=~"{"|".join(metrics[start : start + _NAMES])}"}}' for start in range(0, len(metrics), _NAMES)]


def _known(trained: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """GPUs as training knew them, and new ones; when each was first seen is what training says."""
    both = pd.concat([trained, seen], ignore_index=True) if len(trained) else seen
    return conform(both.drop_duplicates(["node", "gpu"]), GPUS) if len(both) else GPUS.empty()


def read_lines(paths: Sequence[Path], config: Config, start: int, end: int, tally: Tally) -> pd.DataFrame:
    """Log lines of these files, or of the files below these folders, in ``[start, end)``."""
    said = config.ingest
    context = LogContext(timezone=said.timezone, strip_domain=said.strip_domain, aliases=said.aliases)
    low, high = to_time(start), to_time(end)
    parts = []
    for path in paths:
        if not path.exists():
            raise InputError(f"{path} does not exist")
        files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
        for file in files:
            if file.stat().st_mtime_ns < start:
                continue  # rotated away before the span began
            found = read_logs(file, context, tally)
            parts += [lines[(lines["time"] >= low) & (lines["time"] < high)] for lines in found]
    held = [part for part in parts if len(part)]
    if not held:
        return LOGS.empty()
    whole = pd.concat(held, ignore_index=True).drop_duplicates(list(LOGS.key))
    return conform(whole.sort_values(["node", "time"], kind="stable"), LOGS)


def _events(panels: Mapping[str, Panel], lines: pd.DataFrame, gpus: pd.DataFrame) -> pd.DataFrame:
    """XID events of the lines, and of the gauges in the span."""
    parts = [xid.decode(lines, gpus)]
    where = {(node, gpu): pci for node, gpu, pci in zip(gpus["node"], gpus["gpu"], gpus["pci"], strict=True)}
    for node, panel in panels.items():
        for gpu, codes in gauge.read_gauges(panel):
            parts.append(gauge.from_gauge(panel.times, codes, node, gpu, where.get((node, gpu), "")))
    held = [part for part in parts if len(part)]
    return xid.fold(pd.concat(held, ignore_index=True)) if held else EVENTS.empty()


def _incidents(events: pd.DataFrame, labels: LabelSettings) -> pd.DataFrame:
    return incidents.group(events, labels)
