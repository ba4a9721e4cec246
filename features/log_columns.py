"""Masked lines and frozen templates to one row of `logs.*` columns per window.

A window is judged by templates as if its own node had said nothing before and after it: what a template's
training lines owe to the window's own node and moment is left out. A row of the training windows thus looks
like the row a live window would get, and "never heard before" means the same in both.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features.device_lines import CLASSES, NONE, device_class
from features.log_odds import dispersion as dispersion_of
from features.log_odds import rarity, tail
from features.settings import TemplateSettings
from features.tables import ModelError
from features.templates import UNKNOWN, Rates, Templates, mine

COLUMNS = tuple(
    f"logs.{what}__value"
    for what in (
        "lines",  # log1p of the number of lines
        "kernel_lines",  # log1p, lines the kernel is known to have written
        "error_lines",  # log1p, lines of severity err and worse
        "distinct",  # log1p of the number of templates; all unknown lines are one
        "unknown",  # log1p of the number of minutes with a line no template knows
        "node_new",  # log1p of the number of templates other nodes know and this one does not; NaN for a new node
        "rarity_max",  # -log10 of the share of training windows that hold the rarest template in the window
        "rarity_sum",  # the same, summed over the window's templates
        "burst_max",  # log1p of the largest -log10 P(a template is heard in at least as many minutes)
        # the same over the lines of each class of device; an unknown one counts as never heard in each minute
        *(f"device_{name}" for name in CLASSES),
    )
)
# A template heard on one node only within this span is one episode, and an episode says nothing about the
# windows it lies in. Longer than a failure with its warning and its repair, shorter than a daily job's period.
EPISODE_NS = 6 * 3600 * 1_000_000_000
# Windows of the whole cluster's rate that stand beside a node's own: a node seldom seen is judged by the others,
# one with days of history by itself.
PRIOR_WINDOWS = 48.0
# A template's rate is one of minutes in which it is heard: a flood of one minute and a line a minute for an hour are
# as many lines, and only the second lasts.
_MINUTE_NS = 60 * 1_000_000_000


class Telling(NamedTuple):
    """One template that makes a window odd."""

    template: str  # "" for lines no template knows
    example: str
    lines: int
    surprise: float  # -log10 of a probability
    why: str  # unknown | rare | burst


@dataclass(frozen=True)
class _Entries:
    """Lines counted by window and template, ascending by (row, template); template -1 is unknown."""

    row: NDArray[np.int64]
    template: NDArray[np.int64]
    count: NDArray[np.int64]
    minutes: NDArray[np.int64]  # from the window's start in which there is such a line


class _Judged(NamedTuple):
    """Each entry against the training windows."""

    known: NDArray[np.bool_]
    own: NDArray[np.bool_]
    rarity: NDArray[np.float64]
    burst: NDArray[np.float64]


def learn(lines: pd.DataFrame, windows: pd.DataFrame, settings: TemplateSettings | None = None) -> Templates:
    """Mine and rate the lines that lie in these windows (of their node), and no others."""
    inside = within(lines, windows)
    return fit_rates(inside, windows, mine(inside, settings))


def within(lines: pd.DataFrame, windows: pd.DataFrame) -> pd.DataFrame:
    """The lines that lie in at least one window of their node."""
    keep = np.zeros(len(lines), dtype=bool)
    time = _ns(lines["time"])
    for rows, places in _by_node(lines, windows):
        starts = np.sort(_ns(windows["start"])[rows])
        ends = np.sort(_ns(windows["end"])[rows])
        at = time[places]
        keep[places] = np.searchsorted(starts, at, "right") > np.searchsorted(ends, at, "right")
    return lines[keep]


def fit_rates(lines: pd.DataFrame, windows: pd.DataFrame, templates: Templates) -> Templates:
    """The templates with how often each is heard in these windows, by node."""
    ids = templates.match(lines["masked"])
    entries = _count(lines, windows, ids)
    nodes = np.sort(windows["node"].astype("str").unique())
    per_node = windows["node"].astype("str").value_counts().reindex(nodes).to_numpy(dtype=np.int64)
    size = max(len(templates.texts), 1)
    row_node = np.searchsorted(nodes, windows["node"].astype("str").to_numpy())
    hit = entries.template != UNKNOWN
    key = row_node[entries.row[hit]] * size + entries.template[hit]
    pairs, inverse = np.unique(key, return_inverse=True)
    count = entries.minutes[hit]
    held = np.bincount(inverse, minlength=len(pairs)).astype(np.int64)
    heard = _sums(inverse, count, len(pairs))
    squares = _sums(inverse, count**2, len(pairs))
    first, last = _spans(lines, ids, nodes, pairs, size)
    pair_node, pair_template = pairs // size, pairs % size
    return replace(
        templates,
        rates=Rates(
            nodes=[str(node) for node in nodes],
            node_windows=per_node.tolist(),
            dispersion=dispersion_of(heard, squares, per_node[pair_node], pair_template, len(templates.texts)),
            pair_node=pair_node.tolist(),
            pair_template=pair_template.tolist(),
            held=held.tolist(),
            heard=heard.tolist(),
            first=first.tolist(),
            last=last.tolist(),
        ),
    )


def columns(
    lines: pd.DataFrame, windows: pd.DataFrame, templates: Templates, heard: Collection[str] = ()
) -> pd.DataFrame:
    """One row per window with `COLUMNS`, float64, indexed like the windows.

    A row depends on nothing but the window's own lines and the templates, alone or in a batch. It is NaN for
    a node that nobody has ever heard: not in the lines, nor among the templates' nodes, nor in ``heard``.

    Raises
    ------
    ModelError
        The templates carry no rates.
    """
    rates = _rates(templates)
    ids = templates.match(lines["masked"])
    entries = _count(lines, windows, ids)
    judged = _judge(entries, windows, templates)
    total = len(windows)
    every = pd.DataFrame(index=windows.index)
    table = _tally(lines, windows)
    odd = ~judged.known
    unknown = _sums(entries.row[odd], entries.minutes[odd], total)
    # log10 of a share too small to be seen in this many windows
    never = rarity(np.zeros(1), sum(rates.node_windows))[0]
    known = entries.row[judged.known]
    rarest = np.zeros(total)
    np.maximum.at(rarest, known, judged.rarity[judged.known])
    burst = np.zeros(total)
    np.maximum.at(burst, known, judged.burst[judged.known])
    device = np.zeros((len(CLASSES), total))
    kind = np.append(device_class(templates.texts), NONE)[entries.template]
    told = judged.known & (kind != NONE)
    np.maximum.at(device, (kind[told], entries.row[told]), judged.burst[told])
    _add_unknown(device, lines, windows, ids, never)
    node = windows["node"].astype("str").to_numpy()
    strange = judged.known & ~judged.own
    new = np.bincount(entries.row[strange], minlength=total).astype(float)
    new[~np.isin(node, rates.nodes)] = np.nan
    values = (
        np.log1p(table[0]),
        np.log1p(table[1]),
        np.log1p(table[2]),
        np.log1p(np.bincount(known, minlength=total) + (unknown > 0)),
        np.log1p(unknown),
        np.log1p(new),
        np.where(unknown > 0, np.maximum(rarest, never), rarest),
        np.bincount(known, judged.rarity[judged.known], minlength=total) + np.where(unknown > 0, never, 0.0),
        np.log1p(burst),
        *np.log1p(device),
    )
    silent = ~np.isin(node, np.union1d(lines["node"].astype("str").unique(), [*rates.nodes, *heard]).astype(str))
    for name, column in zip(COLUMNS, values, strict=True):
        every[name] = np.where(silent, np.nan, column)
    return every


def _add_unknown(
    device: NDArray[np.float64], lines: pd.DataFrame, windows: pd.DataFrame, ids: NDArray[np.int64], never: float
) -> None:
    """Raise each class [D, W] by ``never`` for each minute of a window with an unknown line of it."""
    kind = np.full(len(lines), NONE, dtype=np.int64)
    strange = ids == UNKNOWN
    kind[strange] = device_class(lines["masked"][strange])
    for number in np.unique(kind[kind != NONE]).tolist():
        found = _count(lines[kind == number], windows, ids[kind == number])
        np.maximum.at(device[number], found.row, found.minutes * never)


def top(lines: pd.DataFrame, window: pd.DataFrame, templates: Templates, most: int = 3) -> list[Telling]:
    """The templates that make one window odd (surprise of 1 and more), oddest first, each with a line of this window.

    Parameters
    ----------
    window
        A frame of one row of `WINDOWS`.
    """
    rates = _rates(templates)
    node = str(window["node"].iloc[0])
    inside = within(lines[lines["node"].astype("str") == node], window)
    ids = templates.match(inside["masked"])
    entries = _count(inside, window, ids)
    judged = _judge(entries, window, templates)
    never = float(rarity(np.zeros(1), sum(rates.node_windows))[0])
    found = []
    for place, number in enumerate(entries.template.tolist()):
        rare, burst = float(judged.rarity[place]), float(judged.burst[place])
        why, surprise = ("burst", burst) if burst > rare else ("rare", rare)
        if not judged.known[place]:
            why, surprise = "unknown", never
        if surprise < 1:  # one window in ten
            continue
        text = "" if number == UNKNOWN else templates.texts[number]
        line = str(inside["example"].iloc[int(np.flatnonzero(ids == number)[0])])
        found.append(Telling(text, line, int(entries.count[place]), surprise, why))
    return sorted(found, key=lambda telling: (-telling.surprise, telling.template))[:most]


def _rates(templates: Templates) -> Rates:
    if templates.rates is None:
        raise ModelError("templates without rates; fit them with features.log_columns.fit_rates, or train again")
    return templates.rates


def _ns(times: pd.Series) -> NDArray[np.int64]:
    return np.asarray(times.astype("int64").to_numpy(), dtype=np.int64)


def _sums(places: NDArray[np.int64], numbers: NDArray[np.int64], length: int) -> NDArray[np.int64]:
    total = np.zeros(length, dtype=np.int64)
    np.add.at(total, places, numbers)
    return total


def _by_node(lines: pd.DataFrame, windows: pd.DataFrame) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """For each node with windows and lines: the rows of its windows, and of its lines by time."""
    codes, names = pd.factorize(windows["node"].astype("str"))
    node = pd.Index(names).get_indexer(pd.Index(lines["node"].astype("str")))
    order = np.lexsort((_ns(lines["time"]), node))
    edges = np.searchsorted(node[order], np.arange(len(names) + 1))
    by_window = np.argsort(codes, kind="stable")
    cuts = np.searchsorted(codes[by_window], np.arange(len(names) + 1))
    return [
        (by_window[cuts[k] : cuts[k + 1]], order[edges[k] : edges[k + 1]])
        for k in range(len(names))
        if edges[k + 1] > edges[k]
    ]


def _count(lines: pd.DataFrame, windows: pd.DataFrame, ids: NDArray[np.int64]) -> _Entries:
    """Count lines, and minutes with a line, by window and template."""
    size = int(ids.max(initial=-1)) + 2
    key, count = _by_window(lines, windows, ids, lines["count"].to_numpy(), size)
    minutes = np.zeros(len(key), dtype=np.int64)
    phase = _ns(windows["start"]) % _MINUTE_NS  # nearly always 0 for all
    for offset in np.unique(phase).tolist():
        rows = np.flatnonzero(phase == offset)
        first = _first_of_minute(lines, ids, offset, size)
        part, held = _by_window(
            lines[first], windows.iloc[rows], ids[first], np.ones(int(first.sum()), dtype=np.int64), size
        )
        minutes[np.searchsorted(key, rows[part // size] * size + part % size)] = held
    return _Entries(key // size, key % size - 1, count, minutes)


def _first_of_minute(lines: pd.DataFrame, ids: NDArray[np.int64], offset: int, size: int) -> NDArray[np.bool_]:
    """Whether a line is the first of its template on its node in its minute, which begins ``offset`` ns late."""
    node = pd.factorize(lines["node"].astype("str"))[0]
    time = _ns(lines["time"])
    order = np.lexsort((time, node * size + ids))
    same = np.ones(len(order), dtype=bool)
    same[:1] = False
    for one in (node[order], ids[order], (time[order] - offset) // _MINUTE_NS):
        same[1:] &= one[1:] == one[:-1]
    first = np.empty(len(order), dtype=bool)
    first[order] = ~same
    return first


def _by_window(
    lines: pd.DataFrame, windows: pd.DataFrame, ids: NDArray[np.int64], weight: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Sums of weights by ``row * size + id + 1``, ascending.

    Windows overlap: lines are counted once by pane (the spans between neighbouring window edges), and each
    window sums its panes.
    """
    time, start, end = _ns(lines["time"]), _ns(windows["start"]), _ns(windows["end"])
    parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    for rows, places in _by_node(lines, windows):
        edges = np.unique(np.concatenate([start[rows], end[rows]]))
        pane = np.searchsorted(edges, time[places], "right") - 1
        inside = (pane >= 0) & (pane < len(edges) - 1)
        key, count = _reduce(pane[inside] * size + ids[places[inside]] + 1, weight[places[inside]])
        low = np.searchsorted(key, np.searchsorted(edges, start[rows]) * size)
        high = np.searchsorted(key, np.searchsorted(edges, end[rows]) * size)
        span = high - low
        pick = np.arange(span.sum()) - np.repeat(np.cumsum(span) - span, span) + np.repeat(low, span)
        parts.append(_reduce(np.repeat(rows, span) * size + key[pick] % size, count[pick]))
    if not parts:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    key, order = np.unique(np.concatenate([part[0] for part in parts]), return_index=True)
    return key, np.concatenate([part[1] for part in parts])[order]


def _reduce(key: NDArray[np.int64], count: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Distinct keys ascending, and the sum of counts of each."""
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    heads = np.flatnonzero(np.diff(ordered, prepend=np.int64(-1)))
    sums = np.add.reduceat(count[order], heads) if len(heads) else count[:0]
    return ordered[heads].astype(np.int64), np.asarray(sums, dtype=np.int64)


def _tally(lines: pd.DataFrame, windows: pd.DataFrame) -> NDArray[np.int64]:
    """Lines, kernel lines and error lines of each window: int64 [3, W]."""
    time, start, end = _ns(lines["time"]), _ns(windows["start"]), _ns(windows["end"])
    count = lines["count"].to_numpy()
    weights = np.stack([count, count * lines["kernel"].to_numpy(), count * lines["error"].to_numpy()])
    out = np.zeros((3, len(windows)), dtype=np.int64)
    for rows, places in _by_node(lines, windows):
        running = np.zeros((3, len(places) + 1), dtype=np.int64)
        np.cumsum(weights[:, places], axis=1, out=running[:, 1:])
        low, high = np.searchsorted(time[places], start[rows]), np.searchsorted(time[places], end[rows])
        out[:, rows] = running[:, high] - running[:, low]
    return out


def _judge(entries: _Entries, windows: pd.DataFrame, templates: Templates) -> _Judged:
    """Each entry against the training windows, without what its own node and moment gave to them."""
    rates = _rates(templates)
    size = max(len(templates.texts), 1)
    nodes = pd.Index(rates.nodes, dtype="str")
    node = nodes.get_indexer(pd.Index(windows["node"].astype("str")))[entries.row]
    pair_template = np.asarray(rates.pair_template, dtype=np.int64)
    held, heard = np.asarray(rates.held, dtype=np.int64), np.asarray(rates.heard, dtype=np.int64)
    first, last = np.asarray(rates.first, dtype=np.int64), np.asarray(rates.last, dtype=np.int64)
    wanted = np.where((node < 0) | (entries.template == UNKNOWN), -1, node * size + entries.template)
    pairs = np.asarray(rates.pair_node, dtype=np.int64) * size + pair_template
    # pairs are few: one blank pair at the end stands for "none"
    place = np.where(np.isin(wanted, pairs), np.searchsorted(pairs, wanted), len(pairs))
    held, heard = np.append(held, 0), np.append(heard, 0)
    first, last = np.append(first, 0), np.append(last, 0)
    start, end = _ns(windows["start"])[entries.row], _ns(windows["end"])[entries.row]
    episode = (last[place] - first[place] <= EPISODE_NS) & (start <= last[place]) & (end > first[place])
    own = (held[place] > 0) & ~episode
    all_held = _sums(pair_template, held[:-1], size + 1)
    all_heard = _sums(pair_template, heard[:-1], size + 1)  # the last stands for unknown (-1)
    held_else = all_held[entries.template] - np.where(episode, held[place], 0)
    heard_else = all_heard[entries.template] - np.where(episode, heard[place], 0)
    total = sum(rates.node_windows)
    own_windows = np.append(np.asarray(rates.node_windows, dtype=np.int64), 0)[node]
    mean = (np.where(own, heard[place], 0) + PRIOR_WINDOWS * heard_else / max(total, 1)) / (own_windows + PRIOR_WINDOWS)
    dispersion = np.append(np.asarray(rates.dispersion, dtype=np.float64), 1.0)[entries.template]
    known = held_else > 0
    return _Judged(known, own, rarity(held_else, total), tail(entries.minutes, mean, dispersion, known))


def _spans(
    lines: pd.DataFrame, ids: NDArray[np.int64], nodes: NDArray[np.str_], pairs: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """First and last line of each pair, int64 nanoseconds."""
    node = pd.Index(nodes).get_indexer(pd.Index(lines["node"].astype("str")))
    key = np.where((ids == UNKNOWN) | (node < 0), -1, node * size + ids)
    use = np.isin(key, pairs)
    place, time = np.searchsorted(pairs, key[use]), _ns(lines["time"])[use]
    first = np.full(len(pairs), np.iinfo(np.int64).max)
    last = np.full(len(pairs), np.iinfo(np.int64).min)
    np.minimum.at(first, place, time)
    np.maximum.at(last, place, time)
    return first, last
