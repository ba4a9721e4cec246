"""One node's counters to stretches of saving and loading."""

from typing import Any

import numpy as np
import pytest

from features import checkpoint_cells
from features.checkpoint_cells import LOAD, SAVE, gains, look
from features.checkpoint_spells import Sight
from features.settings import CheckpointSettings, PanelSettings
from features.tables import Panel, Series

STEP = 30_000_000_000
NFS = "node_mountstats_nfs_"
MOUNT = 'export="nfs:/c",mountaddr="10.0.0.9",protocol="tcp"'
WRITTEN = f"{NFS}total_write_bytes_total{{{MOUNT}}}"
READ = f"{NFS}total_read_bytes_total{{{MOUNT}}}"
USE = "DCGM_FI_DEV_GPU_UTIL"
CELLS = 12


def operation(measure: str, name: str = "WRITE", more: str = "") -> str:
    return f'{NFS}operations_{measure}_total{{export="nfs:/c",mountaddr="10.0.0.9",operation="{name}"{more}}}'


def counter(per_second: list[float], begin: float = 1e6) -> list[float]:
    """A counter that gains so much a second in each cell after the first."""
    return list(begin + np.cumsum([0.0, *(30 * rate for rate in per_second[1:])]))


def seen(rows: dict[str, list[float]], gpus: dict[str, list[float]] | None = None, **settings: Any) -> Sight:
    series = [Series(name) for name in rows] + [Series(USE, uuid) for uuid in gpus or {}]
    values = np.array([*rows.values(), *(gpus or {}).values()], dtype=float)
    panel = Panel("n1", np.arange(CELLS, dtype=np.int64) * STEP, tuple(series), values)
    return look(panel, CheckpointSettings(**settings), PanelSettings(), 0, CELLS * STEP)


def during(level: float, quiet: float = 0.0) -> list[float]:
    """So much a second in cells 4 to 7."""
    return [level if 4 <= cell < 8 else quiet for cell in range(CELLS)]


def test_a_gain_over_a_lost_scrape_is_shared_by_its_cells() -> None:
    gained, restarted = gains(np.array([[0.0, 10.0, np.nan, 30.0, 30.0]]), 10, 0.05)
    np.testing.assert_array_equal(gained, [[np.nan, 10.0, 10.0, 10.0, 0.0]])
    assert not restarted.any()


def test_a_counter_that_begins_anew_gains_its_new_value_and_is_told() -> None:
    gained, restarted = gains(np.array([[100.0, 200.0, 30.0, 40.0]]), 10, 0.05)
    np.testing.assert_array_equal(gained, [[np.nan, 100.0, 30.0, 10.0]])
    assert restarted.tolist() == [[False, False, True, False]]


def test_a_save_is_where_the_node_writes_its_part_of_the_threshold() -> None:
    (spell,) = seen({WRITTEN: counter(during(1e9))}).spells
    assert (spell.kind, spell.start, spell.end) == (SAVE, 4 * STEP, 8 * STEP)
    assert spell.moved.tolist() == [30e9] * 4


def test_fewer_bytes_than_the_nodes_part_are_no_save() -> None:
    part = 20e9 / 63 * 0.33
    assert seen({WRITTEN: counter(during(0.9 * part))}).spells == []
    assert len(seen({WRITTEN: counter(during(1.1 * part))}).spells) == 1


def test_reads_of_busy_gpus_are_no_load() -> None:
    read = {READ: counter(during(1e9))}
    assert [spell.kind for spell in seen(read, {"GPU-a": [5.0] * CELLS}).spells] == [LOAD]
    assert seen(read, {"GPU-a": [95.0] * CELLS}).spells == []


def test_a_lost_scrape_of_busy_gpus_makes_no_load_of_what_training_reads() -> None:
    use = [95.0] * CELLS
    use[5] = float("nan")
    assert seen({READ: counter(during(1e9))}, {"GPU-a": use}).spells == []


def test_a_node_without_a_gpu_metric_may_load() -> None:
    assert [spell.kind for spell in seen({READ: counter(during(1e9))}).spells] == [LOAD]


def test_requests_in_flight_are_the_seconds_of_response_gained_in_a_second() -> None:
    rows = {
        WRITTEN: counter(during(1e9)),
        operation("requests"): counter(during(1000)),
        operation("response_time_seconds"): counter(during(100)),
        operation("response_time_seconds", "GETATTR"): counter(during(28)),
        operation("queue_time_seconds"): counter(during(900)),
    }
    (spell,) = seen(rows).spells
    assert spell.in_flight == pytest.approx(128)
    assert (spell.operations, spell.response_seconds, spell.queue_seconds) == pytest.approx((120e3, 12e3, 108e3))


def test_without_a_queue_counter_the_queue_is_what_is_left_of_the_whole() -> None:
    rows = {
        WRITTEN: counter(during(1e9)),
        operation("response_time_seconds"): counter(during(100)),
        operation("request_time_seconds"): counter(during(150)),
    }
    assert seen(rows).spells[0].queue_seconds == pytest.approx(4 * 30 * 50)


def test_mounts_of_one_server_share_its_connections() -> None:
    slots = f'{NFS}transport_maximum_rpc_slots{{export="nfs:/%s",mountaddr="10.0.0.9",protocol="tcp",transport="%d"}}'
    rows = {
        WRITTEN: counter(during(1e9)),
        operation("response_time_seconds"): counter(during(100)),
        **{slots % (export, transport): [64.0] * CELLS for export in "cd" for transport in (0, 1)},
    }
    (spell,) = seen(rows).spells
    assert (spell.slots_seen, spell.connections) == (128.0, 2)


def test_an_old_exporter_that_names_no_server_still_tells_its_slots() -> None:
    rows = {
        WRITTEN: counter(during(1e9)),
        f'{NFS}operations_response_time_seconds_total{{export="nfs:/c",operation="WRITE"}}': counter(during(100)),
        f'{NFS}transport_maximum_rpc_slots{{export="nfs:/c",protocol="tcp"}}': [64.0] * CELLS,
    }
    (spell,) = seen(rows).spells
    assert spell.in_flight == pytest.approx(100)
    assert (spell.slots_seen, spell.connections) == (64.0, 1)


def test_a_bond_and_its_ports_are_not_added_up() -> None:
    sent = {f'node_network_transmit_bytes_total{{device="{name}"}}': counter(during(1e9)) for name in ("bond0", "eth0")}
    sent['node_network_transmit_bytes_total{device="lo"}'] = counter(during(9e9))
    sight = seen(sent)
    assert sight.source[SAVE] == "network"
    assert sight.spells[0].moved.tolist() == [30e9] * 4
    assert sight.spells[0].link_rate == pytest.approx(1e9)


def test_a_port_is_held_against_its_own_speed() -> None:
    rows = {
        WRITTEN: counter(during(1e9)),
        'node_network_transmit_bytes_total{device="eth0"}': counter(during(1e9)),
        'node_network_speed_bytes{device="eth0"}': [1.25e9] * CELLS,
    }
    (spell,) = seen(rows).spells
    assert (spell.link_rate, spell.link_speed) == pytest.approx((1e9, 1.25e9))


def test_the_cpu_in_use_is_what_is_not_idle_over_all_cpus() -> None:
    idle = {f'node_cpu_seconds_total{{cpu="{n}",mode="idle"}}': counter([0.25] * CELLS) for n in range(2)}
    system = {f'node_cpu_seconds_total{{cpu="{n}",mode="system"}}': counter([0.5] * CELLS) for n in range(2)}
    (spell,) = seen({WRITTEN: counter(during(1e9)), **idle, **system}).spells
    assert (spell.cpu, spell.kernel_cpu) == pytest.approx((0.75, 0.5))


def test_what_is_not_exported_is_not_a_number() -> None:
    sight = seen({WRITTEN: counter(during(1e9))})
    (spell,) = sight.spells
    assert np.isnan([spell.in_flight, spell.queue_seconds, spell.cpu, spell.use, spell.link_rate, spell.backlog]).all()
    assert sight.told == frozenset()
    assert sight.source == {SAVE: "mountstats", LOAD: ""}


def test_quiet_responses_are_those_outside_all_stretches() -> None:
    rows = {
        WRITTEN: counter(during(1e9)),
        operation("requests"): counter(during(1000, 10)),
        operation("response_time_seconds"): counter(during(100, 0.04)),
    }
    requests, seconds = seen(rows).quiet[SAVE]
    assert seconds / requests == pytest.approx(0.004)


def test_a_node_without_any_counter_of_bytes_has_no_stretches() -> None:
    sight = seen({"node_load1": [1.0] * CELLS})
    assert (sight.spells, sight.source, sight.seen) == ([], {SAVE: "", LOAD: ""}, 0)


@pytest.mark.parametrize("name", [WRITTEN, operation("queue_time_seconds"), USE, "node_network_speed_bytes"])
def test_metrics_that_are_looked_at_are_wanted(name: str) -> None:
    assert checkpoint_cells.wanted(name)
    assert not checkpoint_cells.wanted("DCGM_FI_DEV_GPU_TEMP")


def test_the_real_names_of_node_exporter_are_known(real_data: Any) -> None:
    page = (real_data / "exposition" / "node_exporter.metrics").read_text()
    names = {line.split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
    found = {name.partition("{")[0] for name in names if checkpoint_cells.wanted(name)}
    assert {
        f"{NFS}total_write_bytes_total",
        f"{NFS}operations_queue_time_seconds_total",
        f"{NFS}transport_maximum_rpc_slots",
        f"{NFS}transport_backlog_queue_total",
        "node_infiniband_port_data_transmitted_bytes_total",
        "node_cpu_seconds_total",
    } <= found


def test_a_single_scrape_tells_the_means_since_the_mount() -> None:
    once = [float("nan")] * (CELLS - 1)
    rows = {operation(what): [level, *once] for what, level in (("requests", 100.0), ("queue_time_seconds", 6.0))}
    found = seen({**rows, operation("response_time_seconds"): [2.0, *once]})
    assert found.since_mount[SAVE] == (100.0, 6.0, 2.0)
    assert found.spells == []


def test_a_counter_below_zero_tells_no_mean() -> None:
    assert np.isnan(seen({operation("queue_time_seconds"): [-5.0] * CELLS}).since_mount[SAVE][1])
