"""What failed and when, from everything the store holds: kernel lines, the gauge of XIDs, vanished GPUs, tickets."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from features import absence, catalogue, gauge, incidents, xid
from features.settings import LabelSettings
from features.tables import EVENTS, conform
from pipelines.config import Config
from pipelines.grid import DAY_NS
from pipelines.store import Store

_ONSET = re.compile(r"xid (\d{1,5})(?: gpu (.*))?")  # how tickets of XID onsets are kept
_FOLD_EVERY = 64  # tables of events that are held before they are folded
_UUID = re.compile(r"(?:GPU|MIG)-", re.IGNORECASE)


def events(store: Store, config: Config, counts: Counter[str] | None = None) -> pd.DataFrame:
    """Every XID event of the store, of all origins, in time order.

    Reads one node's day at a time; what grows is the table of events, and floods are folded as they come.

    Parameters
    ----------
    counts
        Filled with lines that speak of an XID and gave no event, by reason.

    Returns
    -------
    DataFrame
        Frame of `EVENTS`.
    """
    del config  # which labels make a GPU was settled at ingest
    gpus = store.gpus()
    held: list[pd.DataFrame] = [_given_onsets(store.incidents(), gpus)]
    for found in _by_node(store, gpus, Counter() if counts is None else counts):
        held.append(found)
        if len(held) > _FOLD_EVERY:
            held = [_folded(held)]
    return _folded(held)


def failures(store: Store, config: Config, preset: str | None = None) -> pd.DataFrame:
    """Failures of the store by the preset, tickets among them: frame of `FAILURES`."""
    return grouped(events(store, config), store, config, preset)


def grouped(found: pd.DataFrame, store: Store, config: Config, preset: str | None = None) -> pd.DataFrame:
    """Failures by the preset among events that `events` found, tickets among them: frame of `FAILURES`."""
    return incidents.group(found, _labels(config, preset), _tickets(store))


def explain(store: Store, config: Config, preset: str | None = None) -> list[dict[str, Any]]:
    """Each XID event with one sentence that says why it is or isn't a failure."""
    found = events(store, config)
    sentences = incidents.explain(found, _labels(config, preset), _tickets(store))
    columns = (found[name] for name in ("time", "node", "pci", "xid", "origin"))
    return [
        {
            "time": time,
            "node": node,
            "pci": pci,
            "xid": None if pd.isna(code) else int(code),
            "origin": origin,
            "why": sentence,
        }
        for time, node, pci, code, origin, sentence in zip(*columns, sentences, strict=True)
    ]


def _labels(config: Config, preset: str | None) -> LabelSettings:
    return config.labels if preset is None else config.labels.model_copy(update={"preset": preset})


def _by_node(store: Store, gpus: pd.DataFrame, counts: Counter[str]) -> Iterator[pd.DataFrame]:
    for node in store.nodes():
        for day in store.log_days(node):
            yield xid.decode(store.logs(day * DAY_NS, (day + 1) * DAY_NS, [node]), gpus, counts)
        yield from _metric_events(store, node, gpus)


def _metric_events(store: Store, node: str, gpus: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Events of the gauge, and of GPUs that vanish, of one node."""
    where = {gpu: pci for gpu, pci, host in zip(gpus["gpu"], gpus["pci"], gpus["node"], strict=True) if host == node}
    before: dict[str, float] = {}
    sights = []
    for day in store.days(node):
        panel = store.panel(node, day * DAY_NS, (day + 1) * DAY_NS)
        for gpu, codes in gauge.read_gauges(panel):
            yield gauge.from_gauge(panel.times, codes, node, gpu, where.get(gpu, ""), before.get(gpu, np.nan))
            before[gpu] = gauge.last_known(codes, before.get(gpu, np.nan))
        sights.append(absence.sight(panel))
    if sights:
        yield absence.lost_gpus(_trimmed(absence.join(sights)), node, gpus)


def _trimmed(sight: absence.Sight) -> absence.Sight:
    """Without the cells after the node's last sample, which nobody measured."""
    any_seen = np.flatnonzero(sight.seen.any(axis=0) | sight.answered)
    stop = int(any_seen[-1]) + 1 if len(any_seen) else 0
    return absence.Sight(sight.times[:stop], sight.gpus, sight.seen[:, :stop], sight.answered[:stop])


def _folded(tables: list[pd.DataFrame]) -> pd.DataFrame:
    full = [table for table in tables if len(table)]
    return xid.fold(pd.concat(full, ignore_index=True)) if full else EVENTS.empty()


def _tickets(store: Store) -> pd.DataFrame:
    given = store.incidents()
    return given[~given["kind"].str.fullmatch(_ONSET.pattern)] if len(given) else given


def _given_onsets(given: pd.DataFrame, gpus: pd.DataFrame) -> pd.DataFrame:
    """Events of the tickets that are onsets of XIDs."""
    rows = []
    for node, time, kind in zip(given["node"], given["start"], given["kind"], strict=True):
        if found := _ONSET.fullmatch(kind):
            code, place = int(found[1]), found[2] or ""
            rows.append(
                {
                    "node": node, "time": time, "last": time, "xid": code, "origin": "given", "count": 1,
                    "gpu": place if _UUID.match(place) else "", "pci": xid.pci(place), "kind": catalogue.kind(code),
                    "detail": f"gpu index {place}" if place.isdigit() else "",
                }
            )  # fmt: skip
    return xid.place(conform(pd.DataFrame(rows), EVENTS), gpus) if rows else EVENTS.empty()
