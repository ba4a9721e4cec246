"""The 504-GPU study's figures (arXiv 2605.09370) from a made-up cluster that is set to its parameters.

    python -m benchmarks.study [--nodes 63] [--days 55] [--seed 1] [--gpus 1] [--folder DIR]

Fills a store straight from the simulator (readers are measured elsewhere), runs `foreshock checkpoints` and `foreshock
retries` on it, and prints each figure of the study beside ours with its interval. The cluster is set to these figures:
that they come back shows that both commands measure what went in, and nothing of a real cluster. A second cluster for a
tenth of the days has no limit of RPC slots. With --folder what was made is kept, a killed run goes on after the last
whole node, and a second one only prints. At full size about ten minutes of CPU time.
"""

# ruff: noqa: SLF001  # looks inside the simulator, as its tests do: what it exports to files is of no use here

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from features.checkpoint_cells import wanted
from features.tables import LOGS, Series, conform, to_time
from models.intervals import clopper_pearson, poisson_rate
from models.recovery import spread
from pipelines import console
from pipelines.checkpoints import checkpoints
from pipelines.config import Config
from pipelines.grid import DAY_NS, Cells
from pipelines.readers.tickets import read_sessions
from pipelines.retries import retries
from pipelines.simulate import STUDY, Habits, catalogue, export, logs, run, series, story
from pipelines.store import Store, day_number, frame_bytes, replace_file

Told = Mapping[str, Any]
_STEP = timedelta(seconds=30)
_LARGE, _SMALL = 48, 4  # nodes of an event: the study's 60, and its two to four


class Figure(NamedTuple):
    """One line: the study's figure, ours, and where ours may lie; ``inside`` None where nothing can be said."""

    what: str
    study: str
    ours: str
    interval: str
    inside: bool | None


def main() -> None:
    """Make, analyse, print."""
    options = argparse.ArgumentParser()
    for name, number in (("nodes", 63), ("seed", 1), ("gpus", 1)):
        options.add_argument(f"--{name}", type=int, default=number)
    options.add_argument("--days", type=float, default=55.0)
    options.add_argument("--folder", type=Path)
    said = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder: Path = said.folder or Path(scratch)
        shape = (said.nodes, said.gpus, said.seed)
        saves, tries = analysed(folder / "limited", shape, said.days, STUDY)
        free, _ = analysed(folder / "free", shape, max(1.0, said.days / 10), replace(STUDY, rpc_slots=0))
    print("Made-up data, set to the study's parameters: that a figure comes back says nothing of a real cluster.\n")
    lines = [*of_retries(tries), *of_checkpoints(saves), without_limit(free)]
    rows = [line._asdict() | {"inside": {True: "yes", False: "NO", None: "-"}[line.inside]} for line in lines]
    print(console.table(rows, rows[0]))


def analysed(folder: Path, shape: tuple[int, int, int], days: float, habits: Habits) -> tuple[Told, Told]:
    """Both commands' results as JSON gives them, from this folder or made into it."""
    kept = folder / "results.json"
    if not kept.exists():
        store = filled(folder, shape, days, habits)
        told = {"checkpoints": checkpoints(store.path, Config(), workers=1), "retries": retries(store, Config())}
        replace_file(kept, console.to_json(told).encode())
    found = json.loads(kept.read_bytes())
    return found["checkpoints"], found["retries"]


def filled(folder: Path, shape: tuple[int, int, int], days: float, habits: Habits) -> Store:
    """A store of the metrics that saves and loads are told by, the kernel's and the training programs' lines."""
    nodes, gpus, seed = shape
    failures = round(days * nodes / 346.5)  # ten of 63 nodes in 55 days
    setting = run._checked(folder / "out", nodes, gpus, days, failures, 751, _STEP, seed, None, habits)
    metrics = tuple(metric for metric in catalogue.catalogue() if wanted(metric.name))
    setting = replace(setting, metrics=metrics)
    machines, schedule, trouble = run._world(setting, nodes, gpus, failures)
    store = Store.create(folder / "store", int(_STEP.total_seconds() * 1e9))
    (folder / "out").mkdir(exist_ok=True)
    run._write_sessions(setting, machines, schedule)
    replace_file(store.path / "sessions.parquet", frame_bytes(read_sessions(folder / "out" / "sessions.csv")))
    edges = [float(edge) for edge in np.append(np.arange(0.0, setting.span, run.DAY), setting.span)]
    for node in machines:
        tale, counters = story.tell(node, schedule, trouble, seed), series.Counters(seed)
        last = day_number(str(to_time(setting.start_ns + int(edges[-2] * 1e9)).date()))
        if store.panel_path(node.name, last).exists():
            continue
        for day, span in enumerate(pairwise(edges)):
            _fill_day(store, setting, tale, counters, day, span)
    return store


def _fill_day(
    store: Store,
    setting: run._Setting,
    tale: story.Story,
    counters: series.Counters,
    day: int,
    span: tuple[float, float],
) -> None:
    """One node's day, lines first: a node whose last day has metrics is whole."""
    told = run._tell(setting, tale, counters, day, span)
    number = day_number(str(to_time(setting.start_ns + int(span[0] * 1e9)).date()))
    lines = [line for line in tale.lines if span[0] <= line.time < span[1]]
    lines += logs.training(tale.attempts, told.doing, told.times)
    rows = [
        (tale.node.name, setting.start_ns + int(one.time * 1e9), one.source, "", one.message, one.source == "kernel", 1)
        for one in sorted(lines)
        if "iteration" not in one.message or "checkpoint" in one.message
    ]
    if rows:
        frame = pd.DataFrame(rows, columns=["node", "time", "source", "severity", "message", "kernel", "count"])
        frame["time"] = pd.to_datetime(frame["time"], utc=True)
        replace_file(store.logs_path(tale.node.name, number), frame_bytes(conform(frame, LOGS)))
    cells = Cells(number * DAY_NS, (number + 1) * DAY_NS, store.step_ns)
    masks = export.MetricWriter(None, tale.node, told.stamps, told.seen, [], told.places).masks  # type: ignore[arg-type]  # nothing is written
    for row in told.rows:
        mask = masks[row.target, row.gpu]
        labels = ",".join(f'{key}="{value}"' for key, value in sorted(row.labels.items()))
        name = f"{row.name}{{{labels}}}" if labels else row.name
        gpu = tale.node.gpus[row.gpu].uuid if row.gpu >= 0 else ""
        cells.add(Series(name, gpu), told.stamps[mask] * 1_000_000, np.round(row.values[mask], row.digits))
    store.merge_day(tale.node.name, number, cells)


def _count(what: str, study: int, ours: int) -> Figure:
    low, high = poisson_rate(ours, 1.0)
    return Figure(what, str(study), str(ours), f"{low:.0f}-{high:.0f} (Poisson)", low <= study <= high)


def _share(what: str, study: str, told: Told, fits: float | None) -> Figure:
    """A share with its exact interval; ``fits`` None: more than a half is what the study says."""
    if not told["of"]:
        return Figure(what, study, "none", "-", None)
    low, high = told["interval"]
    inside = high > 0.5 if fits is None else low <= fits <= high
    ours = f"{100 * told['share']:.1f} % ({told['count']} of {told['of']})"
    return Figure(what, study, ours, f"{100 * low:.1f}-{100 * high:.1f} %", inside)


def of_retries(told: Told) -> Iterator[Figure]:
    """Sessions, chains, intervals and exclusions."""
    yield _count("sessions", 224, told["sessions"]["sessions"])
    yield _count("chains of retries", 12, told["chains"]["chains"])
    yield _count("tries in chains", 73, told["chains"]["attempts"])
    yield _share("chains that succeed", "33.3 %", told["chains"]["succeeded"], 4 / 12)
    yield _share("retries by hand that succeed", "12.5 %", told["attempts"]["manual"], 0.125)
    waits = told["intervals"]["automatic"]
    yield _median("retry interval, median", "11 min", waits, (11, 0.5), "{:.1f} min")
    for name, study in (("q1", 10), ("q3", 11)):
        inside = None if waits[name] is None else abs(waits[name] - study) <= 0.5
        yield Figure(
            f"retry interval, {name}", f"{study} min", _number(waits[name], "{:.1f} min"), "to a minute", inside
        )
    dense = told["troubles"].get("exclusions", {"concentration": {"top": []}})["concentration"]
    yield from (
        _share("exclusions on the top three nodes", "> 50 %", row, None) for row in dense["top"] if row["k"] == 3
    )


def of_checkpoints(told: Told) -> Iterator[Figure]:
    """Saves and loads: how many, where their time goes, what they take of the storage, and where it binds."""
    saves, loads = ([event for event in told["events"] if event["kind"] == kind] for kind in ("save", "load"))
    yield _count("saves", 523, len(saves))
    large = [event for event in saves if event["nodes"] >= _LARGE]
    many = f"{_LARGE} nodes and more"
    queue = spread([math.nan if event["queue_share"] is None else 100 * event["queue_share"] for event in saves])
    yield _median("WRITE's time in the client's queue", "93.1 %", queue, (93.1, 0.05), "{:.2f} %")
    slots = spread([event["slots_in_use"] or math.nan for event in large])
    yield _median(f"slots in use, saves of {many}", "128 (all)", slots, (128, 0.5), "{:.1f}")
    for name, events, study in (("loads", loads, 21.5), ("saves", saves, 16.0)):
        shares = [100 * event["storage_share"] for event in events if event["nodes"] >= _LARGE]
        yield _range(f"{name} of {many} reach, of the storage", f"{study} %", shares, (study, study))
    shares = [100 * event["link_share"] for event in saves + loads if event["nodes"] >= _LARGE]
    yield _range(f"share of a 200 Gb/s link, {many}", "1.4-10.4 %", shares, (1.4, 10.4))
    yield _bound(f"saves of {many} bound by slots", large, most=True)
    small = [event for event in saves if event["nodes"] <= _SMALL]
    yield _bound(f"saves of {_SMALL} nodes and fewer bound by slots", small, most=False)


def _number(value: float | None, form: str) -> str:
    return "none" if value is None else form.format(value)


def _median(what: str, study: str, told: Told, wanted: tuple[float, float], form: str) -> Figure:
    """A median with its exact interval, against a value and half of its last digit."""
    if told["median_interval"] is None:
        return Figure(what, study, _number(told["median"], form), "too few", None)
    low, high = told["median_interval"]
    inside = low <= wanted[0] + wanted[1] and wanted[0] - wanted[1] <= high
    return Figure(what, study, form.format(told["median"]), f"{form.format(low)} to {form.format(high)}", inside)


def _range(what: str, study: str, shares: Sequence[float], wanted: tuple[float, float]) -> Figure:
    """Where 95 % of our events lie; it must hold the study's one figure, or lie within the study's range."""
    if not shares:
        return Figure(what, study, "none", "-", None)
    low, high = np.round(np.quantile(shares, [0.025, 0.975]), 1)
    first, last = wanted
    inside = bool(low <= first <= high) if first == last else bool(first <= low and high <= last)
    return Figure(
        what, study, f"{np.median(shares):.1f} % (median)", f"{low:.1f}-{high:.1f} % (95 % of events)", inside
    )


def _bound(what: str, group: Sequence[Told], *, most: bool) -> Figure:
    """Which share of events the slots bind: by the study most of the large ones and few of the small."""
    study = "yes" if most else "no"
    if not group:
        return Figure(what, study, "none", "-", None)
    count = sum(event["verdict"] == "rpc-slot-bound" for event in group)
    low, high = clopper_pearson(count, len(group))
    inside = low > 0.5 if most else high < 0.5
    return Figure(what, study, f"{count} of {len(group)}", f"{100 * low:.0f}-{100 * high:.0f} %", inside)


def without_limit(told: Told) -> Figure:
    """A cluster without the limit must get another verdict."""
    verdicts = {name: row["events"] for name, row in told["summary"]["saves"]["verdicts"].items()}
    ours = ", ".join(f"{count} {name}" for name, count in verdicts.items()) or "no saves"
    return Figure(
        "without the limit: verdicts on saves",
        "not the slots",
        ours,
        "-",
        bool(verdicts) and "rpc-slot-bound" not in verdicts,
    )


if __name__ == "__main__":
    main()
