"""What one node tells of its saves and loads: its stretches, and which measures there are."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from features.checkpoint_path import Stages

Array = NDArray[np.float64]


class Spell(NamedTuple):
    """One stretch of one node that saves or loads; what no metric tells is NaN.

    Attributes
    ----------
    start, end
        ``[start, end)`` in nanoseconds, whole cells.
    moved
        float64 [cells], bytes of each cell.
    operations, queue_seconds, response_seconds
        Of WRITE in a save, of READ in a load: how many ended, and their time before and after they were sent.
    resent
        Requests of all operations that were sent again.
    in_flight
        Requests of all operations at the busiest server, mean over the bytes moved.
    slots_seen, connections
        Most requests its connections have ever had in flight, and how many connections those are.
    backlog
        Requests that waited for a slot, mean over requests sent.
    link_rate, link_speed
        Bytes a second of the fullest port, in the direction of the bytes, and its speed where exported.
    cpu, kernel_cpu
        Share of the node's CPU time in use, and in the kernel.
    use, gpus
        Utilisation of its GPUs in percent, and how many tell it.
    lost, restarts
        Cells without a scrape, and cells in which a byte counter began anew.
    stages
        What GPU memory, host memory and local disks did.
    """

    node: str
    kind: str
    start: int
    end: int
    moved: Array
    operations: float
    queue_seconds: float
    response_seconds: float
    resent: float
    in_flight: float
    slots_seen: float
    connections: int
    backlog: float
    link_rate: float
    link_speed: float
    cpu: float
    kernel_cpu: float
    use: float
    gpus: int
    lost: int
    restarts: int
    stages: Stages = Stages()


@dataclass(frozen=True)
class Sight:
    """What one node's panel tells.

    Attributes
    ----------
    first
        Beginning of what was looked at, in ns.
    source
        By kind, where bytes are told: mountstats, operations, calls, network, or "" nowhere.
    told
        Which measures there are: operations, queue, slots, network, cpu, use, memory, host, disk.
    quiet
        By kind, requests and their seconds of response outside all stretches.
    seen
        Cells with a byte counter.
    since_mount
        By kind, what its operation's counters stand at: requests, seconds before and after sending; NaN unknown. The
        kernel counts from the mount on, so that a single scrape tells a mean.
    """

    node: str
    first: int
    spells: list[Spell] = field(default_factory=list)
    source: dict[str, str] = field(default_factory=dict)
    told: frozenset[str] = frozenset()
    quiet: dict[str, tuple[float, float]] = field(default_factory=dict)
    seen: int = 0
    since_mount: dict[str, tuple[float, float, float]] = field(default_factory=dict)
