"""Trouble that is none: reboots, hot hours, users' errors, stalls, bursts, exporter restarts, signs that heal."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pipelines.simulate.cluster import Node
from pipelines.simulate.failures import KINDS
from pipelines.simulate.jobs import Schedule
from pipelines.simulate.trouble import HOUR, Effect, LineSign, draw_signs

DAY = 86400.0
# Lines that come by the hundred for a few minutes and mean nothing.
BURSTS = (
    ("kernel", "IPv4: martian source 10.20.{g}.{n} from 10.20.0.1, on dev bond0"),
    ("kernel", "audit: audit_lost={n} audit_rate_limit=0 audit_backlog_limit=64"),
    ("kubelet", 'E1201 prober.go:104] "Probe errored" err="context deadline exceeded" podUID="{n}"'),
    ("systemd-resolved", "Using degraded feature set UDP instead of UDP+EDNS0 for DNS server 10.20.0.{n}."),
    ("sshd", "error: kex_exchange_identification: Connection closed by remote host {n}"),
)


@dataclass(frozen=True)
class Happening:
    """One benign event, for the truth."""

    kind: str
    start: float
    end: float
    nodes: tuple[int, ...]
    detail: str = ""


@dataclass
class Benign:
    """All benign events, and what they do."""

    happenings: list[Happening] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    lines: list[LineSign] = field(default_factory=list)
    gaps: list[tuple[int, str, float, float]] = field(default_factory=list)  # node, exporter, from, to


def times(per_day: float, span: float, seed: int, tag: int) -> list[float]:
    """Random moments at a rate a day."""
    rng = np.random.default_rng([seed, 41, tag])
    return sorted(float(t) for t in rng.uniform(0.02, 0.99, rng.poisson(per_day * span / DAY)) * span)


def invent(nodes: tuple[Node, ...], span: float, plan: Schedule, failures: int, seed: int) -> Benign:
    """Benign events around a schedule."""
    out = Benign()
    rng = np.random.default_rng([seed, 42])
    _hot_hours(out, nodes, span, rng)
    _stalls(out, nodes, span, rng)
    _bursts(out, nodes, span, rng)
    _exporters(out, nodes, span, rng)
    _healed(out, nodes, span, plan, failures, rng)
    out.happenings += [
        Happening("reboot", start, end, (k,), why) for k, start, end, why in plan.reboots if why == "planned"
    ]
    out.happenings += [Happening("user_xid", a.time, a.attempt.ended, a.attempt.nodes, str(a.xid)) for a in plan.aborts]
    out.happenings.sort(key=lambda h: (h.start, h.kind))
    return out


def _effect(driver: str, node: int, span: tuple[float, float], mode: str, amplitude: float, salt: int) -> Effect:
    return Effect(driver, node, -1, span[0], span[1], mode, amplitude, "step", salt)


def _hot_hours(out: Benign, nodes: tuple[Node, ...], span: float, rng: np.random.Generator) -> None:
    """A rack's air warms up for an hour or three."""
    racks = sorted({node.rack for node in nodes})
    for _ in range(rng.poisson(0.15 * len(racks) * span / DAY)):
        start = float(rng.uniform(0.02, 0.97)) * span
        end = start + float(rng.uniform(0.7, 3)) * HOUR
        rack = int(rng.choice(racks))
        rise = float(rng.uniform(3, 9))
        members = tuple(node.index for node in nodes if node.rack == rack)
        for k in members:
            out.effects.append(
                Effect("ambient", k, -1, start, end, "add", rise * float(rng.uniform(0.8, 1.2)), "ramp", 1)
            )
        out.happenings.append(Happening("hot_hour", start, end, members, f"{rise:.1f} C"))


def _stalls(out: Benign, nodes: tuple[Node, ...], span: float, rng: np.random.Generator) -> None:
    """The file server stalls for everybody."""
    everyone = tuple(node.index for node in nodes)
    for _ in range(rng.poisson(0.4 * span / DAY)):
        start = float(rng.uniform(0.02, 0.98)) * span
        end = start + float(rng.uniform(2, 12)) * 60
        times_slower = float(rng.uniform(5, 40))
        for k in everyone:
            share = float(rng.uniform(0.6, 1.4))
            out.effects.append(_effect("nfs_latency", k, (start, end), "mul", times_slower * share, 2))
            out.effects.append(_effect("blocked", k, (start, end), "add", 12 * share, 3))
            out.lines.append(
                LineSign(
                    k, -1, start, end, "kernel", "nfs: server nfs01.storage not responding, still trying", 40 * share
                )
            )
            out.lines.append(LineSign(k, -1, end, end + 30, "kernel", "nfs: server nfs01.storage OK", 150.0))
        out.happenings.append(Happening("nfs_stall", start, end, everyone, f"{times_slower:.0f} times slower"))


def _bursts(out: Benign, nodes: tuple[Node, ...], span: float, rng: np.random.Generator) -> None:
    for _ in range(rng.poisson(0.05 * len(nodes) * span / DAY)):
        start = float(rng.uniform(0.02, 0.98)) * span
        end = start + float(rng.uniform(1, 6)) * 60
        node = int(rng.integers(len(nodes)))
        source, template = BURSTS[rng.integers(len(BURSTS))]
        out.lines.append(LineSign(node, -1, start, end, source, template, float(rng.uniform(3000, 20000))))
        out.happenings.append(Happening("log_burst", start, end, (node,), source))


def _exporters(out: Benign, nodes: tuple[Node, ...], span: float, rng: np.random.Generator) -> None:
    for _ in range(rng.poisson(0.06 * len(nodes) * span / DAY)):
        start = float(rng.uniform(0.02, 0.98)) * span
        end = start + float(rng.uniform(0.7, 5)) * 60
        node = int(rng.integers(len(nodes)))
        exporter = "dcgm" if rng.random() < 0.6 else "node"
        out.gaps.append((node, exporter, start, end))
        source = "systemd"
        template = "dcgm-exporter.service: Scheduled restart job, restart counter is at {n}."
        if exporter == "node":
            template = "node_exporter.service: Scheduled restart job, restart counter is at {n}."
        out.lines.append(LineSign(node, -1, start, start + 60, source, template, 60.0))
        out.happenings.append(Happening("exporter_restart", start, end, (node,), exporter))


def _healed(
    out: Benign, nodes: tuple[Node, ...], span: float, plan: Schedule, failures: int, rng: np.random.Generator
) -> None:
    """Signs that begin as before a failure and go away by themselves."""
    wanted = rng.poisson(0.4 * failures + 0.03 * len(nodes) * span / DAY)
    for _ in range(wanted):
        kind = KINDS[rng.integers(len(KINDS))]
        start = float(rng.uniform(0.02, 0.95)) * span
        end = start + float(np.clip(rng.lognormal(np.log(14), 0.9), 4, 180)) * 60
        node = int(rng.integers(len(nodes)))
        near = any(
            f.node == node and f.time - f.plan.warning - 2 * HOUR < end and start < f.back for f in plan.failures
        )
        if near:
            continue
        gpus = nodes[node].gpus
        gpu = int(rng.integers(len(gpus))) if gpus else -1
        # most stay smaller than what precedes a failure; some do not
        high = 1.0 if rng.random() < 0.2 else 0.4
        strength = float(np.exp(rng.uniform(np.log(0.06), np.log(high))))
        effects, lines = draw_signs(kind, node, gpu, (start, end), strength, rng)
        out.effects += effects
        out.lines += lines
        out.happenings.append(Happening("healed_sign", start, end, (node,), kind))
