from collections.abc import Sequence
from datetime import timedelta

import numpy as np
import pytest

from features import phase
from features.settings import FeatureSettings, WindowSettings
from features.tables import Panel, Series

NAN = float("nan")
STEP = 30_000_000_000
SETTINGS = FeatureSettings(window=WindowSettings(length=timedelta(minutes=20)))
WRITES = Series("node_mountstats_nfs_total_write_bytes_total")
READS = Series("node_mountstats_nfs_total_read_bytes_total")


def clean(use: Sequence[float], read: float = 0, written: list[float] | None = None) -> Panel:
    """A window of 40 cells: the use of one GPU, bytes a cell as increases."""
    series = (Series("DCGM_FI_DEV_GPU_UTIL", "GPU-a"), READS, WRITES)
    values = np.array([use, [read] * len(use), written or [0] * len(use)], dtype=np.float64)
    return Panel("n", np.arange(len(use)) * STEP, series, values)


def told(panel: Panel) -> dict[str, float]:
    row = phase.columns(panel, np.array([len(panel.times) * STEP]), SETTINGS)[0]
    return dict(zip(phase.WHAT, row.tolist(), strict=True))


@pytest.mark.parametrize(
    ("panel", "state"),
    [
        (clean([2] * 40), phase.IDLE),
        (clean([97] * 40), phase.COMPUTING),
        (clean([30] * 40), phase.MIXED),
        (clean([5] * 40, read=5e9), phase.LOADING),
        (clean([97] * 40, read=5e9), phase.COMPUTING),
        (clean([5] * 40, written=[1e10] * 40), phase.SAVING),
        (clean([NAN] * 40), phase.UNKNOWN),
    ],
)
def test_use_and_storage_tell_what_the_job_does(panel: Panel, state: int) -> None:
    assert told(panel)["now"] == state
    assert told(panel)["group"] == state


def test_a_node_some_of_whose_gpus_work_while_others_rest_is_partly_at_work() -> None:
    series = tuple(Series("DCGM_FI_DEV_GPU_UTIL", f"GPU-{name}") for name in "abcd")
    panel = Panel("n", np.arange(40) * STEP, series, np.array([[97.0] * 40, [95.0] * 40, [88.0] * 40, [0.0] * 40]))
    got = told(panel)
    assert (got["now"], got["group"], got["partly_ratio"]) == (phase.PARTLY, phase.PARTLY, 1)


def test_a_checkpoint_is_a_phase_of_its_own_and_no_end_of_work() -> None:
    got = told(clean([97] * 20 + [3] * 4 + [97] * 16, written=[0.0] * 20 + [1e10] * 4 + [0.0] * 16))
    assert got["changes"] == 2
    assert got["saving_ratio"] == pytest.approx(0.1)
    assert got["group"] == phase.COMPUTING


def test_a_window_in_which_work_is_laid_down_has_peers_of_its_own() -> None:
    got = told(clean([97] * 25 + [0] * 15))
    assert got["group"] == phase.COMPUTING + 10
    assert got["now"] == phase.IDLE


def test_a_single_cell_is_no_change() -> None:
    assert told(clean([97] * 20 + [5] + [97] * 19))["changes"] == 0


def test_without_utilisation_the_share_of_time_the_engine_ran_tells_it() -> None:
    series = (Series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "GPU-a"),)
    panel = Panel("n", np.arange(40) * STEP, series, np.full((1, 40), 0.9))
    assert told(panel)["now"] == phase.COMPUTING
