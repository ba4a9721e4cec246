"""One node's part of everything that happens: when it is down, whose GPUs are gone, what its XID gauge shows."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate import logs
from pipelines.simulate.benign import Benign
from pipelines.simulate.cluster import Node
from pipelines.simulate.drivers import Array
from pipelines.simulate.failures import Failure
from pipelines.simulate.jobs import Attempt, Schedule
from pipelines.simulate.trouble import Effect

NOTICE = 2.0  # seconds from a GPU's loss to the end of its series


@dataclass(frozen=True)
class Story:
    """What concerns one node; all times in seconds since the start, lists in time order."""

    node: Node
    attempts: list[Attempt]
    failures: list[Failure]
    down: list[tuple[float, float]]
    gaps: list[tuple[str, float, float]]
    effects: list[Effect]
    codes: list[tuple[float, int, int]]  # time, GPU, XID: what the gauge gets to see
    lines: list[logs.Line]
    boot_ids: list[str]


def tell(node: Node, schedule: Schedule, benign: Benign, seed: int) -> Story:
    """The story of a node; its rare lines are drawn here once, its everyday ones day by day."""
    rng = np.random.default_rng([seed, 61, node.index])
    failures = [failure for failure in schedule.failures if failure.node == node.index]
    reboots = sorted((start, end, why) for k, start, end, why in schedule.reboots if k == node.index)
    aborts = [abort for abort in schedule.aborts if node.index in abort.attempt.nodes]
    effects = [effect for effect in benign.effects if effect.node == node.index]
    signs = [sign for sign in benign.lines if sign.node == node.index]
    codes = [(a.time, card.index, a.xid) for a in aborts for card in logs.abort_cards(a, node)]
    lines: list[logs.Line] = []
    for failure in failures:
        effects += failure.effects
        # the broken GPU stands still until the node reboots
        effects.append(Effect("util", node.index, failure.gpu, failure.time, failure.reboot[0], "mul", -1.0, "step", 1))
        signs += failure.lines
        lines += logs.failure_lines(failure, node)
        plan = failure.plan
        if plan.in_gauge and failure.gpu >= 0:
            # a scrape sees the last code of a cascade; when the log has lost the lines the first one stays
            codes.append((plan.time, failure.gpu, plan.xids[-1] if plan.in_log else plan.xids[0]))
    for abort in aborts:
        lines += logs.abort_lines(abort, node)
    for start, end, why in reboots:
        lines += logs.reboot_lines(start, end, why)
    lines += logs.signs(node, signs, 0.0, float("inf"), rng)
    return Story(
        node=node,
        attempts=schedule.on_node(node.index),
        failures=failures,
        down=[(start, end) for start, end, _ in reboots],
        gaps=sorted((name, start, end) for k, name, start, end in benign.gaps if k == node.index),
        effects=effects,
        codes=sorted(codes),
        lines=sorted(lines),
        boot_ids=[UUID(bytes=rng.bytes(16), version=4).hex for _ in range(len(reboots) + 1)],
    )


def gone(story: Story, times: Array, step: float) -> NDArray[np.bool_]:
    """Whether each GPU is off the bus [G, T]; one whose code the gauge shows lasts for one more scrape."""
    out = np.zeros((len(story.node.gpus), len(times)), dtype=bool)
    for failure in story.failures:
        if failure.plan.vanishes and failure.gpu >= 0:
            last = failure.time + NOTICE + (step if failure.plan.in_gauge else 0.0)
            out[failure.gpu] |= (times >= last) & (times < failure.back)
    return out


def places(story: Story, lost: NDArray[np.bool_], times: Array) -> NDArray[np.int64]:
    """The number of each GPU [G, T]: the driver counts anew when the node boots without one."""
    count = len(story.node.gpus)
    plain = np.repeat(np.arange(count)[:, None], len(times), axis=1)
    fresh = np.zeros(len(times), dtype=bool)
    for failure in story.failures:
        fresh |= (times >= failure.reboot[1]) & (times < failure.back)
    return np.where(fresh, np.maximum(np.cumsum(~lost, axis=0) - 1, 0), plain)


def latched(story: Story, times: Array) -> Array:
    """``DCGM_FI_DEV_XID_ERRORS`` [G, T]: the last code since the exporter or the node came up."""
    out = np.zeros((len(story.node.gpus), len(times)))
    fresh = [end for _, end in story.down] + [end for name, _, end in story.gaps if name == "dcgm"]
    for time, card, xid in story.codes:
        until = min((end for end in fresh if end > time), default=float("inf"))
        out[card, (times >= time + 1) & (times < until)] = xid
    return out


def boots(story: Story, times: Array, step: float) -> NDArray[np.int64]:
    """Cells at which the node is up again, each in exactly one day."""
    ups = [end for _, end in story.down if times[0] - step < end <= times[-1]]
    return np.searchsorted(times, ups).astype(np.int64)


def pods(story: Story, which: NDArray[np.int64]) -> list[str]:
    """The pod that holds the GPUs at each cell [T], "" for none."""
    names = [f"{a.job}-{a.attempt}-worker-{a.nodes.index(story.node.index)}" for a in story.attempts]
    return [names[k] if k >= 0 else "" for k in which]
