"""The journal of a node: what kernels, daemons and training jobs write on quiet days and on bad ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.simulate.cluster import Gpu, Node
from pipelines.simulate.drivers import Work
from pipelines.simulate.failures import DETAIL, Failure
from pipelines.simulate.jobs import EVAL, LOAD, SAVE, TRAIN, Abort, Attempt
from pipelines.simulate.trouble import HOUR, LINES, LineSign

DOUBLED = 0.25  # share of failures whose lines come many times


class Line(NamedTuple):
    """A line before it is dressed as JSON; seconds since the start."""

    time: float
    source: str
    message: str
    priority: int = 6


# source, priority, lines an hour, text
QUIET: tuple[tuple[str, int, float, str], ...] = (
    ("systemd", 6, 4.0, "Started Session {n} of User root."),
    ("systemd", 6, 2.0, "session-{n}.scope: Deactivated successfully."),
    ("systemd", 6, 1.0, "Starting system activity accounting tool..."),
    ("CRON", 6, 6.0, "(root) CMD (command -v debian-sa1 > /dev/null && debian-sa1 1 1)"),
    ("sshd", 6, 1.5, "Accepted publickey for ops from 10.20.0.{b} port {n} ssh2: ED25519 SHA256:k3f8XyQ"),
    ("sshd", 6, 1.2, "pam_unix(sshd:session): session opened for user ops(uid=1001) by (uid=0)"),
    (
        "kubelet",
        6,
        9.0,
        'I0104 reconciler_common.go:299] "Volume detached for volume" volumeName="vol-{n}" DevicePath=""',
    ),
    ("kubelet", 4, 0.8, 'W0104 watcher.go:93] Error while processing event ("/sys/fs/cgroup/cpu/{n}": no such file)'),
    ("containerd", 6, 5.0, 'time="{n}" level=info msg="ImageUpdate event name:registry.local/train:{b}"'),
    ("slurmd", 6, 4.0, "debug:  Node health check succeeded in {b} ms"),
    ("chronyd", 6, 0.5, "Selected source 10.20.0.{b} (ntp1.local)"),
    ("kernel", 6, 0.5, "perf: interrupt took too long ({n} > 2500), lowering kernel.perf_event_max_sample_rate to {n}"),
    ("kernel", 6, 0.4, "nfs: Deprecated parameter 'intr'"),
    ("kernel", 4, 0.2, "TCP: bond0: Driver has suspect GRO implementation, TCP performance may be compromised."),
    ("dcgm-exporter", 6, 1.0, 'time="{n}" level=info msg="Collected metrics in {b} ms"'),
    ("nv-fabricmanager", 6, 0.3, "[INFO] [tid {n}] heartbeat to partition {b} answered"),
)
# Words of the long tail: nearly every combination is seen once and never again.
DAEMONS = ("snapd", "polkitd", "irqbalance", "rsyslogd", "udisksd", "packagekitd", "multipathd", "lldpd", "smartd")
VERBS = ("reloading", "skipping", "refreshing", "rotating", "releasing", "probing", "caching", "expiring", "merging")
THINGS = ("policy", "device list", "unit file", "lease", "index", "cgroup", "certificate", "mount table", "socket")
ENDS = ("after timeout", "on request", "as scheduled", "without changes", "for the next run", "in the background")
STRAYS = tuple(line for kind in LINES.values() for line in kind if "Xid" not in line[1])
STRAY = 0.03  # lines an hour


def background(node: Node, length: float, begin: float, rng: np.random.Generator) -> list[Line]:
    """Quiet lines over `length` seconds from `begin`, with a long tail of rare ones."""
    out: list[Line] = []
    templates = QUIET
    if node.chatty_line:
        templates = (*QUIET, ("kernel", 4, 9.0, node.chatty_line))
    for source, priority, per_hour, text in templates:
        moments = _moments(begin, begin + length, per_hour, rng)
        out.extend(Line(time, source, _fill(text, rng), priority) for time in moments)
    # a line of every trouble is now and then written on a healthy node, once
    for time in _moments(begin, begin + length, STRAY, rng):
        source, text = STRAYS[rng.integers(len(STRAYS))]
        card = node.gpus[rng.integers(len(node.gpus))] if node.gpus else None
        out.append(Line(time, source, _fill(text, rng, card), 4))
    for time in _moments(begin, begin + length, 0.25, rng):
        daemon, verb, thing, end = (words[rng.integers(len(words))] for words in (DAEMONS, VERBS, THINGS, ENDS))
        out.append(Line(time, daemon, f"{verb} {thing} {end}"))
    return out


def training(attempts: list[Attempt], doing: Work, times: NDArray[np.float64]) -> list[Line]:
    """What the training processes of a node print: iterations, checkpoints, loads; seconds [T]."""
    out: list[Line] = []
    step = float(times[1] - times[0]) if len(times) > 1 else 30.0
    stride = max(1, round(120 / step))
    for k, attempt in enumerate(attempts):
        held = doing.attempt == k
        for index in np.flatnonzero(held & (doing.phase == TRAIN))[::stride]:
            time = float(times[index])
            out.append(Line(time, "train", _iteration(_done(attempt, time))))
        loads = _onsets(held & (doing.phase == LOAD), times)
        out += [Line(time, "train", "loading checkpoint from /mnt/train/ckpt") for time in loads]
        trials = _onsets(held & (doing.phase == EVAL), times)
        out += [Line(time, "train", f"running evaluation at iteration {_done(attempt, time)}") for time in trials]
        for time in _onsets(held & (doing.phase == SAVE), times):
            done = f"iteration {_done(attempt, time):7d}"
            out.append(Line(time, "train", f"saving checkpoint at {done} to /mnt/train/ckpt in torch_dist format"))
            out.append(Line(time + attempt.profile.save, "train", f"successfully saved checkpoint from {done}"))
    return out


def _done(attempt: Attempt, time: float) -> int:
    """Iterations behind a try at a time."""
    return 2000 + 17 * attempt.attempt + int((time - attempt.started) / 4.1)


def _iteration(done: int) -> str:
    """A progress line in Megatron-LM's words."""
    loss = 2.1 + 1.5 / (1 + done / 5000)
    return (
        f" iteration {done:8d}/  500000 | consumed samples: {done * 2048:12d} | "
        f"elapsed time per iteration (ms): {4100 + 37 * ((done * 31) % 11):.1f} | learning rate: 1.5E-04 | "
        f"lm loss: {loss:.6E} | grad norm: 0.{done % 997:03d}"
    )


def scheduling(attempts: list[Attempt], node: int, low: float, high: float) -> list[Line]:
    """Starts and ends of tries on a node within ``[low, high)`` seconds."""
    out: list[Line] = []
    for attempt in attempts:
        step = f"StepId={attempt.job.removeprefix('job-')}.{attempt.attempt}"
        if low <= attempt.started < high:
            out.append(Line(attempt.started, "slurmd", f"launch task {step} request from UID:1001 HOST:10.20.0.5"))
        if not low <= attempt.ended < high or node in attempt.excluded:
            continue
        if attempt.outcome == "failed":
            text = (
                f"[rank{attempt.nodes.index(node) * 8}]: Watchdog caught collective operation timeout: "
                f"WorkNCCL(SeqNum={int(attempt.started) % 99991}, OpType=ALLREDUCE) ran for 600000 milliseconds"
            )
            out.append(Line(attempt.ended - 0.4, "train", text, 3))
        out.append(Line(attempt.ended, "slurmd", f"done with step {step} outcome={attempt.outcome}"))
    return out


def signs(node: Node, lines: list[LineSign], low: float, high: float, rng: np.random.Generator) -> list[Line]:
    """Lines of trouble, followed by a failure or not."""
    out: list[Line] = []
    for sign in lines:
        start, end = max(low, sign.start), min(high, sign.end)
        if start >= end:
            continue
        card = node.gpus[sign.gpu] if sign.gpu >= 0 else None
        moments = _moments(start, end, sign.per_hour, rng)
        out.extend(Line(time, sign.source, _fill(sign.template, rng, card), 4) for time in moments)
    return out


def failure_lines(failure: Failure, node: Node) -> list[Line]:
    """The kernel's lines of a failure, a cascade within a second or two, now and then a flood."""
    plan = failure.plan
    rng = np.random.default_rng([plan.salt, 9])
    card = node.gpus[failure.gpu] if failure.gpu >= 0 else None
    out: list[Line] = []
    if card is None or not plan.in_log:
        return out
    time = failure.time
    for place, xid in enumerate(plan.xids):
        time = failure.time + (0 if place == 0 else float(rng.uniform(0.02, 0.6)) * place)
        out.append(
            Line(time, "kernel", f"NVRM: Xid (PCI:{card.pci_kernel}): {xid}, {_fill(DETAIL[xid], rng, card)}", 4)
        )
    others = [other for other in node.gpus if other.index != card.index]
    if others and plan.kind in {"nvlink", "fabric"} and rng.random() < 0.5:
        # a link has two ends
        peer = others[rng.integers(len(others))]
        text = f"NVRM: Xid (PCI:{peer.pci_kernel}): {plan.xids[0]}, {_fill(DETAIL[plan.xids[0]], rng, peer)}"
        out.append(Line(failure.time + float(rng.uniform(0.01, 0.9)), "kernel", text, 4))
    for other in others:
        if failure.job and plan.xids[0] in {48, 95} and rng.random() < 0.6:
            text = f"NVRM: Xid (PCI:{other.pci_kernel}): 45, {_fill(DETAIL[45], rng, other)}"
            out.append(Line(failure.time + float(rng.uniform(1, 4)), "kernel", text, 4))
    if plan.xids[0] == 79:
        out.append(Line(time + 0.01, "kernel", f"NVRM: GPU {card.pci_kernel}.0: GPU has fallen off the bus.", 4))
    if rng.random() < DOUBLED:
        first = plan.xids[0]
        for later in np.sort(rng.uniform(0.5, 100, int(rng.integers(5, 200)))):
            text = f"NVRM: Xid (PCI:{card.pci_kernel}): {first}, {_fill(DETAIL[first], rng, card)}"
            out.append(Line(failure.time + float(later), "kernel", text, 4))
    return out


def reboot_lines(down: float, up: float, why: str) -> list[Line]:
    """A node that goes down in order and comes up again."""
    out = [] if why == "failure" else [Line(down - 2.0, "systemd-logind", "System is rebooting.", 5)]
    texts = (
        "Linux version 6.8.0-51-generic (buildd@lcy02-amd64-080) (x86_64-linux-gnu-gcc-13 13.3.0)",
        "Command line: BOOT_IMAGE=/vmlinuz-6.8.0-51-generic root=/dev/nvme0n1p2 ro iommu=pt",
        "BIOS-provided physical RAM map:",
        "nvidia: loading out-of-tree module taints kernel.",
        "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  570.124.06  Release Build",
        "mlx5_core 0000:5e:00.0: firmware version: 28.43.1014",
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode. Quota mode: none.",
    )
    out += [Line(up + 0.3 + 0.9 * k, "kernel", text, 5) for k, text in enumerate(texts)]
    return [
        *out,
        Line(up + 9.0, "systemd", "Started NVIDIA Fabric Manager service."),
        Line(up + 12.0, "slurmd", "slurmd started"),
    ]


def abort_lines(abort: Abort, node: Node) -> list[Line]:
    """A user's error on most GPUs of a node, within seconds."""
    rng = np.random.default_rng([int(abort.time * 1000), node.index, 1])
    texts = {
        13: "pid={pid}, name=python, Graphics SM Warp Exception on (GPC {b}, TPC 1, SM 1): Out Of Range Address",
        31: "pid={pid}, name=python, Ch 00000008, intr 00000000. MMU Fault: ENGINE CE0 HUBCLIENT_CE1 "
        "faulted @ 0x7f_{n}. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ",
        43: "pid={pid}, name=python, Ch 00000008",
    }
    out = []
    for card in abort_cards(abort, node):
        text = f"NVRM: Xid (PCI:{card.pci_kernel}): {abort.xid}, {_fill(texts[abort.xid], rng, card)}"
        out.append(Line(abort.time + float(rng.uniform(0, 9)), "kernel", text, 4))
    return out


def abort_cards(abort: Abort, node: Node) -> list[Gpu]:
    """The GPUs of a node that a user's error shows on."""
    rng = np.random.default_rng([int(abort.time * 1000), node.index])
    return [card for card in node.gpus if rng.random() < 0.85]


def _moments(low: float, high: float, per_hour: float, rng: np.random.Generator) -> list[float]:
    return [float(t) for t in np.sort(rng.uniform(low, high, rng.poisson(per_hour * (high - low) / HOUR)))]


def _onsets(mask: NDArray[np.bool_], times: NDArray[np.float64]) -> list[float]:
    """Times at which a mask becomes true; true in the first cell counts as going on, not as a beginning."""
    return [float(time) for time in times[1:][mask[1:] & ~mask[:-1]]]


def _fill(text: str, rng: np.random.Generator, card: Gpu | None = None) -> str:
    """Numbers in a template; the GPU's where there is one."""
    if "{" not in text:
        return text
    pci, index = (card.pci_kernel, card.index) if card else ("0000:18:00", 0)
    return text.format(
        n=int(rng.integers(10, 99999)),
        b=int(rng.integers(1, 255)),
        pid=int(rng.integers(2000, 4000000)),
        pci=pci,
        g=index,
    )
