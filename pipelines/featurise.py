"""Store or live samples to the matrix: a map over node-days with a cache, then the joins across nodes.

``STORE/cache/rows/<node>/<day>-<digest>.parquet`` holds a node-day's stateless rows. The digest covers what they
depend on (the cells of the day and of what its first window looks back to, the settings, the GPUs known), so a
killed run goes on where it was, and new data or settings never meet old rows.
"""

from __future__ import annotations

import hashlib
import json
import logging
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import floods, matrix, names, phase, presence, windows
from features.masking import lines_table
from features.settings import FeatureSettings, to_nanoseconds
from features.tables import EVENTS, FAILURES, GPUS, LOGS, InputError, Matrix, Panel, to_time
from features.templates import Templates
from pipelines import executor, monitored, rows, spill
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store, day_text, node_folder, replace_file

log = logging.getLogger(__name__)

_FORMAT = 10  # of the rows; raise it whenever a room that makes stateless columns changes what it makes
_MANY = 500  # label sets of one metric on a node that are worth a word; each is columns
_JOIN_EVERY = 64  # tables of lines that are held before they are joined


class NodeDay(NamedTuple):
    """One piece of the map; everything a worker on another machine needs beside the store's files."""

    store: str
    node: str
    day: int
    settings: str  # FeatureSettings as JSON
    known: presence.Roster
    target: str  # file of the rows


@dataclass(frozen=True)
class Filled:
    """What a run of the map did, and what `features.panel.clean` counted."""

    computed: int
    kept: int  # node-days found in the cache
    left_out: int  # columns that say nothing of their own
    seconds: float
    tally: Counter[str]

    def __str__(self) -> str:
        """One line for a person."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.tally.items()) if count)
        return (
            f"{self.computed} node-days computed, {self.kept} found in the cache, {self.seconds:.1f} s, "
            f"{self.left_out} columns say nothing of their own"
            f"{'; cells: ' if counts else ''}{counts}\n"
        )


def featurise(
    store: Store,
    config: Config,
    start_ns: int | None = None,
    end_ns: int | None = None,
    *,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Filled:
    """Fill the cache for every node and day of the span; what is there already is kept.

    Parameters
    ----------
    progress
        Called with node-days done and node-days in all.
    """
    began = time.monotonic()
    pieces = _pieces(store, config.features, *monitored.span(store, start_ns, end_ns))
    missing = [piece for piece in pieces if not Path(piece.target).exists()]
    tally: Counter[str] = Counter()
    done = len(pieces) - len(missing)
    widest: Counter[str] = Counter()
    for counts, many in executor.run(fill, missing, workers=workers, scheduler=scheduler):
        tally.update(counts)
        widest |= many
        done += 1
        if progress is not None:
            progress(done, len(pieces))
    for name, number in sorted(widest.items()):
        log.warning(
            "%s has %d label sets on a node, a column of its own for each: name the label that tells them apart in "
            "features.panel.sum_over, or leave the metric out by --match",
            name,
            number,
        )
    left_out = len(idle_columns(store, config, start_ns, end_ns))
    return Filled(len(missing), len(pieces) - len(missing), left_out, time.monotonic() - began, tally)


def fill(piece: NodeDay) -> tuple[Counter[str], Counter[str]]:
    """Store the rows of one node-day; counts of `features.panel.clean`, and metrics of very many label sets."""
    store = Store.open(Path(piece.store))
    settings = FeatureSettings.model_validate_json(piece.settings)
    ends = _day_ends(piece.day, settings)
    tally: Counter[str] = Counter()
    raw = store.panel(piece.node, int(ends[0]) - matrix.reach(settings), int(ends[-1]))
    found = matrix.node_rows(raw, ends, settings, piece.known, step_ns=store.step_ns, tally=tally)
    target = Path(piece.target)
    replace_file(target, rows.write(found, ends))
    for other in target.parent.glob(f"{day_text(piece.day)}-*.parquet"):
        # rows of other data or settings: nobody asks for them again, and they would fill the disk
        if other != target and other.name.split("-")[3] == target.name.split("-")[3]:
            other.unlink(missing_ok=True)
    sets = Counter(one.metric.partition("{")[0] for one in raw.series if not one.gpu)
    return tally, Counter({name: number for name, number in sets.items() if number > _MANY})


def _day_ends(day: int, settings: FeatureSettings) -> NDArray[np.int64]:
    """Window ends in ``(day, next day]``: the rows that need no cell of the next day."""
    stride = to_nanoseconds(settings.window.stride)
    first = day * DAY_NS // stride * stride + stride
    return np.arange(first, (day + 1) * DAY_NS + 1, stride, dtype=np.int64)


def _pieces(store: Store, settings: FeatureSettings, start_ns: int, end_ns: int) -> list[NodeDay]:
    windows.check(settings.window, store.step_ns)
    ends = windows.ends(start_ns, end_ns, settings.window)
    if not len(ends):
        raise InputError(
            f"{store.path}: {(end_ns - start_ns) / 60e9:.0f} minutes hold no whole window of "
            f"{to_nanoseconds(settings.window.length) / 60e9:.0f} minutes; ingest more history or make --window shorter"
        )
    said = settings.model_dump_json()
    own = hashlib.sha256(settings.model_dump_json(include={"window", "panel", "signals"}).encode()).hexdigest()[:8]
    gpus = store.gpus()
    days = np.intersect1d(monitored.of_windows(ends), monitored.days(store)).tolist()
    if not days:
        raise InputError(f"{store.path}: no node has a sample from {to_time(start_ns)} to {to_time(end_ns)}")
    out = []
    for node in store.nodes():
        known = presence.roster(gpus, node, sends=bool(store.days(node)))
        folder = store.cache_dir / "rows" / node_folder(node)
        back = range(-(-matrix.reach(settings) // DAY_NS), -1, -1)
        for day in days:
            digests = [_content(store, node, day - before) for before in back]
            content = [_FORMAT, store.step_ns, node, known, digests]
            key = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]
            target = folder / f"{day_text(day)}-{own}-{key}.parquet"
            out.append(NodeDay(str(store.path), node, day, said, known, str(target)))
    return out


def _content(store: Store, node: str, day: int) -> str:
    """`Store.day_digest`, read once a run: a file is replaced whole, never written to."""
    try:
        now = store.panel_path(node, day).stat()
    except FileNotFoundError:
        return ""
    return _digest(store.path, store.step_ns, node, day, (now.st_ino, now.st_mtime_ns, now.st_size))


@lru_cache(maxsize=1 << 17)
def _digest(path: Path, step_ns: int, node: str, day: int, _state: tuple[int, int, int]) -> str:
    return Store(path, step_ns).day_digest(node, day)


def idle_columns(
    store: Store, config: Config, start_ns: int | None = None, end_ns: int | None = None
) -> dict[str, str]:
    """Columns that say nothing of their own over the history, and why: see `pipelines.rows`.

    The cache must be filled. The answer is kept in ``STORE/cache/columns.json``.

    Raises
    ------
    InputError
        A file of the cache is damaged or absent.
    """
    pieces = _pieces(store, config.features, *monitored.span(store, start_ns, end_ns))
    record = store.cache_dir / "columns.json"
    of = hashlib.sha256("".join(piece.target for piece in pieces).encode()).hexdigest()
    if record.exists():
        with suppress(ValueError, KeyError, TypeError):  # a damaged record is made anew
            said = json.loads(record.read_bytes())
            if said["of"] == of:
                return dict(said["left_out"])
    found = rows.idle(rows.kinds(Path(piece.target)) for piece in pieces)
    replace_file(record, json.dumps({"of": of, "node_days": len(pieces), "left_out": found}, indent=1).encode())
    return found


def blocks(
    store: Store,
    config: Config,
    past: matrix.Past,
    *,
    wanted: pd.DataFrame | None = None,
    start_ns: int | None = None,
    end_ns: int | None = None,
    templates: Templates | None = None,
    columns: Collection[str] | None = None,
    screened: bool = False,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Iterator[Matrix]:
    """The matrix of the history, a day of all nodes at a time: memory holds one day.

    Parameters
    ----------
    wanted
        Frame of `WINDOWS`: only these rows, in this order within a day; all windows of the span without it.
    templates
        With it there are log columns. Folds mine their own: see `features.matrix.with_logs` and `lines`.
    columns
        With it only these columns are made and given.
    screened
        Leave out `idle_columns`, and their comparison with peers.
    """
    span = monitored.span(store, start_ns, end_ns)
    featurise(store, config, *span, scheduler=scheduler, workers=workers, progress=progress)
    settings = config.features
    rows_of = monitored.all_windows(store, config, *span) if wanted is None else wanted
    day_of = monitored.of_windows(windows.as_ns(rows_of["end"]))
    by_day: dict[int, list[NodeDay]] = {}
    for piece in _pieces(store, settings, *span):
        by_day.setdefault(piece.day, []).append(piece)
    heard = {node for node in store.nodes() if store.log_days(node)}
    without = idle_columns(store, config, *span) if screened else {}
    only = None if columns is None else {phase.GROUP, *columns, *(name.replace(".peer__", "__") for name in columns)}
    for day, pieces in sorted(by_day.items()):
        asked = rows_of[day_of == day]
        if not len(asked):
            continue
        found = matrix.stack(rows.read(Path(piece.target), piece.node, without, only) for piece in pieces)
        found = found[found.index.get_level_values("end").isin(asked["end"])]
        logs = None
        if templates is not None:
            logs = matrix.Lines(lines(store, config, asked), templates, heard)
        made = matrix.join(found, asked, settings, past, logs=logs, label=config.labels)
        if columns is not None:
            made = replace(made, X=made.X[[name for name in made.X.columns if name in columns]])
        yield made
        del found, made  # before the next day's


def lines(store: Store, config: Config, asked: pd.DataFrame, counts: Counter[str] | None = None) -> pd.DataFrame:
    """Masked log lines of the store that lie in these windows' span, of every node, floods folded.

    Read and masked a stretch at a time, so that memory holds what is left of them.

    Parameters
    ----------
    counts
        Filled with lines by what became of them: see `features.masking.Lines`.
    """
    start, end = int(windows.as_ns(asked["start"]).min()), int(windows.as_ns(asked["end"]).max())
    settings, stretch = config.features.templates, floods.stretch(config.features.window)
    tally: Counter[str] = Counter() if counts is None else counts
    held = [lines_table(LOGS.empty(), settings).table]
    for node in store.nodes():
        for day in store.log_days(node):
            if start // DAY_NS <= day < -(-end // DAY_NS):
                for part in _stretches(store, node, day, stretch):
                    found = lines_table(_inside(part, start, end), settings)
                    table, lost = floods.folded(found.table, stretch, settings.flood_lines)
                    tally.update(found.counts)
                    tally["flood"] += lost
                    held.append(table)
        if len(held) > _JOIN_EVERY:
            held = [floods.joined(held)]
    return floods.joined(held)


def _stretches(store: Store, node: str, day: int, stretch_ns: int) -> Iterator[pd.DataFrame]:
    """A node-day's lines in parts that end where a stretch does."""
    held = LOGS.empty()
    for batch in store.log_batches(node, day):
        held = pd.concat([held, batch], ignore_index=True) if len(held) else batch
        times = held["time"].astype("int64").to_numpy()
        done = int(np.searchsorted(times, times[-1] // stretch_ns * stretch_ns)) if len(times) else 0
        if done:
            yield held.iloc[:done].reset_index(drop=True)
            held = held.iloc[done:].reset_index(drop=True)
    if len(held):
        yield held


def _inside(lines: pd.DataFrame, start_ns: int, end_ns: int) -> pd.DataFrame:
    times = lines["time"].astype("int64").to_numpy()
    low, high = np.searchsorted(times, [start_ns, end_ns])
    return lines.iloc[low:high].reset_index(drop=True)


def historic_matrix(store: Store, config: Config, past: matrix.Past, **how: Any) -> Matrix:
    """All `blocks` as one matrix, its rows in the windows' order; the same keywords.

    Columns in which no row of the history has a value are left out, and those that ``exclude`` names: see
    `features.names.kept`. A matrix too large for memory lies in a file, see
    `pipelines.spill`; take rows of it, not the whole.
    """
    wanted: pd.DataFrame | None = how.pop("wanted", None)
    exclude: Sequence[str] = how.pop("exclude", ())
    asked = monitored.all_windows(store, config, how.get("start_ns"), how.get("end_ns")) if wanted is None else wanted
    number = pd.Index(asked["window"])
    made = spill.Spill(len(asked), store.cache_dir)
    labels: list[pd.DataFrame] = []
    places: list[NDArray[np.int64]] = []
    for part in blocks(store, config, past, wanted=asked, **how):
        places.append(number.get_indexer(pd.Index(part.windows["window"])).astype(np.int64))
        labels.append(part.labels)
        made.put(places[-1], part.X[names.kept(part.X.columns, exclude)] if exclude else part.X)
        del part
    values, titles = made.finish()
    back = np.argsort(np.concatenate(places))
    told = pd.concat(labels, ignore_index=True).iloc[back].reset_index(drop=True)
    if not made.filled.all():  # windows that lie outside the history
        asked, values = asked[made.filled], values[made.filled]
    asked = asked.reset_index(drop=True)
    index = pd.MultiIndex.from_arrays([asked["node"], asked["end"]], names=["node", "end"])
    return Matrix(asked, pd.DataFrame(values, index=index, columns=titles, copy=False), told)


def live_matrix(
    panels: Mapping[str, Panel],
    logs: pd.DataFrame,
    past: matrix.Past,
    ends_ns: Sequence[int],
    config: Config,
    *,
    step_ns: int,
    templates: Templates | None = None,
    gpus: pd.DataFrame | None = None,
    nodes: Sequence[str] = (),
    heard: Sequence[str] = (),
) -> Matrix:
    """Rows of live windows: the same rooms as `historic_matrix`, and the same bits.

    Parameters
    ----------
    panels
        By node, raw, reaching back `features.matrix.reach` before the first end.
    logs
        Frame of `LOGS` that covers the windows.
    gpus
        Frame of `GPUS` as history knows it; without it a GPU is known once the panel has seen it.
    nodes
        More nodes that should be there: one without a panel is down, unless logs are all it is known by.
    heard
        Nodes that have ever logged anything.
    """
    settings = config.features
    ends = np.sort(np.asarray(ends_ns, dtype=np.int64))
    known = GPUS.empty() if gpus is None else gpus
    found, own = [], dict(list(known.groupby("node")))
    for node in sorted({*panels, *nodes}):
        raw = panels.get(node, Panel(node, np.empty(0, dtype=np.int64), (), np.empty((0, 0))))
        roster = presence.roster(own.get(node, known.iloc[:0]), node, sends=node in panels or node not in heard)
        found.append(matrix.node_rows(raw, ends, settings, roster, step_ns=step_ns))
    asked = windows.at(sorted({*panels, *nodes}), ends, settings.window)
    told = None
    if templates is not None:
        table, _ = floods.folded(
            lines_table(logs, settings.templates).table,
            floods.stretch(settings.window),
            settings.templates.flood_lines,
        )
        told = matrix.Lines(table, templates, heard)
    return matrix.join(matrix.stack(found), asked, settings, past, logs=told)


def nothing_past() -> matrix.Past:
    """A past in which nothing is known to have happened."""
    return matrix.Past(FAILURES.empty(), EVENTS.empty())
