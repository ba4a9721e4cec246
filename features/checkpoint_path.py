"""The path between GPU memory and shared storage: what GPUs hold, what waits in host memory, what local disks do.

A save comes out of GPU memory, by host memory, to the NFS server; a load goes the other way and fills GPU memory while
the GPUs compute nothing. Where a stage is not exported it is NaN, and nothing is claimed of it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from features.settings import CheckpointSettings
from features.tables import Panel

Array = NDArray[np.float64]
SAVE = "save"
_MEBI = 1_048_576
# dcgm-exporter tells MiB; nvidia_gpu_exporter and nvidia_gpu_prometheus_exporter tell bytes
_HELD = {"DCGM_FI_DEV_FB_USED": _MEBI, "nvidia_smi_memory_used_bytes": 1, "nvidia_gpu_memory_used_bytes": 1}
_MOST = 4_194_304 * _MEBI  # more than any GPU holds: DCGM's blanks
_WAITING = ("node_memory_Dirty_bytes", "node_memory_Writeback_bytes")
_BUSY = "node_disk_io_time_seconds_total"
_DISK_BYTES = {SAVE: "node_disk_written_bytes_total", "load": "node_disk_read_bytes_total"}
NAMES = frozenset({*_HELD, *_WAITING, _BUSY, *_DISK_BYTES.values()})
# What is made of other disks, or of none, would count bytes twice
_NO_DISK = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d+.*")
_LITTLE = 0.05  # of the bytes read: GPU memory that gained less was not what they were for
_MUCH = 0.1  # of an event's bytes


class Stages(NamedTuple):
    """One node's stages in one stretch, bytes unless said; NaN unknown.

    Attributes
    ----------
    held
        In GPU memory when the stretch ended.
    filled
        GPU memory gained over it, of the GPUs known before and after.
    waiting
        Most that waited in host memory to be written, over what waited before.
    disk_bytes
        That local disks wrote in a save or read in a load.
    disk_busy
        Share of the time that the busiest local disk had work.
    """

    held: float = math.nan
    filled: float = math.nan
    waiting: float = math.nan
    disk_bytes: float = math.nan
    disk_busy: float = math.nan


def told(names: Sequence[str]) -> Iterator[str]:
    """Which stages these metrics tell of: memory, host, disk."""
    known = set(names)
    yield from (what for what, of in (("memory", _HELD), ("host", _WAITING), ("disk", (_BUSY,))) if known & set(of))


def stages(
    kind: str,
    panel: Panel,
    names: Sequence[str],
    devices: Sequence[str],
    gained: Array,
    part: slice,
    lookback: int,
) -> Stages:
    """What the stages of a node did in the cells of ``part``.

    Parameters
    ----------
    names, devices
        Of each series, its metric and its label ``device`` ("" without).
    gained
        Gains of the counters in each cell [S, T].
    lookback
        Cells within which the last known value of a gauge still holds.
    """
    held, filled = _memory(panel, names, part, lookback)
    disks = [row for row, name in enumerate(names) if name == _BUSY and _is_disk(devices[row])]
    moved = [row for row, name in enumerate(names) if name == _DISK_BYTES[kind] and _is_disk(devices[row])]
    step = float(panel.times[1] - panel.times[0]) / 1e9 if len(panel.times) > 1 else 1.0
    busy = [float(np.nanmean(gained[row, part])) / step for row in disks if not np.isnan(gained[row, part]).all()]
    bytes_of = [float(np.nansum(gained[row, part])) for row in moved if not np.isnan(gained[row, part]).all()]
    return Stages(
        held,
        filled,
        _waited(panel, names, part, lookback),
        sum(bytes_of) if bytes_of else math.nan,
        min(1.0, max(busy)) if busy else math.nan,
    )


def _is_disk(device: str) -> bool:
    """Whether a device is a disk of its own."""
    return not _NO_DISK.fullmatch(device)


def _at(values: Array, cell: int, lookback: int) -> float:
    """The last known value at a cell or a few before it."""
    near = values[max(0, cell - lookback) : cell + 1]
    known = near[~np.isnan(near)]
    return float(known[-1]) if len(known) else math.nan


def _memory(panel: Panel, names: Sequence[str], part: slice, lookback: int) -> tuple[float, float]:
    """Bytes that the GPUs hold at the end of a stretch, and what they gained over it; the first metric that tells."""
    for metric, unit in _HELD.items():
        rows = [row for row, name in enumerate(names) if name == metric]
        if not rows:
            continue
        values = panel.values[rows] * unit
        values[values > _MOST] = np.nan
        after = np.array([_at(row, part.stop - 1, lookback) for row in values])
        before = np.array([_at(row, part.start - 1, lookback) if part.start else math.nan for row in values])
        gain = after - before
        return _sum(after), _sum(gain)
    return math.nan, math.nan


def _sum(values: Array) -> float:
    return float(np.nansum(values)) if not np.isnan(values).all() else math.nan


def _waited(panel: Panel, names: Sequence[str], part: slice, lookback: int) -> float:
    rows = [row for row, name in enumerate(names) if name in _WAITING]
    if not rows or np.isnan(panel.values[rows, part]).all() or not part.start:
        return math.nan
    before = sum(value for row in rows if not math.isnan(value := _at(panel.values[row], part.start - 1, lookback)))
    known = panel.values[rows, part]
    return max(0.0, float(np.nansum(known, axis=0).max()) - before)


def figures(kind: str, nodes: Sequence[Sequence[Stages]], whole: float) -> dict[str, float]:
    """An event's stages, of each node's stretches.

    Parameters
    ----------
    whole
        The event's bytes.
    """
    held = _over(max, nodes, "held")
    return {
        "gpu_memory_bytes": held,
        "gpu_memory_share": whole / held if held > 0 and kind == SAVE else math.nan,
        "gpu_memory_filled_bytes": _over(sum, nodes, "filled"),
        "host_waiting_bytes": _over(max, nodes, "waiting"),
        "disk_bytes": _over(sum, nodes, "disk_bytes"),
        "disk_busy": _middle([_of(max, own, "disk_busy") for own in nodes]),
    }


def _of(how: Any, own: Sequence[Stages], name: str) -> float:
    known = [value for stage in own if math.isfinite(value := getattr(stage, name))]
    return float(how(known)) if known else math.nan


def _over(how: Any, nodes: Sequence[Sequence[Stages]], name: str) -> float:
    """Summed over the nodes that tell it; NaN where none does."""
    known = [value for own in nodes if math.isfinite(value := _of(how, own, name))]
    return float(sum(known)) if known else math.nan


def _middle(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.median(known)) if known else math.nan


def evidence(event: Mapping[str, Any], settings: CheckpointSettings) -> Iterator[str]:
    """What the stages say of an event, in sentences; nothing of a stage that is not exported."""
    whole, filled = event["bytes"], event["gpu_memory_filled_bytes"]
    if math.isfinite(event["gpu_memory_share"]):
        yield (
            f"{whole / 1e9:.0f} GB were written, {event['gpu_memory_share']:.0%} of the "
            f"{event['gpu_memory_bytes'] / 1e9:.0f} GB in GPU memory"
        )
    if event["kind"] != SAVE and math.isfinite(filled):
        said = f"GPU memory gained {max(filled, 0) / 1e9:.0f} GB while {whole / 1e9:.0f} GB were read"
        little = filled < _LITTLE * whole
        yield said + (": they were for something else than a model's state" if little else "")
    if event["host_waiting_bytes"] >= _MUCH * whole:
        yield (
            f"up to {event['host_waiting_bytes'] / 1e9:.0f} GB waited in host memory to be written: a program that "
            "does not wait for them is held up for less than the event lasts"
        )
    if event["disk_busy"] >= settings.full_share:
        yield f"a node's busiest local disk has work {event['disk_busy']:.0%} of the time"
    if event["disk_bytes"] >= whole / 2:
        verb = "wrote" if event["kind"] == SAVE else "read"
        yield f"local disks {verb} {event['disk_bytes'] / 1e9:.0f} GB in that time: part of the path may lie over them"
