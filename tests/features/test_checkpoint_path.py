"""What GPU memory, host memory and local disks did while a node saved or loaded."""

import math

import numpy as np
import pytest

from features.checkpoint_path import Stages, evidence, figures, stages, told
from features.checkpoint_verdicts import judge
from features.settings import CheckpointSettings
from features.tables import Panel, Series
from tests.features.checkpoint_data import NAN, event

STEP = 30_000_000_000
PART = slice(2, 5)
SETTINGS = CheckpointSettings()
BUSY, WRITTEN = "node_disk_io_time_seconds_total", "node_disk_written_bytes_total"


def stage(rows: dict[tuple[str, str], list[float]], kind: str = "save") -> Stages:
    """Of gauges as they are; a row of a counter is its gain in each cell. Keys are metric and device (or GPU)."""
    values = np.array(list(rows.values()), dtype=float)
    series = tuple(Series(name, place) for name, place in rows)
    panel = Panel("n1", np.arange(values.shape[1], dtype=np.int64) * STEP, series, values)
    return stages(kind, panel, [name for name, _ in rows], [place for _, place in rows], values, PART, 2)


def test_gpu_memory_is_summed_over_the_gpus_and_its_gain_is_what_a_load_fills() -> None:
    used = "DCGM_FI_DEV_FB_USED"
    found = stage({(used, "GPU-a"): [1, 1, 50, 90, 100], (used, "GPU-b"): [2, 2, 60, 99, NAN]}, "load")
    assert found.held == 199 * 2**20
    assert found.filled == (99 + 97) * 2**20


def test_a_gpu_that_is_not_known_before_is_held_and_gains_nothing_known() -> None:
    found = stage({("DCGM_FI_DEV_FB_USED", "GPU-a"): [NAN, NAN, 50, 90, 100]})
    assert found.held == 100 * 2**20
    assert math.isnan(found.filled)


def test_a_blank_of_dcgm_is_no_memory() -> None:
    assert math.isnan(stage({("DCGM_FI_DEV_FB_USED", "GPU-a"): [2147483632.0] * 5}).held)


def test_what_waits_in_host_memory_is_told_over_what_waited_before() -> None:
    rows = {
        ("node_memory_Dirty_bytes", ""): [5.0, 5, 40, 90, 10],
        ("node_memory_Writeback_bytes", ""): [1.0, 1, 2, 6, 1],
    }
    assert stage(rows).waiting == 90 + 6 - 6


def test_the_busiest_disk_is_told_and_bytes_of_all_without_what_is_made_of_them() -> None:
    rows = {
        (BUSY, "nvme0n1"): [0.0, 0, 30, 15, 30],
        (BUSY, "nvme1n1"): [0.0, 0, 3, 3, 3],
        (BUSY, "dm-0"): [0.0, 0, 30, 30, 30],
    }
    rows |= {
        (WRITTEN, "nvme0n1"): [0.0, 0, 7, 7, 7],
        (WRITTEN, "nvme1n1"): [0.0, 0, 1, 1, 1],
        (WRITTEN, "dm-0"): [9.0] * 5,
    }
    found = stage(rows)
    assert found.disk_busy == pytest.approx(25 / 30)
    assert found.disk_bytes == 24


def test_what_is_not_exported_is_not_a_number_and_not_told() -> None:
    assert all(math.isnan(value) for value in stage({("node_load1", ""): [1.0] * 5}))
    assert not list(told(["node_load1"]))
    assert list(told([BUSY, "DCGM_FI_DEV_FB_USED", "node_memory_Dirty_bytes"])) == ["memory", "host", "disk"]


def test_an_events_stages_are_those_of_the_nodes_that_tell_them() -> None:
    nodes = [
        [Stages(held=100.0, filled=60.0)],
        [Stages(held=200.0, filled=NAN), Stages(held=180.0, filled=20.0)],
        [Stages()],
    ]
    found = figures("save", nodes, 30.0)
    assert (found["gpu_memory_bytes"], found["gpu_memory_filled_bytes"]) == (300.0, 80.0)
    assert found["gpu_memory_share"] == 0.1
    assert math.isnan(found["disk_busy"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"gpu_memory_bytes": 10e12, "gpu_memory_share": 0.3}, "3000 GB were written, 30% of the 10000 GB"),
        ({"kind": "load", "gpu_memory_filled_bytes": 2.9e12}, "GPU memory gained 2900 GB while 3000 GB were read"),
        ({"kind": "load", "gpu_memory_filled_bytes": -1.0}, "GPU memory gained 0 GB while 3000 GB were read: they"),
        ({"host_waiting_bytes": 1e12}, "up to 1000 GB waited in host memory"),
        ({"disk_busy": 0.9}, "busiest local disk has work 90% of the time"),
        ({"disk_bytes": 2e12}, "local disks wrote 2000 GB in that time"),
    ],
)  # fmt: skip
def test_a_stage_is_evidence_where_it_is_exported(more: dict[str, object], said: str) -> None:
    (line,) = evidence(event(**more), SETTINGS)
    assert line.startswith(said) or said in line


def test_a_stage_that_is_not_exported_is_no_evidence() -> None:
    assert list(evidence(event(), SETTINGS)) == []


def test_a_verdict_carries_the_stages() -> None:
    assert "local disks wrote 2000 GB" in judge(event(disk_bytes=2e12), SETTINGS, 5.0).evidence[-1]
