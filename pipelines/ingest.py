"""Exports into the store: what each file is, what it holds, what was kept, and nothing twice."""

from __future__ import annotations

import codecs
import gc
import hashlib
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import pandas as pd

from features.settings import to_nanoseconds
from features.tables import SESSIONS, ForeshockError, InputError, UpstreamError, UsageError, conform, to_ns, to_time
from pipelines import made_up
from pipelines.config import Config
from pipelines.folders import files_in
from pipelines.grid import DAY_NS
from pipelines.identity import Identifier
from pipelines.merging import Merged, merge
from pipelines.pulling import Loki, Prometheus, Said, pull
from pipelines.readers.context import LogContext
from pipelines.readers.logs import read_logs, recognise_log
from pipelines.readers.metrics import READERS, read_head, recognise_metrics
from pipelines.readers.recognise import check_file
from pipelines.readers.samples import ReadContext
from pipelines.readers.sessions import read_sessions
from pipelines.readers.tally import Tally
from pipelines.readers.tickets import read_incidents
from pipelines.readers.torn import TORN
from pipelines.staging import Staged, stage_chunks, tally_record
from pipelines.store import INCIDENTS, Store, frame_bytes, replace_file

# Shippers and servers give their lines in any order, with a time of their own each
_UNORDERED = frozenset({"json-lines", "loki-api", "elastic-dump", "elastic-search"})
_DAY = timedelta(days=1)
_NAMED = 5  # nodes in a sentence
Progress = Callable[[str], None]
_Piece = TypeVar("_Piece")


@dataclass(frozen=True)
class _Options:
    """What the user says about all inputs."""

    config: Config
    timezone: str
    reference_time: pd.Timestamp | None
    boot_time: pd.Timestamp | None
    node: str

    def said(self) -> Said:
        """What a pull needs of them."""
        return Said(self.config.ingest, self.node, self.digest())

    def digest(self) -> bytes:
        """What decides, beside the bytes, how an input is read."""
        said = [self.timezone, str(self.reference_time), str(self.boot_time), self.node]
        return json.dumps([*said, self.config.ingest.model_dump(mode="json")], sort_keys=True).encode()


def ingest(
    store_path: Path,
    config: Config,
    *,
    metrics: Sequence[Path] = (),
    logs: Sequence[Path] = (),
    sessions: Path | None = None,
    incidents: Path | None = None,
    prometheus: Prometheus | None = None,
    loki: Loki | None = None,
    step: timedelta | None = None,
    timezone: str | None = None,
    reference_time: pd.Timestamp | None = None,
    boot_time: pd.Timestamp | None = None,
    node: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Read everything named into the store and say what came of it.

    A file that can't be used is named under ``errors`` and the others are kept.

    Raises
    ------
    InputError
        Nothing at all could be read.
    UsageError
        An option makes no sense, or nothing was named.
    BusyError
        Another run is writing the store.
    """
    if not (metrics or logs or sessions or incidents or prometheus or loki):
        raise UsageError("nothing to ingest; name --metrics, --logs, --sessions, --incidents, --prometheus or --loki")
    zone = timezone if timezone is not None else config.ingest.timezone
    options = _Options(config, _zone(zone), reference_time, boot_time, node or "")
    store = _prepare(store_path, config, step)
    with store.writing(), _no_collection():
        _clear(store)
        report = _Report(progress)
        for intent, paths in (("metrics", metrics), ("logs", logs)):
            files = list(_files(paths, report))
            for number, path in enumerate(files, 1):
                report.at = f"{intent} file {number} of {len(files)}, {path}"
                _take(store, path, intent, options, report)
        try:
            for server in (prometheus, loki):
                if server is not None:
                    report.inputs.append(pull(store, server, options.said(), _log_context(options), report.say))
        except UpstreamError:
            merge(store, progress)  # what was read whole is kept when the server breaks off
            raise
        report.merged = merge(store, progress)
        _tables(store, sessions, incidents, options, report)
    return report.finish(store)


class _Report:
    """What is told at the end."""

    def __init__(self, progress: Progress | None) -> None:
        self.inputs: list[dict[str, Any]] = []
        self.errors: list[str] = []
        self.merged = Merged()
        self.at = ""  # the file that is read, in words
        self._progress = progress

    def say(self, text: str) -> None:
        if self._progress:
            self._progress(text)

    def passing(self, pieces: Iterable[_Piece], tally: Tally) -> Iterator[_Piece]:
        """The pieces of a file, telling after each how far it is."""
        for piece in pieces:
            yield piece
            self.say(f"reading {self.at}: {tally.read:,} records so far")

    def finish(self, store: Store) -> dict[str, Any]:
        """The dictionary of ``--json``."""
        usable = any(item["ok"] for item in self.inputs)
        if self.errors and not usable:
            more = f" (and {len(self.errors) - 1} more)" if len(self.errors) > 1 else ""
            raise InputError(f"{self.errors[0]}{more}")
        if self.inputs and not usable:
            first = self.inputs[0]
            reasons = ", ".join(f"{reason}: {count}" for reason, count in first["rejected"].items()) or "it is empty"
            raise InputError(f"nothing usable was read; {first['path']} ({first['format']}): {reasons}")
        totals = store.totals()
        start, end = store.span() if totals["nodes"] else (None, None)
        inside = sum(item.get("conflicts", 0) for item in self.inputs if not item["already"])
        return {
            "inputs": self.inputs,
            "errors": self.errors,
            "gaps": self.merged.gaps,
            "gap_minutes": round(self.merged.gap_seconds / 60, 1),
            "conflicts": self.merged.conflicts + inside,
            "duplicates": self.merged.duplicates,
            **totals,
            "doubles": store.hosts().doubles(store.nodes()),
            "step_seconds": store.step_ns / 1e9,
            "scrape_seconds": _cadence(store),
            "start": None if start is None else to_time(start).isoformat(),
            "end": None if end is None else to_time(end).isoformat(),
        }


def _cadence(store: Store) -> float | None:
    """Usual seconds from one sample of a series to the next, on a day in the middle of a node's; None without any.

    By series: a node's exporters are scraped one after another, so that all of them together fill every cell.
    """
    for node in store.nodes():
        days = store.days(node)
        if days:
            low = days[len(days) // 2] * DAY_NS
            held = [np.flatnonzero(~np.isnan(row)) for row in store.panel(node, low, low + DAY_NS).values]
            apart = [np.median(np.diff(cells)) for cells in held if len(cells) > 1]
            if apart:
                return float(np.median(apart)) * store.step_ns / 1e9
    return None


def _zone(name: str) -> str:
    try:
        ZoneInfo(name or "UTC")
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(f"--timezone {name}: unknown zone; write one as America/New_York") from error
    return name


def _prepare(path: Path, config: Config, step: timedelta | None) -> Store:
    """The store at the path, made if it is not there."""
    if step is None and (path / "store.json").exists():
        return Store.open(path)
    return Store.create(path, to_nanoseconds(step or config.ingest.step))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Parsing makes millions of short-lived objects and no cycles: the cycle collector would cost most of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _clear(store: Store) -> None:
    """Remove what a killed run left half-read, or read whole and already merged."""
    for folder in (store.path / "staging").glob("*"):
        if not (folder / "done.json").exists() or _marker(store, folder.name).exists():
            shutil.rmtree(folder)


def _marker(store: Store, digest: str) -> Path:
    return store.path / "inputs" / f"{digest}.json"


def _files(paths: Iterable[Path], report: _Report) -> Iterator[Path]:
    """The files named and those in the folders named, sorted within a folder."""
    for path in paths:
        if not path.exists():
            report.errors.append(f"{path}: there is no such file")
            continue
        if not path.is_dir():
            yield path
            continue
        found = sorted(files_in(path))
        if not found:
            report.errors.append(f"{path}: the folder holds no files")
        yield from found


def _digest(path: Path, intent: str, options: _Options) -> str:
    """SHA-256 of the bytes and of what decides how they are read."""
    check_file(path)
    with path.open("rb") as file:
        whole = hashlib.file_digest(file, "sha256")
    whole.update(b"\0".join([intent.encode(), _stem(path).encode(), options.digest()]))
    return whole.hexdigest()


def _stem(path: Path) -> str:
    """The name without endings that say a format; ``n7.example.csv.gz`` is n7.example."""
    name = path.name
    for ending in (".gz", ".xz", ".zst", ".csv", ".parquet", ".json", ".jsonl", ".txt", ".prom"):
        name = name.removesuffix(ending)
    return name


def _take(store: Store, path: Path, intent: str, options: _Options, report: _Report) -> None:
    """One file into the staging folder, unless it is there or in the store already."""
    try:
        digest = _digest(path, intent, options)
        marker = _marker(store, digest)
        if marker.exists():
            report.inputs.append({**json.loads(marker.read_bytes()), "path": str(path), "already": True})
            return
        done = store.path / "staging" / digest / "done.json"
        if not done.exists():
            report.say(f"reading {report.at}")
            _stage(store, path, digest, intent, options, report)
        report.inputs.append({**json.loads(done.read_bytes())["record"], "path": str(path), "already": False})
    except (ForeshockError, OSError) as error:
        text = str(error)
        report.errors.append(text if str(path) in text else f"{path}: {text}")


def _stage(store: Store, path: Path, digest: str, intent: str, options: _Options, report: _Report) -> None:
    """Read one file whole.

    Raises
    ------
    InputError
        Its format is unknown or nothing in it is usable.
    """
    kind = _recognise(path, intent)
    tally = Tally()
    staged = Staged(store.path / "staging" / digest, store.step_ns, options.config.ingest.memory_bytes)
    try:
        if intent == "metrics":
            chunks = report.passing(READERS[kind](path, tally, _read_context(path, options)), tally)
            stage_chunks(chunks, Identifier(options.config.ingest, options.node), staged, tally)
        else:
            for frame in report.passing(read_logs(path, _log_context(options), tally), tally):
                staged.add_logs(frame, ordered=kind not in _UNORDERED)
    except TORN as error:
        # what came before the tear is as good as ever
        tally.drop("torn file")
        tally.hint(f"{path} is torn or damaged ({error}); what came before was kept, export it again for the rest")
    if not tally.ok:
        reasons = ", ".join(f"{reason}: {count}" for reason, count in tally.rejected.items()) or "it is empty"
        shutil.rmtree(staged.folder)
        raise InputError(
            f"{path} ({kind}): nothing in it can be used: {reasons}{''.join('; ' + hint for hint in tally.hints)}"
        )
    record = tally_record(str(path), kind, tally)
    staged.finish({**record, made_up.KEY: True} if made_up.beside(path) else record)


def _recognise(path: Path, intent: str) -> str:
    head = read_head(path)
    if not head:
        raise InputError(f"{path}: the file is empty")
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise InputError(f"{path}: this is UTF-16 text; save it as UTF-8")
    metric, log = recognise_metrics(head), recognise_log(head)
    if intent == "metrics" and metric:
        return metric
    if intent == "logs" and log:
        return log
    other = log if intent == "metrics" else metric
    if other:
        option = "--logs" if intent == "metrics" else "--metrics"
        raise InputError(f"{path}: this is {other}; give it to {option}")
    known = "metric" if intent == "metrics" else "log"
    raise InputError(f"{path}: no {known} format foreshock knows; the README lists them")


def _read_context(path: Path, options: _Options) -> ReadContext:
    said = options.config.ingest
    reference = options.reference_time
    return ReadContext(
        stem=options.node or _stem(path),
        timezone=options.timezone or "UTC",
        latest_ns=to_ns((reference or pd.Timestamp.now("UTC")) + _DAY),
        reference_ns=to_ns(reference) if reference is not None else None,
        label_names=frozenset((*said.node_labels, *said.gpu_labels, *said.pci_labels, *said.dropped_labels)),
        node_labels=frozenset(said.node_labels),
        csv_columns=said.csv_columns,
    )


def _log_context(options: _Options) -> LogContext:
    said = options.config.ingest
    return LogContext(
        timezone=options.timezone,
        reference_time=options.reference_time,
        boot_time=options.boot_time,
        node=options.node,
        strip_domain=said.strip_domain,
        aliases=said.aliases,
        max_line_bytes=said.max_line_bytes,
    )


def _tables(store: Store, sessions: Path | None, incidents: Path | None, options: _Options, report: _Report) -> None:
    """Sessions and incidents beside those the store has; a later file's row replaces an earlier one's."""
    context = _log_context(options)
    for path, name, read, table, held in (
        (sessions, "sessions", read_sessions, SESSIONS, store.sessions),
        (incidents, "incidents", _incidents, INCIDENTS, store.incidents),
    ):
        if path is None:
            continue
        tally = Tally()
        try:
            kind, frame = read(path, context, tally)
        except InputError as error:
            report.errors.append(str(error))
            continue
        both = pd.concat([part for part in (held(), frame) if len(part)] or [frame], ignore_index=True)
        both = both.drop_duplicates(list(table.key), keep="last").sort_values(list(table.key), ignore_index=True)
        replace_file(store.path / f"{name}.parquet", frame_bytes(conform(both, table)))
        if name == "incidents":
            _hint_strangers(frame, store, tally)
        report.inputs.append({**tally_record(str(path), kind, tally), "already": False})


def _incidents(path: Path, context: LogContext, tally: Tally) -> tuple[str, pd.DataFrame]:
    frame = read_incidents(path, context)
    tally.keep(len(frame))
    return "incidents-csv", frame


def _hint_strangers(incidents: pd.DataFrame, store: Store, tally: Tally) -> None:
    """Name the nodes of incidents that the store, as far as it knows any, has no data of."""
    known = store.nodes()
    strangers = sorted(set(incidents["node"]) - set(known)) if known else []
    if strangers:
        more = f" and {len(strangers) - _NAMED} more" if len(strangers) > _NAMED else ""
        tally.hint(
            f"the store has no data of {', '.join(strangers[:_NAMED])}{more}: nothing can be learnt from incidents "
            "there; if it knows the node by another name, say so under ingest.aliases"
        )
