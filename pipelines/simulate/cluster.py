"""Who stands in the made-up cluster: nodes, their GPUs, their quirks."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import numpy as np

from pipelines.simulate.habits import Habits

MODEL = "NVIDIA B200"
DRIVER = "570.124.06"
RACK_SIZE = 4  # nodes that share a rack's air
BUSES = (0x18, 0x2A, 0x3A, 0x5D, 0x9A, 0xAB, 0xBA, 0xDB, 0x19, 0x2B, 0x3B, 0x5E, 0x9B, 0xAC, 0xBB, 0xDC)


@dataclass(frozen=True)
class Gpu:
    """A GPU and its two names for one address."""

    index: int
    uuid: str
    bus: int

    @property
    def pci_kernel(self) -> str:
        """As the kernel writes it, without the function."""
        return f"0000:{self.bus:02x}:00"

    @property
    def pci_dcgm(self) -> str:
        """As DCGM exporter writes it."""
        return f"00000000:{self.bus:02X}:00.0"


@dataclass(frozen=True)
class Node:
    """A machine and what is its own.

    Attributes
    ----------
    phase
        Seconds after the grid at which it is scraped.
    weight
        How readily failures choose it; few nodes take most of them.
    ambient
        Degrees above the rack's air.
    chatter
        Events a second that a healthy part makes all the time: (driver, GPU or -1) to rate.
    chatty_line
        A harmless kernel line it repeats, "" for none.
    """

    index: int
    name: str
    rack: int
    gpus: tuple[Gpu, ...]
    phase: float
    weight: float
    ambient: float
    chatter: dict[tuple[str, int], float]
    chatty_line: str


CHATTER = (
    ("pcie_replay", True, 2.0, 30.0),  # events an hour, from and to
    ("sbe", True, 1.0, 12.0),
    ("crc_flit", True, 3.0, 40.0),
    ("ib_err", False, 1.0, 15.0),
    ("edac_ce", False, 1.0, 10.0),
    ("nfs_retrans", False, 2.0, 12.0),
)
CHATTY_LINES = (
    "pcieport 0000:15:01.0: AER: Corrected error received: 0000:18:00.0",
    "mce: [Hardware Error]: Machine check events logged",
    "ACPI Error: No handler for Region [POWR] (IPMI)",
    "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x{n})",
)


def build(nodes: int, gpus: int, step: float, habits: Habits, seed: int) -> tuple[Node, ...]:
    """The nodes of a cluster; a third of them chatter though healthy."""
    rng = np.random.default_rng([seed, 10])
    weak = rng.random(nodes) < 0.15
    if habits.weak_nodes is not None:
        weak = np.isin(np.arange(nodes), rng.permutation(nodes)[: habits.weak_nodes])
    return tuple(
        _node(k, gpus, step, habits.weak_weight if weak[k] else 1.0, np.random.default_rng([seed, 11, k]))
        for k in range(nodes)
    )


def _node(k: int, gpus: int, step: float, weight: float, rng: np.random.Generator) -> Node:
    cards = tuple(
        Gpu(g, f"GPU-{UUID(bytes=rng.bytes(16), version=4)}", BUSES[g] if g < len(BUSES) else 0x20 + g)
        for g in range(gpus)
    )
    chatter: dict[tuple[str, int], float] = {}
    line = ""
    if rng.random() < 0.35:
        driver, on_gpu, low, high = CHATTER[rng.integers(len(CHATTER))]
        where = int(rng.integers(gpus)) if on_gpu and gpus else -1
        if where >= 0 or not on_gpu:
            chatter[driver, where] = float(rng.uniform(low, high)) / 3600
    if rng.random() < 0.2:
        line = CHATTY_LINES[rng.integers(len(CHATTY_LINES))]
    return Node(
        index=k,
        name=f"gpunode{k + 1:02d}",
        rack=k // RACK_SIZE,
        gpus=cards,
        phase=round(float(rng.uniform(0.05, 0.95)) * step, 3),
        weight=weight,
        ambient=float(rng.normal(0, 1.5)),
        chatter=chatter,
        chatty_line=line,
    )
