"""Which failures happen, with which XIDs, and how long and how plainly each one warns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from pipelines.simulate.trouble import HOUR, SIGNS, Effect, LineSign

KINDS = tuple(SIGNS)

# Ways in which a kind ends: the codes in the order of their lines. () is a GPU that goes without a word.
ENDINGS: dict[str, tuple[tuple[int, ...], ...]] = {
    "thermal": ((79,), (62,), (79, 154)),
    "ecc": ((48, 45, 154), (64,), (95, 154), (140, 154), (48,)),
    "nvlink": ((149, 45, 154), (74, 45), (149, 154)),
    "pcie": ((79,), (79, 154)),
    "power": ((62,), (79,), (109,)),
    "fabric": ((145, 45, 154), (150, 154), (136,)),
    "storage": ((119,), (109, 45)),
    "host": ((79,), (120, 154)),
    "driver": ((119, 154), (120,), (109,), (119,)),
    "vanish": ((),),
}
DETAIL: dict[int, str] = {
    45: "pid={pid}, name=python, Ch 00000008",
    48: "pid='<unknown>', name=<unknown>, An uncorrectable double bit error (DBE) has been detected on GPU in the "
    "framebuffer at partition {n}, subpartition 1.",
    62: "323f0f30 0000c3d8 00000000 206dae68 206da022 206da190 206d85f6 206d8d86",
    64: "pid={pid}, name=python, Row Remapper: Error: Failed to remap row",
    74: "pid='<unknown>', name=<unknown>, NVLink: fatal error detected on link {n}(0x4, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    79: "pid={pid}, name=python, GPU has fallen off the bus.",
    95: "pid={pid}, name=python, Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No",
    109: "pid={pid}, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT, Info 0x58005",
    119: "pid={pid}, name=python, Timeout after 6s of waiting for RPC response from GPU{g} GSP! Expected function 76",
    120: "GSP task exception: instruction access fault @ pc:0x0000000000{n}, partition:4#0, task:0",
    136: "pid={pid}, name=python, NVLink link training failed on link {n}",
    140: "pid='<unknown>', name=<unknown>, An uncorrectable ECC error detected (possible firmware handling failure)",
    145: "RLW_REMAP Fatal XC0 i0 Link {n} (0x004505c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
    149: "NETIR_LINK_EVT  Fatal   XC0 i0 Link {n} (0x021425c6 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
    150: "MSE_WATCHDOG Fatal XC0 i0 Link -1 (0x00000003 0x00000000 0x00000000 0x00000000 0x00000000 0x00000000)",
    154: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
}


@dataclass(frozen=True)
class Plan:
    """A failure before it has a node. Seconds since the start; `warning` 0 means none."""

    kind: str
    time: float
    warning: float
    strength: float
    xids: tuple[int, ...]
    in_log: bool
    in_gauge: bool
    vanishes: bool
    salt: int


@dataclass(frozen=True)
class Failure:
    """A failure with its place, its signs and its aftermath, in seconds since the start."""

    plan: Plan
    node: int
    gpu: int
    reboot: tuple[float, float]  # node down
    back: float  # repaired and in service again
    job: str = ""
    effects: tuple[Effect, ...] = field(default=())
    lines: tuple[LineSign, ...] = field(default=())

    @property
    def time(self) -> float:
        """When its first line is written."""
        return self.plan.time


def plan(count: int, span: float, seed: int) -> tuple[Plan, ...]:
    """`count` failures over a span of seconds, in time order.

    Kinds are dealt in turn from a shuffled deck; between a quarter and four tenths of the failures come without any
    warning, which is what the field reports for GPUs that fall off the bus.
    """
    rng = np.random.default_rng([seed, 21])
    deck: list[str] = []
    while len(deck) < count:
        deck += list(rng.permutation(KINDS))
    silent = np.zeros(count, dtype=bool)
    quiet = int(np.ceil(count * rng.uniform(0.25, 0.4)))
    silent[rng.permutation(count)[:quiet]] = True
    # the first tenth is left to learn what is normal; slots keep failures apart, so that each can be told alone
    edges = np.linspace(0.08, 0.98, count + 1) * span
    times = edges[:-1] + rng.uniform(0.05, 0.95, count) * np.diff(edges)
    return tuple(
        _plan_one(deck[k], float(times[k]), bool(silent[k]), np.random.default_rng([seed, 22, k])) for k in range(count)
    )


def _plan_one(kind: str, time: float, silent: bool, rng: np.random.Generator) -> Plan:
    xids = ENDINGS[kind][rng.integers(len(ENDINGS[kind]))]
    in_log = bool(xids) and (rng.random() > 0.1 or xids[0] == 62)
    # a GPU off the bus seldom gets to report; code 62 never shows in the gauge
    in_gauge = bool(xids) and xids[0] != 62 and rng.random() < (0.5 if 79 in xids and in_log else 0.9)
    in_gauge = in_gauge or (bool(xids) and not in_log)
    warning = float(np.clip(rng.lognormal(np.log(45), 0.95), 5, 360)) * 60
    return Plan(
        kind=kind,
        time=round(time, 3),
        warning=0.0 if silent else min(round(warning, 3), time * 0.8),
        strength=round(float(np.exp(rng.uniform(np.log(0.4), np.log(2.0)))), 3),
        xids=xids,
        in_log=in_log,
        in_gauge=in_gauge,
        vanishes=79 in xids or kind == "vanish",
        salt=int(rng.integers(1, 1 << 30)),
    )


def aftermath(time: float, rng: np.random.Generator) -> tuple[tuple[float, float], float]:
    """When the node reboots (from, to) and when it is back in service, for a failure at `time`."""
    down = time + float(rng.uniform(4, 25)) * 60
    up = down + float(rng.uniform(4, 10)) * 60
    return (down, up), up + float(np.clip(rng.lognormal(np.log(3.5), 0.7), 0.5, 14)) * HOUR
