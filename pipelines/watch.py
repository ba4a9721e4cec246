"""What was known of the nodes by a window's end, and no later: XIDs told, codes on gauges, GPUs that were lost.

History is told with hindsight: that a GPU is lost is sure five minutes on, and one that comes back may unsay it. A
score must not know that, so the job and `pipelines.backtest` ask here, end by end. The job keeps what it has seen
of the last week in its own state; only its first run (or one after a long pause) reads the week from the source.
"""

from __future__ import annotations

import io
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import absence, gauge, incidents, repair, xid
from features.absence import Sight
from features.matrix import Past, cover
from features.settings import LabelSettings, to_nanoseconds
from features.tables import EVENTS, GPUS, Panel, conform
from features.windows import as_ns
from pipelines.live import Stamps

# What a row's history looks back to is a week before its window begins; the rest is for windows caught up
SPAN_NS = (7 * 24 + 6) * 3_600_000_000_000
_KEPT_NS = SPAN_NS + 86_400_000_000_000
_SETTLED_NS = 2 * absence.LEAST_NS  # a GPU gone for longer is judged again only when something comes or goes
_FORMAT = 2
_NO_EVENT = EVENTS.empty()


class Evidence(NamedTuple):
    """A stretch of time as read from a source: every node's samples, and the lines."""

    panels: Mapping[str, Panel]
    stamps: Mapping[str, Stamps]
    lines: pd.DataFrame
    start_ns: int
    end_ns: int


@dataclass
class _Codes:
    """Changes of one GPU's gauge, the first known code among them."""

    times: NDArray[np.int64]
    codes: NDArray[np.float64]


@dataclass
class Watch:
    """Evidence of a span, oldest first.

    Attributes
    ----------
    key
        What the evidence depends on beside the source: a watch of another key begins anew.
    since, upto
        The span [ns] that is complete.
    told
        Events of lines, and those given, as decoded: frame of `EVENTS`.
    gpus
        Frame of `GPUS`: those training knew and those seen since.
    heard
        Nodes that have ever logged anything.
    late
        When those failures' lines were first seen that came after their time had been judged, by node, XID and
        address [ns].
    """

    key: str
    step_ns: int
    since: int
    upto: int
    gpus: pd.DataFrame
    heard: set[str] = field(default_factory=set)
    told: pd.DataFrame = field(default_factory=EVENTS.empty)
    sights: dict[str, Sight] = field(default_factory=dict)
    codes: dict[tuple[str, str, str], _Codes] = field(default_factory=dict)
    late: dict[tuple[str, int, str], int] = field(default_factory=dict)
    _known: dict[str, tuple[int, pd.DataFrame]] = field(default_factory=dict, repr=False)

    def add(self, found: Evidence, nodes: Collection[str]) -> None:
        """Take in a stretch; what was known of it before is replaced."""
        start, end = found.start_ns, found.end_ns
        self.heard |= set(found.lines["node"].unique())
        kept = self.told[(as_ns(self.told["time"]) < start) | (self.told["origin"] == "given").to_numpy()]
        told = xid.decode(found.lines, self.gpus)
        known = _sayings(self.told)
        for saying in _sayings(told[(as_ns(told["time"]) < self.upto)]) - known:
            self.late[saying] = end
        self.told = _joined([kept, told])
        for node in sorted({*found.panels, *nodes, *self.sights}):
            nothing = Panel(node, np.empty(0, dtype=np.int64), (), np.empty((0, 0)))
            panel = cover(found.panels.get(node, nothing), start, end, self.step_ns)
            before = self.sights.get(node)
            piece = absence.sight(panel)
            self.sights[node] = piece if before is None else absence.join([_cut(before, self.since, start), piece])
            self._add_codes(panel, found.stamps.get(node, {}))
        self.upto = end
        self._known.clear()

    def _add_codes(self, panel: Panel, stamps: Stamps) -> None:
        start = int(panel.times[0]) if len(panel.times) else 0
        for device, gpu, codes in gauge.read_gauges(panel):
            read = [taken for series, taken in stamps.items() if gauge.device(series) == device]
            # the sample's own time; a cell's start may lie before the error
            last = np.max(read, axis=0) if read else np.full(len(panel.times), -1)
            times = np.where(last >= 0, last, panel.times)
            held = self.codes.get((panel.node, device, gpu))
            old = _Codes(np.empty(0, dtype=np.int64), np.empty(0)) if held is None else held
            before = old.times < start
            known = np.flatnonzero(~np.isnan(codes))
            whole = _Codes(np.r_[old.times[before], times[known]], np.r_[old.codes[before], codes[known]])
            changed = np.r_[True, whole.codes[1:] != whole.codes[:-1]] if len(whole.codes) else np.zeros(0, dtype=bool)
            self.codes[panel.node, device, gpu] = _Codes(whole.times[changed], whole.codes[changed])

    def trim(self) -> None:
        """Forget what no later window looks back to."""
        self.since = max(self.since, self.upto - _KEPT_NS)
        self.told = self.told[as_ns(self.told["time"]) >= self.since].reset_index(drop=True)
        self.late = {saying: seen for saying, seen in self.late.items() if seen >= self.since}
        self.sights = {node: _cut(sight, self.since, self.upto) for node, sight in self.sights.items()}
        for held in self.codes.values():
            # the last code before the span still says what a later one changed from
            first = max(0, int(np.searchsorted(held.times, self.since)) - 1)
            held.times, held.codes = held.times[first:], held.codes[first:]

    def events(self, end_ns: int) -> pd.DataFrame:
        """Frame of `EVENTS` as known at a moment."""
        gpus = self.gpus
        where = {(node, gpu): pci for node, gpu, pci in zip(gpus["node"], gpus["gpu"], gpus["pci"], strict=True)}
        parts = [self.told[as_ns(self.told["time"]) < end_ns]]
        for (node, _, gpu), held in sorted(self.codes.items()):
            if (held.codes[1:] > 0).any():
                cut = held.times < end_ns
                pci = where.get((node, gpu), "")
                parts.append(gauge.from_gauge(held.times[cut], held.codes[cut], node, gpu, pci))
        parts += [self._lost(node, end_ns) for node in sorted(self.sights)]
        held_parts = [part for part in parts if len(part)]
        return xid.fold(pd.concat(held_parts, ignore_index=True)) if held_parts else EVENTS.empty()

    def _lost(self, node: str, end_ns: int) -> pd.DataFrame:
        """GPUs of the node that were lost by then; asked with rising ends it judges only where something may change."""
        sight = self.sights[node]
        stop = int(np.searchsorted(sight.times, end_ns))
        before = self._known.get(node)
        if before is not None and before[0] <= stop and not _may_change(sight, before[0], stop, self.step_ns):
            self._known[node] = (stop, before[1])
            return before[1]
        found = absence.lost_gpus(_seen(sight, end_ns), node, self.gpus) if _is_odd(sight, stop) else _NO_EVENT
        self._known[node] = (stop, found)
        return found

    def to_bytes(self) -> bytes:
        """As `from_bytes` reads it."""
        arrays: list[NDArray[Any]] = []

        def put(array: NDArray[Any]) -> int:
            arrays.append(array)
            return len(arrays) - 1

        said = {
            "format": _FORMAT,
            "key": self.key,
            "step_ns": self.step_ns,
            "since": self.since,
            "upto": self.upto,
            "heard": sorted(self.heard),
            "gpus": _frame_text(self.gpus),
            "told": _frame_text(self.told),
            "sights": {
                node: [
                    put(sight.times[:1]), len(sight.times), list(sight.gpus), put(np.packbits(sight.seen)),
                    put(np.packbits(sight.answered)),
                ]
                for node, sight in self.sights.items()
            },
            "late": [[*saying, seen] for saying, seen in self.late.items()],
            "codes": [[*key, put(held.times), put(held.codes)] for key, held in self.codes.items()],
        }  # fmt: skip
        packed = io.BytesIO()
        named = {f"a{number}": array for number, array in enumerate(arrays)}
        np.savez_compressed(packed, said=np.frombuffer(json.dumps(said).encode(), dtype=np.uint8), **named)  # type: ignore[arg-type]  # the stub takes any key for its own option
        return packed.getvalue()

    @classmethod
    def from_bytes(cls, content: bytes, key: str) -> Self | None:
        """What `to_bytes` gave; None when it is of another key or format."""
        stream = io.BytesIO(content)
        with np.load(stream, allow_pickle=False) as packed:
            said = json.loads(packed["said"].tobytes())
            if said.get("format") != _FORMAT or said["key"] != key:
                return None
            made = cls(key, said["step_ns"], said["since"], said["upto"], _frame(said["gpus"], GPUS))
            made.heard = set(said["heard"])
            made.told = _frame(said["told"], EVENTS)
            for node, (first, count, gpus, seen, answered) in said["sights"].items():
                begin = packed[f"a{first}"]
                times = (begin[0] if len(begin) else 0) + np.arange(count, dtype=np.int64) * made.step_ns
                bits = np.unpackbits(packed[f"a{seen}"], count=len(gpus) * count).astype(bool).reshape(len(gpus), count)
                up = np.unpackbits(packed[f"a{answered}"], count=count).astype(bool)
                made.sights[node] = Sight(times, tuple(gpus), bits, up)
            made.late = {(node, code, pci): seen for node, code, pci, seen in said["late"]}
            for node, device, gpu, times_at, codes_at in said["codes"]:
                made.codes[node, device, gpu] = _Codes(packed[f"a{times_at}"], packed[f"a{codes_at}"])
        return made


class Hindsight:
    """Pasts by window end, from a watch that is complete up to the last of them."""

    def __init__(self, watch: Watch, labels: LabelSettings, tickets: pd.DataFrame | None) -> None:
        self._watch, self._labels, self._tickets = watch, labels, tickets
        self._past: dict[int, Past] = {}

    def at(self, end_ns: int) -> Past:
        """Failures and events as known then; the very same object while nothing has changed."""
        if end_ns not in self._past:
            events = self._settled(end_ns)
            last = next(reversed(self._past.values()), None)
            if last is not None and last.events.equals(events) and not self._has_tickets():
                self._past[end_ns] = last
            else:
                found = incidents.group(events, self._labels, self._given(end_ns))
                self._past[end_ns] = Past(found, events)
        return self._past[end_ns]

    def _settled(self, end_ns: int) -> pd.DataFrame:
        events, within = self._watch.events(end_ns), to_nanoseconds(self._labels.recovery)
        for node in events["node"][repair.unsettled(events)].unique():
            mine = (events["node"] == node).to_numpy()
            if (sight := self._watch.sights.get(str(node))) is not None:
                settled = repair.settle(events[mine], _cut(sight, 0, end_ns), within)
                for name in ("kind", "last", "detail"):
                    events.loc[mine, name] = settled[name].to_numpy()
        return events

    def _has_tickets(self) -> bool:
        return self._tickets is not None and len(self._tickets) > 0

    def _given(self, end_ns: int) -> pd.DataFrame | None:
        given = self._tickets
        return given if given is None else given[as_ns(given["start"]) < end_ns]

    def began(self, windows: pd.DataFrame, stride_ns: int) -> NDArray[np.bool_]:
        """Windows at whose end a failure of the node became known: an XID in the last stride, or a lost GPU.

        A line that came after its window had been judged is news of the window by which it was there.
        """
        ends = as_ns(windows["end"])
        out = np.zeros(len(windows), dtype=bool)
        for end in np.unique(ends).tolist():
            rows = np.flatnonzero(ends == end)
            found = self._news(end, stride_ns)
            out[rows] = windows["node"].iloc[rows].isin(found).to_numpy()
        return out

    def _news(self, end_ns: int, stride_ns: int) -> set[str]:
        hard = self.hard(end_ns)
        if hard.empty:
            return set()
        lost = (hard["origin"] == "absence").to_numpy()
        sure = as_ns(repair.sure(hard))
        seen = np.array([self._watch.late.get(saying, 0) for saying in _each_saying(hard)], dtype=np.int64)
        fresh = sure >= end_ns - stride_ns
        fresh |= (
            (end_ns - stride_ns < seen) & (seen <= end_ns) & (sure >= end_ns - to_nanoseconds(self._labels.horizon))
        )
        nodes = set(hard["node"][~lost & fresh])
        if lost.any():
            before = self.hard(end_ns - stride_ns)
            nodes |= {
                node for node, _ in losses(hard[lost]) - losses(before[(before["origin"] == "absence").to_numpy()])
            }
        return nodes

    def hard(self, end_ns: int) -> pd.DataFrame:
        """The events of failures: what the user counts as one in training is an alarm, and nothing else is."""
        events = incidents.with_user_kinds(self.at(end_ns).events, self._labels)
        return events[incidents.targets(events, self._labels)]


def _each_saying(events: pd.DataFrame) -> list[tuple[str, int, str]]:
    """Node, XID and PCI address of each event."""
    return list(zip(events["node"], events["xid"].fillna(-1).astype(int), events["pci"], strict=True))


def _sayings(events: pd.DataFrame) -> set[tuple[str, int, str]]:
    return set(_each_saying(events))


def losses(events: pd.DataFrame) -> Counter[tuple[str, str]]:
    """How often each node's GPUs were lost; a loss whose moment is told better later counts once all the same."""
    return Counter(zip(events["node"], events["gpu"], strict=True))


def _may_change(sight: Sight, before: int, stop: int, step_ns: int) -> bool:
    """Whether the cells in between can say anything new of a GPU's absence."""
    if stop <= before:
        return False
    back = max(0, before - _SETTLED_NS // step_ns)
    recent = sight.seen[:, back:stop]
    # all there in every stretch of five minutes: nothing was lost and nothing came back
    return bool((_longest_gap(recent) * step_ns >= absence.LEAST_NS // 2).any())


def _is_odd(sight: Sight, stop: int) -> bool:
    """Whether any GPU was away long enough to be looked at."""
    if stop < 2 or not len(sight.gpus) or not sight.seen[:, :stop].any():
        return False
    step = int(sight.times[1] - sight.times[0])
    return bool((_longest_gap(sight.seen[:, :stop]) * step >= absence.LEAST_NS // 2).any())


def _longest_gap(seen: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Cells of the longest run without a sample, of each row."""
    place = np.arange(1, seen.shape[1] + 1)
    last = np.maximum.accumulate(np.where(seen, place, 0), axis=1)
    return np.asarray((place - last).max(axis=1, initial=0), dtype=np.int64)


def _cut(sight: Sight, start_ns: int, end_ns: int) -> Sight:
    low, high = np.searchsorted(sight.times, [start_ns, end_ns])
    return Sight(sight.times[low:high], sight.gpus, sight.seen[:, low:high], sight.answered[low:high])


def _seen(sight: Sight, end_ns: int) -> Sight:
    """What was there by then, of the GPUs that were ever there, up to the node's last sign of life."""
    cut = _cut(sight, 0, end_ns)
    there: NDArray[np.bool_] = np.any(cut.seen, axis=1)
    alive = np.flatnonzero(cut.seen.any(axis=0) | cut.answered)
    stop = int(alive[-1]) + 1 if len(alive) else 0
    gpus = tuple(gpu for gpu, seen in zip(cut.gpus, there, strict=True) if seen)
    return Sight(cut.times[:stop], gpus, cut.seen[there, :stop], cut.answered[:stop])


def _joined(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    held = [part for part in parts if len(part)]
    return conform(pd.concat(held, ignore_index=True), EVENTS) if held else EVENTS.empty()


def _frame_text(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(frame.to_json(orient="records", date_format="iso", date_unit="ns"))
    return rows


def _frame(rows: list[dict[str, Any]], table: Any) -> pd.DataFrame:
    if not rows:
        return table.empty()  # type: ignore[no-any-return]  # a Table of ours
    made = pd.DataFrame(rows)
    for name in ("first", "last", "time"):
        if name in made:
            made[name] = pd.to_datetime(made[name], utc=True)
    return conform(made, table)


def known_gpus(trained: pd.DataFrame, seen: pd.DataFrame) -> pd.DataFrame:
    """GPUs as known before, and new ones; when each was first seen is what was said first."""
    both = pd.concat([trained, seen], ignore_index=True) if len(trained) else seen
    return conform(both.drop_duplicates(["node", "gpu"]), GPUS) if len(both) else GPUS.empty()
