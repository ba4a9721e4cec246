"""What drives a node's metrics over a stretch of time: its work, its heat, its errors, and the trouble on top.

A driver is in natural units: degrees, watts, MHz, bytes a second, events a second. Arrays are [T] for the node and
[G, T] for its GPUs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from pipelines.simulate.catalogue import CPU_MODES, OPERATIONS
from pipelines.simulate.cluster import Node
from pipelines.simulate.habits import Habits
from pipelines.simulate.jobs import DOWN, EVAL, HANG, IDLE, LOAD, SAVE, TRAIN, Attempt
from pipelines.simulate.trouble import HOUR, Effect

Array = NDArray[np.float64]
Drivers = dict[str, Array]
IDLE_WATTS, FULL_WATTS = 140.0, 860.0
SLOTS = 128.0  # RPC slots for which the habits' rates hold
#                     idle  load  train save  eval  hang  down
UTIL = np.array([0.0, 0.06, 0.975, 0.10, 0.80, 1.0, 0.0])
TENSOR = np.array([0.0, 0.01, 0.46, 0.02, 0.30, 0.0, 0.0])
POWER = np.array([0.0, 0.08, 1.0, 0.15, 0.70, 0.32, 0.0])
CPU = np.array([0.01, 0.35, 0.18, 0.24, 0.16, 0.20, 0.0])
NVLINK = np.array([0.0, 0.01, 1.0, 0.05, 0.6, 0.0, 0.0])
FABRIC = np.array([0.0, 0.02, 1.0, 0.03, 0.5, 0.0, 0.0])
PROCS = np.array([0.6, 12.0, 26.0, 14.0, 22.0, 24.0, 0.0])


@dataclass(frozen=True)
class Work:
    """What a node does: phase [T], the job's intensity [T], the size of its job [T], index of the attempt or -1 [T],
    and which share of the job's state its GPUs hold [T].
    """

    phase: NDArray[np.int64]
    intensity: Array
    size: Array
    attempt: NDArray[np.int64]
    loaded: Array

    def after(self, cells: int) -> Work:
        """The same work without its first cells."""
        return Work(
            self.phase[cells:], self.intensity[cells:], self.size[cells:], self.attempt[cells:], self.loaded[cells:]
        )


def work(node: int, attempts: list[Attempt], down: list[tuple[float, float]], times: Array) -> Work:
    """The phase of a node at each second of `times` [T]."""
    phase = np.full(len(times), IDLE)
    intensity = np.ones(len(times))
    size = np.ones(len(times))
    which = np.full(len(times), -1)
    loaded = np.zeros(len(times))
    for k, attempt in enumerate(attempts):
        low, high = np.searchsorted(times, [attempt.started, min(attempt.ended, times[-1] + 1)])
        if low >= high:
            continue
        part = slice(low, high)
        phase[part] = _breath(attempt, node, times[part])
        intensity[part] = attempt.profile.intensity
        size[part] = len(attempt.nodes)
        which[part] = k
        loaded[part] = np.clip((times[part] - attempt.started) / (attempt.profile.load * _pace(attempt, node)), 0, 1)
    for start, end in down:
        phase[(times >= start) & (times < end)] = DOWN
    return Work(phase, intensity, size, which, loaded)


def _pace(attempt: Attempt, node: int) -> float:
    """Each node is a little quicker or slower, in each try anew."""
    return 1.0 + 0.12 * (((node * 7919 + attempt.attempt * 104729) % 97) / 97 - 0.5)


def _breath(attempt: Attempt, node: int, times: Array) -> NDArray[np.int64]:
    """Load, then training with checkpoints and now and then an evaluation."""
    profile = attempt.profile
    pace = _pace(attempt, node)
    since = times - attempt.started - profile.load * pace
    cycle = np.floor(since / profile.period)
    inside = since - cycle * profile.period
    phase = np.full(len(times), TRAIN)
    later = cycle >= 1
    phase[later & (inside < profile.save * pace)] = SAVE
    evaluates = later & (cycle % profile.eval_every == 0)
    begin = profile.save * 1.15
    phase[evaluates & (inside >= begin) & (inside < begin + profile.eval_length)] = EVAL
    phase[since < 0] = LOAD
    phase[times >= attempt.hang_from] = HANG
    return phase


class Moves:
    """The effects that touch one node in one stretch of time, by driver."""

    def __init__(self, effects: list[Effect], times: Array) -> None:
        self.times = times
        self.by_driver: dict[str, list[Effect]] = {}
        for effect in effects:
            if effect.start <= times[-1] and effect.end > times[0]:
                self.by_driver.setdefault(effect.driver, []).append(effect)

    def apply(self, driver: str, base: Array) -> Array:
        """`base` [T] or [G, T], moved in place."""
        for effect in self.by_driver.get(driver, ()):
            envelope = effect.envelope(self.times)
            rows = base if base.ndim == 1 or effect.gpu < 0 else base[effect.gpu]
            if effect.mode == "add":
                rows += effect.amplitude * envelope
            else:
                rows *= np.maximum(1.0 + effect.amplitude * envelope, 0.0)
        return base


def drive(
    node: Node, doing: Work, times: Array, moves: Moves, step: float, habits: Habits, seed: int, day: int
) -> tuple[Drivers, Drivers]:
    """The drivers of a node and of its GPUs over seconds [T]."""
    rng = np.random.default_rng([seed, 51, node.index, day])
    host = _host(node, doing, times, moves, habits, rng)
    cards = _cards(node, doing, host, moves, step, rng, np.random.default_rng([seed, 52, node.index]))
    return host, cards


def smooth(rows: Array, step: float, constant: float) -> Array:
    """First-order lag of `constant` seconds along the last axis, settled at the first value."""
    keep = float(np.exp(-step / constant))
    first = rows[..., :1]
    out, _ = lfilter([1 - keep], [1, -keep], rows, axis=-1, zi=keep * first)
    return np.asarray(out)


def _cards(
    node: Node,
    doing: Work,
    host: Drivers,
    moves: Moves,
    step: float,
    rng: np.random.Generator,
    own: np.random.Generator,
) -> Drivers:
    """Drivers of the GPUs [G, T]; `own` gives what stays the same from day to day."""
    count, length = len(node.gpus), len(doing.phase)
    phase = doing.phase
    offset = own.normal(0, 1, (8, count, 1))  # each card's own bias

    def wobble(relative: float) -> Array:
        return 1 + relative * rng.standard_normal((count, length))

    busy = np.where((phase == TRAIN) | (phase == EVAL), 1.0, 0.0)
    out = _use(doing, busy, count, moves, rng)
    out["power_violation"] = np.maximum(busy * 1500 * np.exp(0.6 * offset[0]) * wobble(0.4), 0)
    out["clock"] = np.where(phase == IDLE, 345.0, 1850.0 + 12 * offset[1] - 25 * (doing.intensity - 0.9)) * wobble(
        0.003
    )
    watts = (
        IDLE_WATTS + 6 * offset[2] + (FULL_WATTS - IDLE_WATTS) * POWER[phase] * doing.intensity * (1 + 0.02 * offset[3])
    )
    for name in ("power_violation", "clock"):
        moves.apply(name, out[name])
    out["power"] = moves.apply("power", watts * wobble(0.015))
    heat = smooth(out["power"], step, 90.0)
    out["temp"] = host["ambient"] + 4 + 1.5 * offset[4] + 0.044 * heat
    out["hbm_temp"] = out["temp"] + 7 + offset[5] + 6 * out["dram"]
    for name in ("temp", "hbm_temp"):
        moves.apply(name, out[name])
    hot = np.clip(out["temp"] - 76, 0, None)
    out["thermal_violation"] = moves.apply("thermal_violation", hot * 4000.0)
    full = 158000 + 900 * offset[6] + 2000 * np.sin(7 * doing.intensity)
    out["fb"] = np.where(doing.attempt >= 0, 640 + (full - 640) * doing.loaded, 640.0)
    capped = np.where(out["power_violation"] > 8000, 4.0, 0.0) + np.where(out["thermal_violation"] > 5000, 32.0, 0.0)
    out["throttle"] = np.where(phase == IDLE, 1.0, capped)
    _links(out, node, doing, busy, moves, rng)
    return out


def _use(doing: Work, busy: Array, count: int, moves: Moves, rng: np.random.Generator) -> Drivers:
    """How busy the GPUs are [G, T]."""
    phase, length = doing.phase, len(doing.phase)

    def wobble(relative: float) -> Array:
        return 1 + relative * rng.standard_normal((count, length))

    out: Drivers = {}
    util = UTIL[phase] * np.where(phase == TRAIN, 1.0, doing.intensity) * wobble(0.01)
    # a step of the job now and then falls between two kernels
    util = np.where((rng.random((count, length)) < 0.015) & (busy > 0), util * 0.6, util)
    out["util"] = np.clip(moves.apply("util", util), 0, 1)
    out["tensor"] = np.clip(TENSOR[phase] * doing.intensity * wobble(0.03) * (out["util"] > 0), 0, 1)
    out["dram"] = np.clip(out["tensor"] * 1.1 + 0.02 * out["util"], 0, 1)
    return out


def _links(out: Drivers, node: Node, doing: Work, busy: Array, moves: Moves, rng: np.random.Generator) -> None:
    """What moves over NVLink and PCIe, and the errors of links and memory [G, T]."""
    count, length = out["util"].shape
    phase = doing.phase

    def wobble(relative: float) -> Array:
        return 1 + relative * rng.standard_normal((count, length))

    out["nvlink"] = moves.apply("nvlink", 2.4e11 * NVLINK[phase] * doing.intensity * wobble(0.05) + 1e3)
    load = np.where(phase == LOAD, 6e9, np.where(phase == SAVE, 1e9, 3e8 * busy)) + 1e4
    out["pcie_rx"] = moves.apply("pcie_rx", load * wobble(0.1))
    out["pcie_tx"] = (np.where(phase == SAVE, 8e9, 2e8 * busy) + 1e4) * wobble(0.1)
    quiet = {"pcie_replay": 0.15, "sbe": 0.03, "dbe": 0.0, "remap_cor": 0.002, "remap_unc": 0.0}
    quiet |= {"crc_flit": 0.2, "nvl_replay": 0.04, "nvl_recovery": 0.003}
    for name, per_hour in quiet.items():
        rate = np.full((count, length), per_hour / HOUR)
        for (driver, card), chatter in node.chatter.items():
            if driver == name:
                rate[card] += chatter * (0.5 + busy)
        out[name] = moves.apply(name, rate)


def _host(node: Node, doing: Work, times: Array, moves: Moves, habits: Habits, rng: np.random.Generator) -> Drivers:
    """Drivers of the node [T]."""
    length, phase = len(times), doing.phase

    def wobble(relative: float) -> Array:
        return 1 + relative * rng.standard_normal(length)

    hour = times / HOUR
    out: Drivers = {}
    air = 24 + 0.7 * np.sin(node.rack * 2.1) + 1.8 * np.sin(2 * np.pi * (hour - 9) / 24) + node.ambient
    out["ambient"] = moves.apply("ambient", air + 0.15 * rng.standard_normal(length))
    cpu = np.clip(CPU[phase] * wobble(0.12) + 0.004, 0.002, 1)
    out["cpu"] = cpu
    out["intr"] = moves.apply("intr", (2.4e3 + 5.2e4 * cpu) * wobble(0.04))
    out["ctxt"] = (4e3 + 2.2e5 * cpu) * wobble(0.06)
    out["procs"] = np.maximum(np.round(moves.apply("procs", PROCS[phase] * wobble(0.25))), 0)
    blocked = np.where(phase == SAVE, 5.0, np.where(phase == LOAD, 3.0, 0.15))
    out["blocked"] = rng.poisson(moves.apply("blocked", blocked)).astype(float)
    for name, minutes in (("load1", 1), ("load5", 5), ("load15", 15)):
        out[name] = (
            smooth(out["procs"] + out["blocked"], float(times[1] - times[0]), 60.0 * minutes) if length > 1 else cpu
        )
    for mode in CPU_MODES:
        share = {"idle": 1 - cpu, "user": cpu * 0.72, "system": cpu * 0.22, "iowait": 0.002 * out["blocked"]}
        out[f"cpu_mode:{mode}"] = np.clip(share.get(mode, cpu * 0.012), 0, 1)
    _storage(out, doing, moves, habits, rng)
    _fabric(out, node, doing, moves, rng)
    _board(out, node, doing, times, moves, rng)
    return out


def _board(out: Drivers, node: Node, doing: Work, times: Array, moves: Moves, rng: np.random.Generator) -> None:
    """Memory, heat, fans, disks and how long scrapes take."""
    length, phase, cpu, hour = len(times), doing.phase, out["cpu"], times / HOUR

    def wobble(relative: float) -> Array:
        return 1 + relative * rng.standard_normal(length)

    out["mem_used"] = 9e10 + np.where(doing.attempt >= 0, 4.5e11, 0) * wobble(0.004)
    out["cache"] = np.clip(2e11 + 6e10 * np.sin(hour / 5 + node.index), 0, None)
    out["mem_avail"] = 2.1e12 - out["mem_used"]
    out["host_temp"] = out["ambient"] + 14 + 45 * smooth(cpu, 30.0, 120.0)
    fan = 5200 + 140 * (out["ambient"] - 24) + np.where(phase == IDLE, 0, 2600)
    out["fan"] = moves.apply("fan", fan * wobble(0.004))
    out["edac_ce"] = np.full(length, 0.03 / HOUR) + node.chatter.get(("edac_ce", -1), 0.0)
    moves.apply("edac_ce", out["edac_ce"])
    out["disk"] = np.clip(
        (0.01 + 0.05 * (phase == LOAD) + 0.02 * cpu) * np.exp(0.5 * rng.standard_normal(length)), 0, 1
    )
    out["conns"] = (60 + np.where(doing.attempt >= 0, 30 + 12 * doing.size, 0)) * wobble(0.02)
    out["fs_avail"] = 1.2e12 - 2e6 * (times % (9 * 86400.0))
    out["rare"] = np.full(length, 0.05 / HOUR)
    out["scrape_node"] = 0.045 * np.exp(0.25 * rng.standard_normal(length)) * (1 + 2 * cpu)
    out["scrape_dcgm"] = moves.apply("scrape_dcgm", 0.09 * np.exp(0.3 * rng.standard_normal(length)) * (1 + cpu))


def _storage(out: Drivers, doing: Work, moves: Moves, habits: Habits, rng: np.random.Generator) -> None:
    """The NFS client: a save is bound by its RPC slots, so that most of an operation's time is spent in its queue."""
    phase, length = doing.phase, len(doing.phase)
    slow = moves.apply("nfs_latency", np.exp(0.25 * rng.standard_normal(length)))
    # without the limit, a save and a load run at what the link and the server give
    slots = habits.rpc_slots
    pace = slots / SLOTS if slots else 5.0
    held = float(slots or 65536)
    drag = pace / (1 + 0.05 * (slow - 1).clip(0))
    saving, loading = (
        rate / (1 + doing.size / half)
        for rate, half in ((habits.save_rate, habits.save_half), (habits.load_rate, habits.load_half))
    )
    write = np.where(phase == SAVE, saving, 3e4) * np.exp(0.12 * rng.standard_normal(length))
    read = np.where(phase == LOAD, loading, np.where(phase == TRAIN, 6e6, 2e3))
    read = read * np.exp(0.15 * rng.standard_normal(length))
    out["nfs_w"], out["nfs_r"] = write * drag, read * drag
    _operations(out, doing, slow, pace, habits, rng)
    flight = np.sum([out[f"op_response:{name}"] for name in OPERATIONS], axis=0)
    out["nfs_pending"] = out["nfs_ops"] * np.minimum(flight, held)
    out["nfs_backlog"] = np.sum([out[f"op_queue:{name}"] for name in OPERATIONS], axis=0) * 100
    out["nfs_slots"] = np.full(length, held)
    out["pgout"] = moves.apply("pgout", out["nfs_w"] / 1024 * 0.4 + 400 * np.exp(0.5 * rng.standard_normal(length)))
    out["pgin"] = out["nfs_r"] / 1024 * 0.3 + 150 * np.exp(0.7 * rng.standard_normal(length))
    out["dirty"] = out["nfs_w"] * 3 + 4e6


def _operations(out: Drivers, doing: Work, slow: Array, pace: float, habits: Habits, rng: np.random.Generator) -> None:
    """Requests of each NFS operation, and the seconds they wait in the queue and for an answer."""
    phase, length, slots = doing.phase, len(doing.phase), habits.rpc_slots
    held = float(slots or 65536)
    meta = np.array([4.0, 120.0, 22.0, 60.0, 40.0, 8.0, 0.0])[phase] * np.exp(0.2 * rng.standard_normal(length))
    requests = {
        "READ": out["nfs_r"] / 1048576 + 0.01,
        "WRITE": out["nfs_w"] / 1048576 + 0.01,
        "GETATTR": meta,
        "COMMIT": out["nfs_w"] / 6e8 + 0.002,
        "LOOKUP": meta * 0.3,
        "ACCESS": meta * 0.5,
    }
    quick = {"READ": 0.0035, "WRITE": 0.004, "GETATTR": 0.0005, "COMMIT": 0.02, "LOOKUP": 0.0006, "ACCESS": 0.0005}
    for name in OPERATIONS:
        rate = requests[name]
        response = quick[name] * slow * np.exp(0.1 * rng.standard_normal(length))
        queue = 0.00004 * slow
        if name in {"READ", "WRITE"}:
            full = (rate > 300 * pace) & (slots > 0) & (doing.size >= habits.slots_fill_at)
            response = np.where(full, np.maximum(response, held / np.maximum(rate, 1)), response)
            queue = np.where(full, response * habits.queue_ratio * np.exp(0.1 * rng.standard_normal(length)), queue)
        out[f"op_requests:{name}"] = rate
        out[f"op_response:{name}"] = rate * response
        out[f"op_queue:{name}"] = rate * queue
        out[f"op_request:{name}"] = rate * (response + queue) * 1.002
        out[f"op_sent:{name}"] = rate * 200 + (out["nfs_w"] if name == "WRITE" else 0)
        out[f"op_recv:{name}"] = rate * 150 + (out["nfs_r"] if name == "READ" else 0)
    out["nfs_meta"], out["nfs_ops"] = meta, np.sum([requests[name] for name in OPERATIONS], axis=0)


def _fabric(out: Drivers, node: Node, doing: Work, moves: Moves, rng: np.random.Generator) -> None:
    """InfiniBand between the nodes of a job, Ethernet for the rest."""
    phase, length = doing.phase, len(doing.phase)
    many = np.where(doing.size > 1, 1.0, 0.0)
    rate = 2.6e9 * FABRIC[phase] * doing.intensity * many
    out["ib_tx"] = rate * (1 + 0.03 * rng.standard_normal(length)) + 2e3
    out["ib_rx"] = rate * (1 + 0.03 * rng.standard_normal(length)) + 2e3
    out["ib_wait"] = moves.apply("ib_wait", (2e3 + rate * 2e-5) * np.exp(0.35 * rng.standard_normal(length)))
    quiet = {"ib_err": 0.05, "ib_recovery": 0.004, "nfs_retrans": 0.1}
    for name, per_hour in quiet.items():
        rates = np.full(length, per_hour / HOUR) + node.chatter.get((name, -1), 0.0)
        out[name] = moves.apply(name, rates)
    out["nfs_retrans"] += 0.01 * (phase == SAVE)
    ether = 4e5 + out["nfs_w"] + 3e5 * (doing.attempt >= 0)
    out["net_tx"] = ether * (1 + 0.04 * rng.standard_normal(length))
    out["net_rx"] = (4e5 + out["nfs_r"] + 3e5 * (doing.attempt >= 0)) * (1 + 0.04 * rng.standard_normal(length))
    out["tcp_retrans"] = moves.apply(
        "tcp_retrans", (0.02 + out["net_tx"] * 4e-10) * np.exp(0.4 * rng.standard_normal(length))
    )
    out["net_drop"] = 0.002 + out["net_rx"] * 1e-11
