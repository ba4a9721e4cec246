"""One node's counters to its stretches of saving and loading, and what its NFS client, link and CPU did in each.

Bytes are told by mountstats; a node without that collector by its network, which is said. Requests in flight follow
from Little's law: what is in flight on average is the rate of requests times the time each takes, so the seconds of
response time gained in a second are the requests in flight.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from features import checkpoint_path, meaning, phase
from features.checkpoint_spells import Array, Sight, Spell
from features.panel import clean, increases, step_of
from features.settings import CheckpointSettings, PanelSettings, to_nanoseconds
from features.tables import Panel

SAVE, LOAD = "save", "load"
KINDS = (SAVE, LOAD)
OPERATION = {SAVE: "WRITE", LOAD: "READ"}
_NFS = "node_mountstats_nfs_"
# Where bytes are told, the best first: on the wire, by operation, by system calls, and all the network moves.
_BYTES: dict[str, tuple[tuple[str, str], ...]] = {
    SAVE: (
        ("mountstats", rf"{_NFS}total_write_bytes_total"),
        ("operations", rf"{_NFS}operations_sent_bytes_total"),
        ("calls", rf"{_NFS}(direct_)?write_bytes_total"),
        ("network", r"node_network_transmit_bytes_total"),
    ),
    LOAD: (
        ("mountstats", rf"{_NFS}total_read_bytes_total"),
        ("operations", rf"{_NFS}operations_received_bytes_total"),
        ("calls", rf"{_NFS}(direct_)?read_bytes_total"),
        ("network", r"node_network_receive_bytes_total"),
    ),
}
_LINK = {
    SAVE: r"node_network_transmit_bytes_total|node_infiniband_port_data_transmitted_bytes_total",
    LOAD: r"node_network_receive_bytes_total|node_infiniband_port_data_received_bytes_total",
}
_SPEED = r"node_network_speed_bytes|node_infiniband_rate_bytes_per_second"
_RESENT = "node_nfs_rpc_retransmissions_total"
_NO_PORT = re.compile(r"lo|(veth|docker|cali|cni|br-|virbr|tunl|flannel|cilium|lxc|dummy).*")
_WANTED = re.compile(
    "|".join([pattern for kind in KINDS for _, pattern in _BYTES[kind]] + [_LINK[SAVE], _LINK[LOAD], _SPEED])
    + rf"|{_NFS}(operations_(requests|queue_time_seconds|response_time_seconds|request_time_seconds)"
    + r"|transport_(backlog_queue|sends))_total"
    + rf"|{_NFS}transport_maximum_rpc_slots|node_cpu_seconds_total|{_RESENT}"
)
_LABEL = re.compile(r'([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"')


def wanted(metric: str) -> bool:
    """Whether a metric is one of those that are looked at."""
    name = meaning.name_of(metric)
    return bool(_WANTED.fullmatch(name)) or name in checkpoint_path.NAMES or phase.tells_use(metric)


def gains(values: Array, lookback: int, glitch_ratio: float) -> tuple[Array, NDArray[np.bool_]]:
    """Counters [S, T] to their gain in each cell, a lost scrape's part given back to its cell, and their restarts.

    A gain over several cells is shared evenly among them; NaN where no sample lies within ``lookback`` before.
    """
    grown, _, _ = increases(values, lookback, glitch_ratio)
    restarted = np.zeros(values.shape, dtype=bool)
    for row, counter in enumerate(values):
        known = np.flatnonzero(~np.isnan(counter))
        if len(known) < 2:
            continue
        before, after = known[:-1], known[1:]
        restarted[row, after] = counter[after] < counter[before] * (1 - glitch_ratio)
        for k in np.flatnonzero((after - before > 1) & ~np.isnan(grown[row, after])):
            low, high = before[k] + 1, after[k] + 1
            grown[row, low:high] = grown[row, after[k]] / (high - low)
    return grown, restarted


class _Node:
    """A node's panel asked by metric; rates are per second, [T]."""

    def __init__(self, panel: Panel, panels: PanelSettings) -> None:
        # an infinite sample is no count of anything
        finite = np.where(np.isfinite(panel.values), panel.values, np.nan)
        self.panel = panel = Panel(panel.node, panel.times, panel.series, finite)
        self.step = step_of(panel.times) / 1e9
        self.names = [meaning.name_of(series.metric) for series in panel.series]
        self.labels = [dict(_LABEL.findall(series.metric)) for series in panel.series]
        self.devices = [labels.get("device", "") for labels in self.labels]
        self._panels = panels
        self._found: dict[tuple[object, ...], list[int]] = {}
        counts = np.array([name.endswith("_total") for name in self.names], dtype=bool)
        self.lookback = max(1, to_nanoseconds(panels.staleness) // step_of(panel.times))
        self.gained = np.full(panel.values.shape, np.nan)
        self.restarted = np.zeros(panel.values.shape, dtype=bool)
        if counts.any():
            self.gained[counts], self.restarted[counts] = gains(
                panel.values[counts], self.lookback, panels.glitch_ratio
            )

    def rows(self, pattern: str, **labels: str) -> list[int]:
        """Rows of the series of a metric with these labels."""
        key = (pattern, *sorted(labels.items()))
        if key not in self._found:
            self._found[key] = [
                row
                for row, name in enumerate(self.names)
                if re.fullmatch(pattern, name) and labels.items() <= self.labels[row].items()
            ]
        return self._found[key]

    def sum(self, rows: list[int], part: slice = slice(None)) -> Array:
        """Gains a second of several counters in a stretch, [T]; NaN where none is known."""
        gained = self.gained[rows, part]
        total = np.nansum(gained, axis=0) / self.step
        total[np.isnan(gained).all(axis=0)] = np.nan
        return np.asarray(total)

    def bytes(self, kind: str) -> tuple[str, list[int]]:
        """Where bytes are told and by which rows; ("", []) nowhere."""
        for source, pattern in _BYTES[kind]:
            labels = {"operation": OPERATION[kind]} if source == "operations" else {}
            rows = [row for row in self.rows(pattern, **labels) if not self._is_inner(row)]
            if rows:
                return source, rows
        return "", []

    def _is_inner(self, row: int) -> bool:
        return bool(_NO_PORT.fullmatch(self.devices[row]))

    @cached_property
    def use(self) -> tuple[Array, int]:
        """Utilisation of the GPUs [T] in percent, and how many tell it."""
        rows = [row for row, series in enumerate(self.panel.series) if phase.tells_use(series.metric)]
        series = tuple(self.panel.series[row] for row in rows)
        told = clean(Panel(self.panel.node, self.panel.times, series, self.panel.values[rows]), self._panels)
        return phase.utilisation(told), len({one.gpu for one in series})

    @cached_property
    def servers(self) -> dict[str, Array]:
        """By server, requests in flight: seconds of response gained a second, [T]."""
        rows = self.rows(rf"{_NFS}operations_response_time_seconds_total")
        places = sorted({self.labels[row].get("mountaddr", "") for row in rows})
        return {
            place: self.sum([row for row in rows if self.labels[row].get("mountaddr", "") == place]) for place in places
        }

    @cached_property
    def cpu(self) -> tuple[Array, Array]:
        """Share of the node's CPU time in use, and in the kernel, [T]."""
        idle = self.rows("node_cpu_seconds_total", mode="idle")
        kernel = [
            row for mode in ("system", "softirq", "irq") for row in self.rows("node_cpu_seconds_total", mode=mode)
        ]
        cpus = max(len(idle), 1)
        return 1 - self.sum(idle) / cpus, self.sum(kernel) / cpus

    def link(self, kind: str, part: slice, weight: Array) -> tuple[float, float]:
        """Rate of the fullest port in a stretch and its speed, where exported."""
        best = (np.nan, np.nan)
        for row in self.rows(_LINK[kind]):
            if self._is_inner(row):
                continue
            place = {key: value for key, value in self.labels[row].items() if key in {"device", "port"}}
            speeds = [np.nanmax(self.panel.values[at], initial=0.0) for at in self.rows(_SPEED, **place)]
            rate, speed = _mean(self.gained[row, part] / self.step, weight), max(speeds, default=0.0) or np.nan
            if np.isnan(best[0]) or rate / np.nan_to_num(speed, nan=1.0) > best[0] / np.nan_to_num(best[1], nan=1.0):
                best = (rate, speed)
        return best

    def slots(self, server: str) -> tuple[float, int]:
        """Most requests ever in flight over a server's connections, and how many connections there are."""
        most: dict[tuple[str, str], float] = {}
        for row in self.rows(rf"{_NFS}transport_maximum_rpc_slots", **_at(server)):
            values = self.panel.values[row]
            if not np.isnan(values).all():
                key = (self.labels[row].get("transport", ""), self.labels[row].get("protocol", ""))
                # mounts of one server share its connections, and each shows the same numbers
                most[key] = max(most.get(key, 0.0), float(np.nanmax(values)))
        return (sum(most.values()) if most else np.nan), len(most)


def _at(server: str) -> dict[str, str]:
    """The label that names a server; node_exporter before 1.0 has none."""
    return {"mountaddr": server} if server else {}


def _mean(values: Array, weight: Array) -> float:
    """Mean weighted by the bytes moved, so that a cell at an edge counts by the part of it that was used."""
    known = ~np.isnan(values) & ~np.isnan(weight)
    whole = weight[known].sum()
    return float((values[known] * weight[known]).sum() / whole) if whole > 0 else float("nan")


def per_node(settings: CheckpointSettings, kind: str) -> float:
    """One node's part of a kind's threshold, bytes a second."""
    whole = settings.save_bytes_per_second if kind == SAVE else settings.load_bytes_per_second
    return whole / settings.reference_nodes


def look(panel: Panel, settings: CheckpointSettings, panels: PanelSettings, start: int, end: int) -> Sight:
    """What a node did in ``[start, end)`` ns; the panel should begin and end ``staleness`` around it.

    Parameters
    ----------
    panel
        Raw values of the metrics that `wanted` says yes to; others do no harm.
    """
    node = _Node(panel, panels)
    inside = (panel.times >= start) & (panel.times < end)
    spells: list[Spell] = []
    source: dict[str, str] = {}
    quiet: dict[str, tuple[float, float]] = {}
    seen = 0
    for kind in KINDS:
        source[kind], rows = node.bytes(kind)
        rate = node.sum(rows)
        if source[kind] == "network" and rows:  # a bond and its ports show the same bytes
            rate = np.nan_to_num(node.gained[rows], nan=-1.0).max(axis=0) / node.step
            rate[rate < 0] = np.nan
        seen = max(seen, int((~np.isnan(rate) & inside).sum()))
        active = (np.nan_to_num(rate) >= settings.member_share * per_node(settings, kind)) & inside
        if kind == LOAD and node.use[1]:
            # GPUs whose scrape is lost do what they did before; reads of training are no load
            active &= _carried(node.use[0], node.lookback) < settings.idle_percent
        spells += [_spell(node, kind, rows, rate, part) for part in _runs(active)]
        quiet[kind] = _quiet(node, kind, inside & ~active)
    mounted = {kind: _since_mount(node, kind) for kind in KINDS}
    return Sight(panel.node, start, spells, source, frozenset(_told(node)), quiet, seen, mounted)


def _since_mount(node: _Node, kind: str) -> tuple[float, float, float]:
    """What an operation's counters stand at: requests, seconds before and after sending; NaN unknown or below zero."""

    def stands(measure: str) -> float:
        rows = node.rows(rf"{_NFS}operations_{measure}_total", operation=OPERATION[kind])
        known = [row[~np.isnan(row)] for row in node.panel.values[rows]]
        last = [float(values[-1]) for values in known if len(values)]
        return sum(last) if last and min(last) >= 0 else np.nan

    return stands("requests"), stands("queue_time_seconds"), stands("response_time_seconds")


def _told(node: _Node) -> Iterator[str]:
    for kind in KINDS:
        for what, name in (
            ("requests", "requests"),
            ("queue", "queue_time_seconds"),
            ("response", "response_time_seconds"),
        ):
            if node.rows(rf"{_NFS}operations_{name}_total", operation=OPERATION[kind]):
                yield f"{what} {OPERATION[kind]}"
    measures = {"slots": rf"{_NFS}transport_maximum_rpc_slots", "cpu": "node_cpu_seconds_total", "network": _LINK[SAVE]}
    yield from (what for what, pattern in measures.items() if node.rows(pattern))
    yield from checkpoint_path.told(node.names)
    if node.use[1]:
        yield "use"


def _carried(values: Array, cells: int) -> Array:
    """Each unknown cell as the last known one, at most so many cells before it."""
    place = np.where(np.isnan(values), -1, np.arange(len(values)))
    last = np.maximum.accumulate(place)
    near = (last >= 0) & (np.arange(len(values)) - last <= cells)
    return np.where(near, values[last], np.nan)


def _runs(active: NDArray[np.bool_]) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[False], active, [False]]).astype(np.int8)))
    return [slice(int(low), int(high)) for low, high in zip(edges[::2], edges[1::2], strict=True)]


def _spell(node: _Node, kind: str, rows: list[int], rate: Array, part: slice) -> Spell:
    """All that is told of one stretch."""
    weight = rate[part]
    server = max(node.servers, key=lambda place: float(np.nansum(node.servers[place][part])), default="")
    slots, connections = node.slots(server)
    backlog = _total(node, rf"{_NFS}transport_backlog_queue_total", part, **_at(server))
    sends = _total(node, rf"{_NFS}transport_sends_total", part, **_at(server))
    link_rate, link_speed = node.link(kind, part, weight)
    times = node.panel.times
    return Spell(
        node=node.panel.node,
        kind=kind,
        start=int(times[part.start]),
        end=int(times[part.stop - 1]) + int(node.step * 1e9),
        moved=weight * node.step,
        operations=_total(node, rf"{_NFS}operations_requests_total", part, operation=OPERATION[kind]),
        queue_seconds=_queue(node, kind, part),
        response_seconds=_total(
            node, rf"{_NFS}operations_response_time_seconds_total", part, operation=OPERATION[kind]
        ),
        resent=_total(node, _RESENT, part),
        in_flight=_mean(node.servers[server][part], weight) if server in node.servers else np.nan,
        slots_seen=slots,
        connections=connections,
        backlog=backlog / sends if sends else np.nan,
        link_rate=link_rate,
        link_speed=link_speed,
        cpu=_mean(node.cpu[0][part], weight),
        kernel_cpu=_mean(node.cpu[1][part], weight),
        use=_mean(node.use[0][part], weight),
        gpus=node.use[1],
        lost=int(np.isnan(node.panel.values[rows][:, part]).all(axis=0).sum()),
        restarts=int(node.restarted[rows][:, part].any(axis=0).sum()),
        stages=checkpoint_path.stages(kind, node.panel, node.names, node.devices, node.gained, part, node.lookback),
    )


def _queue(node: _Node, kind: str, part: slice) -> float:
    """Seconds that operations waited before they were sent; NaN where nothing tells it."""
    queue, whole, response = (
        _total(node, rf"{_NFS}operations_{what}_time_seconds_total", part, operation=OPERATION[kind])
        for what in ("queue", "request", "response")
    )
    # without its own counter it is what an operation takes in all, less the time from its sending to its reply
    return queue if not np.isnan(queue) else whole - response if whole >= response else np.nan


def _total(node: _Node, pattern: str, part: slice, **labels: str) -> float:
    """A counter's gain over a stretch; NaN where nothing tells it."""
    gained = node.sum(node.rows(pattern, **labels), part)
    return float(np.nansum(gained) * node.step) if not np.isnan(gained).all() else float("nan")


def _quiet(node: _Node, kind: str, cells: NDArray[np.bool_]) -> tuple[float, float]:
    """Requests, and their seconds of response, in these cells."""
    labels = {"operation": OPERATION[kind]}
    count = node.sum(node.rows(rf"{_NFS}operations_requests_total", **labels))[cells]
    taken = node.sum(node.rows(rf"{_NFS}operations_response_time_seconds_total", **labels))[cells]
    known = ~np.isnan(count) & ~np.isnan(taken)
    return float(count[known].sum() * node.step), float(taken[known].sum() * node.step)
