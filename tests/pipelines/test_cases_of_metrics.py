"""Troubles that operators report of their metrics, from the export to the clean panel: the value right for each."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from features import panel, presence
from features.settings import FeatureSettings, PanelSettings
from features.tables import Panel, Series
from pipelines import failures
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.store import Store

CONFIG = Config()
T0 = 1_767_225_600_000
NS = 1_000_000
A = {"UUID": "GPU-aaaa", "Hostname": "n1"}


def series(metric: str, values: Sequence[float | None], step: Any = 30_000, first: Any = T0, **labels: str) -> str:
    """A line of VictoriaMetrics' export."""
    stamps = [first + place * step for place in range(len(values))]
    entry = {"metric": {"__name__": metric, **labels}, "values": values, "timestamps": stamps}
    return json.dumps(entry, separators=(",", ":")) + "\n"


class Metrics:
    """One export in a store of its own."""

    def __init__(self, folder: Path, text: str, **said: Any) -> None:
        (folder / "export").write_text(text)
        self.report = ingest(folder / "store", CONFIG, metrics=[folder / "export"], **said)
        self.store = Store.open(folder / "store")
        (self.input,) = self.report["inputs"]
        assert self.input["read"] == self.input["ok"] + sum(self.input["rejected"].values())

    def raw(self, node: str = "n1") -> Panel:
        return self.store.panel(node, *self.store.span())

    def clean(self, node: str = "n1") -> tuple[dict[Series, list[float]], Counter[str]]:
        tally: Counter[str] = Counter()
        found = panel.clean(self.raw(node), PanelSettings(), tally)
        return dict(zip(found.series, found.values.tolist(), strict=True)), tally

    def absent(self, node: str = "n1", minutes: int = 0) -> dict[str, float]:
        """What the presence columns say of the window that ends with the data."""
        raw = self.raw(node)
        end = int(raw.times[-1]) + 30_000 * NS + minutes * 60_000 * NS
        row = presence.columns(raw, np.array([end]), FeatureSettings(), presence.roster(self.store.gpus(), node))[0]
        return {what: value for what, value in zip(presence.WHAT, row.tolist(), strict=True) if value}


def test_c21_the_latched_gauge(tmp_path: Path) -> None:
    codes = [0, 0, 31, 31, 31, 31, 79, 79, 79, 31, 31, 0]
    found = Metrics(tmp_path, series("DCGM_FI_DEV_XID_ERRORS", codes, step=60_000, **A))
    events = failures.events(found.store, CONFIG)
    minutes = [(time.value // NS - T0) // 60_000 for time in events["time"]]
    assert list(zip(minutes, events["xid"], strict=True)) == [(2, 31), (6, 79), (9, 31)]
    assert found.clean()[0] == {}  # the gauge is no feature


def test_c22_dcgm_s_codes_for_not_available(tmp_path: Path) -> None:
    text = "".join(
        series(metric, [value], **{**A, "UUID": uuid})
        for metric, uuid, value in (
            ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "GPU-aaaa", 9223372036854775794),
            ("DCGM_FI_PROF_SM_ACTIVE", "GPU-aaaa", 140737488355328),
            ("DCGM_FI_PROF_DRAM_ACTIVE", "GPU-aaaa", 1.40737488355328e16),
            ("DCGM_FI_DEV_GPU_TEMP", "GPU-aaaa", 2147483632),
            ("DCGM_FI_DEV_GPU_TEMP", "GPU-bbbb", 54),
        )
    )
    values, tally = Metrics(tmp_path, text).clean()
    known = {series: row for series, row in values.items() if not np.isnan(row).all()}
    assert known == {Series("DCGM_FI_DEV_GPU_TEMP", "GPU-bbbb"): [54]}
    assert sum(tally.values()) == 4


def test_c22_a_label_without_a_value_is_absent(tmp_path: Path) -> None:
    found = Metrics(tmp_path, series("DCGM_FI_DEV_GPU_TEMP", [54], **A, vgpu="<<<NULL>>>"))
    assert found.raw().series == (Series("DCGM_FI_DEV_GPU_TEMP", "GPU-aaaa"),)


def test_c23_impossible_values(tmp_path: Path) -> None:
    found = Metrics(tmp_path, series("DCGM_FI_DEV_GPU_UTIL", [0, 97, 4294967295, 0, 41232, 98], **A))
    values, tally = found.clean()
    assert np.nanmax(next(iter(values.values()))) == 98
    assert tally["out_of_range"] + tally["blank"] == 2


def test_c24_profiling_fields_gone_from_one_gpu(tmp_path: Path) -> None:
    moving = [float(place % 7) for place in range(60)]
    text = "".join(
        series(
            metric, moving[: 30 if metric.startswith("DCGM_FI_PROF") and uuid == "GPU-a" else 60], UUID=uuid, node="n1"
        )
        for uuid in ("GPU-a", "GPU-b")
        for metric in (
            "DCGM_FI_PROF_SM_ACTIVE",
            "DCGM_FI_PROF_DRAM_ACTIVE",
            "DCGM_FI_DEV_GPU_TEMP",
            "DCGM_FI_DEV_FB_USED",
        )
    ) + series("node_load1", moving, node="n1")
    assert set(Metrics(tmp_path, text).absent()) == {"gpu_metrics_lost_ratio"}


def test_c25_the_others_are_renumbered_when_a_gpu_is_gone(tmp_path: Path) -> None:
    text = (
        series("GPU_TEMP", [60] * 30, UUID="GPU-a", gpu="0", node="n1")
        + series("GPU_TEMP", [35] * 30, UUID="GPU-b", gpu="1", node="n1")
        + series("GPU_TEMP", [35] * 30, first=T0 + 900_000, UUID="GPU-b", gpu="0", node="n1")
        + series("node_load1", [1.0, 2.0] * 30, node="n1")
    )
    found = Metrics(tmp_path, text)
    raw = dict(zip(found.raw().series, found.raw().values.tolist(), strict=True))
    assert set(raw[Series("GPU_TEMP", "GPU-b")]) == {35}
    assert found.absent()["gpu_missing"] == 1


UP = {"job": "dcgm", "instance": "n1:9400", "node": "n1"}


def node(
    gpu_cells: int, *, others: int = 60, load: int = 60, up: list[float] | None = None, still: bool = False
) -> str:
    """Half an hour of eight GPUs, of which GPU-0 has so many cells and the others so many."""
    draw = np.random.default_rng(0)
    text = series("node_load1", draw.random(load).tolist(), node="n1") + (series("node_x", [1.0] * 1, node="n1"))
    for gpu in range(8):
        cells = gpu_cells if gpu == 0 else others
        for metric in ("DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE"):
            row = [5.0] * cells if still else draw.random(cells).tolist()
            text += series(metric, row, UUID=f"GPU-{gpu}", node="n1") if cells else ""
    return text + (series("up", up, **UP) if up else "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (node(30, up=[1.0] * 60), {"gpu_missing": 1}),
        (node(30, others=30, up=[1.0] * 30 + [0.0] * 30), {"exporter_down": 1}),
        (node(60, up=[1.0] * 60, still=True), {"frozen": 1}),
    ],
    ids=["a GPU", "the exporter", "frozen"],
)
def test_c26_what_is_dead(tmp_path: Path, text: str, said: dict[str, float]) -> None:
    told = Metrics(tmp_path, text).absent()
    assert {what: told.get(what, 0) for what in ("gpu_missing", "exporter_down", "node_down", "frozen")} == {
        "gpu_missing": 0, "exporter_down": 0, "node_down": 0, "frozen": 0, **said,
    }  # fmt: skip


def test_c26_a_node_without_any_series_is_down_and_no_gpu_is_blamed(tmp_path: Path) -> None:
    other = series("node_load1", [1.0, 2.0] * 30, node="n2")
    found = Metrics(tmp_path, node(30, others=30, load=30) + other)
    told = found.absent()
    assert (told.get("node_down"), told.get("gpu_missing"), told.get("exporter_down")) == (1, None, None)


def test_c27_pod_labels_split_no_gpu(tmp_path: Path) -> None:
    text = (
        series("DCGM_FI_DEV_GPU_TEMP", [40, 41], pod="", namespace="", **A)
        + series("DCGM_FI_DEV_GPU_TEMP", [40, 42], pod="job-1", namespace="x", **A)
        + series("DCGM_FI_DEV_GPU_TEMP", [43], first=T0 + 60_000, exported_pod="job-2", pod="exporter-x", **A)
    )
    found = Metrics(tmp_path, text)
    assert found.raw().values.tolist() == [[40, 42, 43]]
    assert found.report["conflicts"] == 1


def test_c28_which_label_is_the_node(tmp_path: Path) -> None:
    text = (
        series("m", [1], Hostname="localhost", instance="10.0.0.7:9400", node="n7", UUID="GPU-a")
        + series("m", [1], Hostname="localhost", instance="10.0.0.8:9400", node="n8", UUID="GPU-b")
        + series(
            "m", [1], Hostname="dcgm-exporter-x1y2z", instance="10.0.0.9:9400", exported_instance="n9", UUID="GPU-c"
        )
    )
    (tmp_path / "log").write_text("2026-01-01T00:00:00Z n7.example.net kernel: x\n")
    found = Metrics(tmp_path, text)
    ingest(tmp_path / "store", CONFIG, logs=[tmp_path / "log"])
    assert found.store.nodes() == ["n7", "n8", "n9"]


def test_c29_a_counter_that_begins_anew(tmp_path: Path) -> None:
    found = Metrics(tmp_path, series("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", [100, 150, 20, 50], **A))
    values, tally = found.clean()
    (row,) = values.values()
    assert np.nansum(row) == 100
    assert np.nanmin(row) >= 0
    assert tally["reset"] + tally["resets"] == 1


def test_c30_two_replicas_interleaved(tmp_path: Path) -> None:
    metric = "DCGM_FI_DEV_PCIE_REPLAY_COUNTER"
    text = series(metric, [500, 510, 520], step=30_000, **A) + series(metric, [498, 507, 518], replica="b", **A)
    values, tally = Metrics(tmp_path, text).clean()
    assert np.nansum(next(iter(values.values()))) == 20
    assert tally["reset"] + tally["resets"] == 0


def test_c34_metrics_gone_everywhere_at_once_blame_no_gpu(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    text = series("node_load1", draw.random(60).tolist(), node="n1")
    for gpu in range(20):
        for metric in range(12):
            row = draw.random(30 if metric < 8 else 60).tolist()
            text += series(f"DCGM_FI_DEV_{metric}", row, UUID=f"GPU-{gpu:02}", node="n1")
    found = Metrics(tmp_path, text)
    told = found.absent()
    assert told["metrics_lost_ratio"] > 0.5
    assert {"gpu_missing", "exporter_down", "gpu_metrics_lost_ratio"} & set(told) == set()
    assert failures.events(found.store, CONFIG).empty


def test_c15_equal_buses_of_two_domains_are_two_gpus_and_a_line_finds_its_own(tmp_path: Path) -> None:
    text = series("m", [1, 2], UUID="GPU-8", node="n1", pci_bus_id="00000008:06:00.0") + series(
        "m", [1, 2], UUID="GPU-0", node="n1", pci_bus_id="00000000:06:00.0"
    )
    (tmp_path / "log").write_text("2026-01-01T00:00:20Z n1 kernel: NVRM: Xid (PCI:0008:06:00): 79, x\n")
    found = Metrics(tmp_path, text)
    ingest(tmp_path / "store", CONFIG, logs=[tmp_path / "log"])
    assert failures.events(found.store, CONFIG)["gpu"].tolist() == ["GPU-8"]


def test_e13_mig_instances_are_series_of_their_parent(tmp_path: Path) -> None:
    text = "".join(
        series("DCGM_FI_PROF_GR_ENGINE_ACTIVE", [value], **A, GPU_I_ID=instance, GPU_I_PROFILE=profile)
        for value, instance, profile in ((0.1, "1", "1g.5gb"), (0.2, "2", "2g.10gb"), (0.3, "2", "3g.20gb"))
    )
    raw = Metrics(tmp_path, text).raw()
    assert [series.gpu for series in raw.series] == ["GPU-aaaa"] * 2
    assert raw.values.tolist() == [[0.1], [0.3]]
