from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from features import presence
from features.matrix import index_of
from features.settings import FeatureSettings
from features.tables import Panel, Series

NAN = float("nan")
STEP = 30_000_000_000
CELLS = 50  # ten before the window, forty in it
METRICS = ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_SM_CLOCK")
GPUS = ("GPU-a", "GPU-b", "GPU-c")
ALL = slice(None)


class Node:
    """Three GPUs of four metrics each, a load and Prometheus' own word on the exporter."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.series = [Series("node_load1"), Series('up{job="dcgm"}')]
        self.series += [Series(metric, gpu) for gpu in GPUS for metric in METRICS]
        self.values: NDArray[np.float64] = rng.normal(50, 5, (len(self.series), CELLS))
        self.values[1] = 1

    def set(self, value: float, cells: slice, **which: Any) -> "Node":
        for row, series in enumerate(self.series):
            if all(getattr(series, key) == wanted for key, wanted in which.items()):
                self.values[row, cells] = value
        return self

    def exporter(self, value: float, cells: slice) -> "Node":
        for gpu in GPUS:
            self.set(value, cells, gpu=gpu)
        return self

    def told(self, known: presence.Roster | None = None) -> dict[str, float]:
        """What is not zero."""
        panel = Panel("n", np.arange(CELLS) * STEP, tuple(self.series), self.values)
        row = presence.columns(panel, np.array([CELLS * STEP]), FeatureSettings(), known or presence.Roster())[0]
        return {what: value for what, value in zip(presence.WHAT, row.tolist(), strict=True) if value}


def test_of_a_node_that_sends_everything_nothing_is_missing() -> None:
    assert Node().told() == {}


def test_a_gpu_gone_while_its_siblings_stay_is_one_gpu_missing() -> None:
    assert Node().set(NAN, slice(40, None), gpu="GPU-b").told() == {"gpu_missing": 1, "gpu_gap_seconds": 300}


def test_the_exporter_down_blames_no_gpu() -> None:
    got = Node().exporter(NAN, slice(40, None)).set(0, slice(40, None), metric='up{job="dcgm"}').told()
    assert got == {"exporter_down": 1, "gpu_gap_seconds": 300}


def test_every_gpu_gone_while_the_exporter_answers_blames_them_all() -> None:
    assert Node().exporter(NAN, slice(40, None)).told()["gpu_missing"] == 3


def test_a_node_that_sends_nothing_is_down() -> None:
    got = Node().exporter(NAN, slice(40, None)).set(NAN, slice(40, None), metric="node_load1").told()
    assert got == {"node_down": 1, "silent_seconds": 300, "gpu_gap_seconds": 300, "node_gap_seconds": 300}


def test_gpu_values_that_stand_still_while_the_nodes_move_are_frozen() -> None:
    node = Node()
    for row, series in enumerate(node.series):
        if series.gpu:
            node.values[row] = node.values[row, 0]
    assert node.told() == {"frozen": 1}
    assert node.set(1, ALL, metric="node_load1").told() == {}


def test_scrapes_lost_at_random_leave_no_trace() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        node = Node()
        node.values[:, rng.random(CELLS) < 0.02] = NAN
        node.values[rng.random(node.values.shape) < 0.02] = NAN
        assert node.told() == {}


def test_profiling_metrics_gone_from_one_gpu_are_metrics_lost_and_no_gpu() -> None:
    got = Node().set(NAN, slice(40, None), gpu="GPU-a", metric="DCGM_FI_PROF_SM_ACTIVE").told()
    assert got == {"gpu_metrics_lost_ratio": 0.25}


def test_a_metric_gone_from_all_gpus_at_once_is_another_exporter_and_no_gpu() -> None:
    got = Node().set(NAN, slice(40, None), metric="DCGM_FI_PROF_SM_ACTIVE").told()
    assert {what: round(value, 3) for what, value in got.items()} == {"metrics_lost_ratio": round(1 / 6, 3)}


def test_a_metric_that_comes_in_is_new() -> None:
    got = Node().set(NAN, slice(0, 47), metric="DCGM_FI_PROF_SM_ACTIVE").told()
    assert round(got["metrics_new_ratio"], 3) == round(1 / 6, 3)


def test_the_target_that_comes_and_goes_is_neither_new_nor_lost() -> None:
    node = Node()
    node.series.append(Series('DCGM_FI_DEV_XID_ERRORS{err_code="79"}', "GPU-a"))
    node.values = np.vstack([node.values, np.r_[[NAN] * 47, [79.0] * 3]])
    assert node.told() == {}


def test_a_known_gpu_stays_missing_long_after_its_last_sample() -> None:
    known = presence.Roster(("GPU-old",), ("0000:01:00",), (-(10**15),))
    assert Node().told(known) == {"gpu_missing": 1, "gpu_gap_seconds": 1200}


def test_a_gpu_put_in_the_place_of_another_is_no_loss() -> None:
    known = presence.Roster(("GPU-a", "GPU-old"), ("0000:01:00", "0000:01:00"), (-(10**15), -(10**16)))
    assert Node().told(known) == {}


def test_a_gpu_that_will_come_later_is_not_missed() -> None:
    assert Node().told(presence.Roster(("GPU-z",), ("",), (CELLS * STEP + 1,))) == {}


def test_status_says_down_stale_or_ok() -> None:
    X = pd.DataFrame(0.0, index=index_of("n", np.arange(3)), columns=list(presence.COLUMNS))
    X.loc[X.index[0], "presence.node_down__value"] = 1
    X.loc[X.index[1], "presence.frozen__value"] = 1
    assert presence.status(X).tolist() == ["down", "stale", "ok"]
