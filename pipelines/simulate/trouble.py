"""Signs of trouble: how a metric or the log moves over a stretch of time, whether or not a failure follows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SHAPES = ("ramp", "step", "bursts", "intermittent")


@dataclass(frozen=True)
class Effect:
    """A driver of one node (or of one GPU on it) moved over ``[start, end)`` seconds.

    ``add`` adds amplitude x envelope; ``mul`` multiplies by (1 + amplitude x envelope).
    """

    driver: str
    node: int
    gpu: int  # -1: the node's own driver, or all its GPUs
    start: float
    end: float
    mode: str
    amplitude: float
    shape: str
    salt: int

    def envelope(self, times: NDArray[np.float64]) -> NDArray[np.float64]:
        """Between 0 and 1 at seconds [T]."""
        inside = (times >= self.start) & (times < self.end)
        if self.shape == "ramp":
            progress = np.clip((times - self.start) / max(self.end - self.start, 1.0), 0, 1)
            return np.where(inside, progress**1.3, 0.0)
        if self.shape == "bursts":
            period = 180.0 + self.salt % 7 * 70.0
            inside &= ((times - self.start) % period) < 0.35 * period
        elif self.shape == "intermittent":
            # five-minute slots, on or off by a hash, the first always on
            slot = ((times - self.start) // 300).astype(np.int64)
            inside &= (slot == 0) | (((slot * 2654435761 + self.salt) >> 7) % 100 < 55)
        return inside.astype(np.float64)


@dataclass(frozen=True)
class LineSign:
    """A line that comes again and again over ``[start, end)`` seconds, `per_hour` times on average."""

    node: int
    gpu: int
    start: float
    end: float
    source: str  # "kernel" or a syslog identifier
    template: str
    per_hour: float


@dataclass(frozen=True)
class Sign:
    """A metric's part in a kind of failure: the amplitude at strength 1 lies between low and high."""

    driver: str
    where: str  # gpu | node
    mode: str
    low: float
    high: float


HOUR = 3600.0

# What each kind moves before it breaks: events a second, degrees, microseconds of violation a second, or a share.
SIGNS: dict[str, tuple[Sign, ...]] = {
    "thermal": (
        Sign("temp", "gpu", "add", 7, 20),
        Sign("hbm_temp", "gpu", "add", 6, 18),
        Sign("thermal_violation", "gpu", "add", 2e4, 3e5),
        Sign("clock", "gpu", "mul", -0.25, -0.04),
        Sign("fan", "node", "mul", 0.05, 0.3),
    ),
    "ecc": (
        Sign("sbe", "gpu", "add", 40 / HOUR, 600 / HOUR),
        Sign("remap_cor", "gpu", "add", 3 / HOUR, 20 / HOUR),
        Sign("remap_unc", "gpu", "add", 0.5 / HOUR, 3 / HOUR),
    ),
    "nvlink": (
        Sign("crc_flit", "gpu", "add", 80 / HOUR, 3000 / HOUR),
        Sign("nvl_replay", "gpu", "add", 20 / HOUR, 500 / HOUR),
        Sign("nvl_recovery", "gpu", "add", 2 / HOUR, 20 / HOUR),
        Sign("nvlink", "gpu", "mul", -0.3, -0.05),
    ),
    "pcie": (
        Sign("pcie_replay", "gpu", "add", 80 / HOUR, 3000 / HOUR),
        Sign("pcie_rx", "gpu", "mul", -0.5, -0.1),
    ),
    "power": (
        Sign("power_violation", "gpu", "add", 2e4, 4e5),
        Sign("clock", "gpu", "mul", -0.3, -0.05),
        Sign("power", "gpu", "mul", -0.2, -0.05),
    ),
    "fabric": (
        Sign("ib_err", "node", "add", 40 / HOUR, 900 / HOUR),
        Sign("ib_recovery", "node", "add", 3 / HOUR, 30 / HOUR),
        Sign("ib_wait", "node", "mul", 1, 8),
        Sign("tcp_retrans", "node", "mul", 2, 15),
    ),
    "storage": (
        Sign("nfs_latency", "node", "mul", 3, 25),
        Sign("blocked", "node", "add", 4, 40),
        Sign("nfs_retrans", "node", "add", 20 / HOUR, 300 / HOUR),
        Sign("pgout", "node", "mul", 1, 5),
    ),
    "host": (
        Sign("edac_ce", "node", "add", 40 / HOUR, 600 / HOUR),
        Sign("intr", "node", "mul", -0.7, -0.25),
        Sign("procs", "node", "mul", -0.8, -0.4),
    ),
    "driver": (),
    "vanish": (Sign("scrape_dcgm", "node", "mul", 1.5, 8),),
}

# Lines that kinds write before they break, as kernels and daemons word them. {pci}, {g}, {pid}, {n} are filled in.
LINES: dict[str, tuple[tuple[str, str], ...]] = {
    "thermal": (("ipmiseld", "SEL Event: Temperature | GPU{g} Temp | Upper Non-critical going high | reading {n} C"),),
    "ecc": (
        ("kernel", "NVRM: Xid (PCI:{pci}): 63, pid={pid}, name=python, Row Remapper: New row marked for remapping."),
        ("kernel", "NVRM: Xid (PCI:{pci}): 94, pid={pid}, name=python, Contained: CE User Channel (0x9)."),
    ),
    "nvlink": (
        ("nv-fabricmanager", "[WARN] [tid {pid}] NVLink retrain on GPU {pci} link {n} after recovery"),
        ("nv-fabricmanager", "[WARN] [tid {pid}] GPU {pci} link {n} bit error rate above limit"),
    ),
    "pcie": (
        ("kernel", "pcieport 0000:15:01.0: AER: Corrected error received: {pci}.0"),
        ("kernel", "nvidia {pci}.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"),
    ),
    "power": (("ipmiseld", "SEL Event: Power Supply | PS{g} Status | Predictive Failure asserted | {n}"),),
    "fabric": (
        ("kernel", "mlx5_core 0000:5e:00.0: port_module:250: Port module event[error]: module 0, Cable error"),
        ("kernel", "mlx5_core 0000:5e:00.0 ens1f0np0: Error cqe on cqn 0x{n}, ci 0x2f, type 0x0d, syndrome 0x15"),
    ),
    "storage": (
        ("kernel", "nfs: server nfs01.storage not responding, still trying"),
        ("kernel", "INFO: task python:{pid} blocked for more than 120 seconds."),
    ),
    "host": (
        ("kernel", "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 slot:0 page:0x{n})"),
        ("kernel", "mce: [Hardware Error]: CPU {n}: Machine Check: 0 Bank 8: 8c00004000010090"),
    ),
    "driver": (
        ("kernel", "NVRM: _kgspLogRpcSanityCheckFailure: GPU{g} sanity check failed 0x{n} waiting for RPC response"),
        ("kernel", "NVRM: kgspDumpGspLogs: GSP task heartbeat late by {n} us on {pci}"),
        (
            "kernel",
            "NVRM: nvAssertOkFailedNoLog: Assertion failed: Timeout [NV_ERR_TIMEOUT] (0x00000065) @ gpu_mgr.c:{n}",
        ),
        ("kernel", "nvidia-uvm: uvm_gpu_check_ecc_error: interrupt service slow on {pci}: {n} us"),
        ("nvidia-persistenced", "device {pci} - failed to read device state, retrying ({n})"),
        (
            "kernel",
            "NVRM: rpcRmApiControl_GSP: GspRmControl failed: hClient=0xc1d{n}; paramsSize=0x00000e98; status=0x65",
        ),
    ),
    "vanish": (),
}


def draw_signs(
    kind: str, node: int, gpu: int, span: tuple[float, float], strength: float, rng: np.random.Generator
) -> tuple[list[Effect], list[LineSign]]:
    """The signs that one piece of trouble shows over a span of seconds: some of its kind's, each in a shape."""
    effects: list[Effect] = []
    for place, sign in enumerate(SIGNS[kind]):
        # the first of a kind nearly always shows, the others now and then
        if rng.random() > (0.93 if place == 0 else 0.45):
            continue
        if sign.where == "gpu" and gpu < 0:
            continue
        amplitude = strength * _between(sign.low, sign.high, rng)
        if sign.mode == "mul":
            amplitude = max(amplitude, -0.95)
        effects.append(
            Effect(
                driver=sign.driver,
                node=node,
                gpu=gpu if sign.where == "gpu" else -1,
                start=span[0] + (0.0 if not effects else float(rng.uniform(0, 0.5)) * (span[1] - span[0])),
                end=span[1],
                mode=sign.mode,
                amplitude=amplitude,
                shape=SHAPES[rng.integers(len(SHAPES))],
                salt=int(rng.integers(1, 1 << 30)),
            )
        )
    lines = []
    speaks = kind == "driver" or rng.random() < 0.35 or not effects
    if speaks and LINES[kind]:
        source, template = LINES[kind][rng.integers(len(LINES[kind]))]
        # a warning of a few minutes says its line at least once or twice
        rate = max(strength * float(rng.uniform(4, 30)), 1.5 * HOUR / max(span[1] - span[0], 60.0))
        lines.append(LineSign(node, gpu, span[0], span[1], source, template, rate))
    return effects, lines


def _between(low: float, high: float, rng: np.random.Generator) -> float:
    """A draw between two amplitudes of one sign, even on a logarithmic scale."""
    sign = -1.0 if low < 0 else 1.0
    small, large = sorted((abs(low), abs(high)))
    return sign * float(np.exp(rng.uniform(np.log(small), np.log(large))))
