"""The gauge of XIDs to events: it holds the last code until the exporter or driver restarts, so only changes count."""

from __future__ import annotations

import re
from functools import lru_cache
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import catalogue
from features.tables import EVENTS, Panel, Series, conform, to_time

# DCGM_FI_DEV_XID_ERRORS and recording rules made of it: the value is the code
_GAUGE = re.compile(r"(?:^|_)xid_errors?(?:$|\{)", re.IGNORECASE)
# DCGM_EXP_XID_ERRORS_COUNT{xid="31"} (errors of the last minutes) and counters: the value is a count, the code a label
_COUNTED = re.compile(r"(?:^|_)xid_errors?_(?:count|total)(?:$|\{)", re.IGNORECASE)
_CODE = re.compile(r'[{,](?:xid|err_code|xid_code|code)="(\d{1,5})"', re.IGNORECASE)
_RUNNING = re.compile(r"_total(?:$|\{)", re.IGNORECASE)
# What tells GPUs apart where their UUIDs were not exported, the most certain first
_PLACES = (
    "pci_bus_id",
    "pci_bus_addr",
    "pci",
    "bus_id",
    "gpu",
    "gpu_id",
    "gpu_index",
    "index",
    "minor_number",
    "device",
)
_PLACE = tuple(re.compile(rf'[{{,]{label}="([^"]+)"', re.IGNORECASE) for label in _PLACES)
MOST_CODE = 99_999  # above it are DCGM's blanks


class Gauge(NamedTuple):
    """What the exporter said of one GPU, or of one code of it: `codes` float64 [T], NaN where it said nothing.

    `device` is what tells it from the node's other gauges, see `device`; `gpu` a UUID, "" where none was exported.
    """

    device: str
    gpu: str
    codes: NDArray[np.float64]


@lru_cache(maxsize=1 << 16)  # nodes and GPUs have the same metrics
def is_gauge(metric: str) -> bool:
    """Whether a series of this metric tells the last code."""
    return bool(_GAUGE.search(metric) or (_COUNTED.search(metric) and _CODE.search(metric)))


@lru_cache(maxsize=1 << 16)
def device(series: Series) -> str:
    """What a gauge speaks of: a GPU by its UUID, or by the place that the labels name; with its code if it has one.

    The last code of one GPU must not hide another's, nor errors of one code those of another.
    """
    places = (found[1] for label in _PLACE if (found := label.search(series.metric)))
    place = series.gpu or next(places, "")
    code = _code(series.metric)
    return place if code is None else f"{place}#{code:g}"


def _code(metric: str) -> float | None:
    """The code among the labels of a series that counts one."""
    found = None if _GAUGE.search(metric) else _CODE.search(metric)
    return None if found is None else float(found[1])


def code_of(metric: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The codes that samples of such a series tell; NaN where they tell none.

    A counter's have its count behind the point, so that each increase is a change: 79.001, 79.002.
    """
    code = _code(metric)
    if code is None:
        return np.where((values >= 0) & (values <= MOST_CODE), values, np.nan)
    said = code + values % 1000 / 1000 if _RUNNING.search(metric) else np.full(len(values), code)
    return np.where(np.isnan(values), np.nan, np.where(values > 0, said, 0.0))


def read_gauges(panel: Panel) -> list[Gauge]:
    """The last code of each device over the panel; a change of labels goes on where the former series ended.

    A series that counts one code is there only once there was an error: before and after, while its GPU has any
    sample, the code is 0.
    """
    found: dict[tuple[str, str], list[tuple[int, NDArray[np.float64]]]] = {}
    for series, values in zip(panel.series, panel.values, strict=True):
        if is_gauge(series.metric):
            codes = code_of(series.metric, values)
            first = _first_sample(codes)
            if not _GAUGE.search(series.metric):
                seen = _seen(panel, series.gpu)
                codes = np.where(np.isnan(codes) & seen, 0.0, codes)
            found.setdefault((device(series), series.gpu), []).append((first, codes))
    out = []
    for key in sorted(found):
        rows = [codes for _, codes in sorted(found[key], key=itemgetter(0))]
        merged = np.full(len(panel.times), np.nan)
        for row in rows:  # the series that began last speaks, and a code speaks before a zero
            said = ~np.isnan(row) & ((row > 0) | np.isnan(merged))
            merged[said] = row[said]
        out.append(Gauge(*key, merged))
    return out


def _seen(panel: Panel, gpu: str) -> NDArray[np.bool_]:
    """Whether a GPU has any sample, bool [T]."""
    rows = [row for row, series in enumerate(panel.series) if series.gpu == gpu]
    return np.asarray(~np.isnan(panel.values[rows]).all(axis=0), dtype=np.bool_)


def from_gauge(
    times: NDArray[np.int64], codes: NDArray[np.float64], node: str, gpu: str, pci: str = "", before: float = np.nan
) -> pd.DataFrame:
    """Events of one GPU's gauge: each change to a code that is not 0.

    Parameters
    ----------
    times
        int64 [T], nanoseconds since 1970 at which the codes were read.
    codes
        float64 [T]; NaN without a sample.
    before
        The last code known before `times`; NaN at the beginning, where a first code that is not 0 may be old.

    Returns
    -------
    DataFrame
        Frame of `EVENTS`; the true time lies between the sample before and the event's, as `detail` says.
    """
    known = np.flatnonzero(~np.isnan(codes))
    said = codes[known]
    former = np.concatenate([[before], said[:-1]])[: len(said)]
    changed = np.flatnonzero((said != former) & (said > 0) & ~np.isnan(former))
    rows = []
    for place in changed:
        time = to_time(int(times[known[place]]))
        since = to_time(int(times[known[place - 1]])) if place else None
        code = int(said[place])
        old = int(former[place])
        detail = f"gauge changed from {old} to {code}" if old != code else f"the count of {code} rose"
        detail += "" if since is None else f" after {since:%Y-%m-%dT%H:%M:%SZ}"
        rows.append(
            {
                "node": node, "gpu": gpu, "pci": pci, "time": time, "last": time, "xid": code, "origin": "gauge",
                "detail": detail, "count": 1, "kind": catalogue.kind(code),
            }
        )  # fmt: skip
    return conform(pd.DataFrame(rows), EVENTS) if rows else EVENTS.empty()


def last_known(codes: NDArray[np.float64], before: float = np.nan) -> float:
    """The code the gauge held last."""
    said = codes[~np.isnan(codes)]
    return float(said[-1]) if len(said) else before


def _first_sample(row: NDArray[np.float64]) -> int:
    said = np.flatnonzero(~np.isnan(row))
    return int(said[0]) if len(said) else len(row)
