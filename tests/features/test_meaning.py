import pytest

from features import meaning
from features.settings import PanelSettings


@pytest.mark.parametrize(
    ("metric", "kind"),
    [
        ("node_intr_total", "counter"),
        ("node_vmstat_pgpgout", "counter"),
        ("node_vmstat_nr_free_pages", "gauge"),
        ("node_vmstat_nr_vmscan_write", "counter"),
        ("node_vmstat_nr_vmscan_immediate_reclaim", "counter"),
        ("node_vmstat_nr_foll_pin_acquired", "counter"),
        ("node_vmstat_workingset_nodes", "gauge"),
        ("node_netstat_Tcp_RetransSegs", "counter"),
        ("node_netstat_Tcp_CurrEstab", "gauge"),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter"),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter"),
        ("DCGM_FI_DEV_ROW_REMAP_FAILURE", "counter"),
        ("nvidia_smi_remapped_rows_pending", "counter"),
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter"),
        ("DCGM_FI_DEV_POWER_VIOLATION", "counter"),
        ("DCGM_FI_DEV_POWER_USAGE", "gauge"),
        ('http_seconds_bucket{le="1"}', "counter"),
        ("node_load1", "gauge"),
        ("cpu_r", "gauge"),
    ],
)
def test_a_name_tells_a_counter_from_a_gauge(metric: str, kind: str) -> None:
    assert meaning.kind(metric, PanelSettings()) == kind


def test_the_settings_have_the_last_word() -> None:
    settings = PanelSettings(counters=("replays.*",), gauges=("odd_total",))
    assert meaning.kind('replays{link="1"}', settings) == "counter"
    assert meaning.kind("odd_total", settings) == "gauge"


@pytest.mark.parametrize(
    "metric",
    ["DCGM_FI_DEV_XID_ERRORS", "nvidia_xid_total", 'gpu_errors{kind="Xid 79"}', "DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"],
)
def test_a_metric_or_label_that_names_the_failure_is_the_target(metric: str) -> None:
    assert meaning.is_target(metric)


def test_every_rule_says_why() -> None:
    assert all(rule.why for rule in (*meaning.GAUGES, *meaning.COUNTERS, *meaning.BOUNDS))


def test_no_counter_has_the_bound_of_a_gauge() -> None:
    counters = (
        *(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{what}_NS" for what in ("SW_POWER_CAP", "HW_POWER_BRAKE_SLOWDOWN")),
        *(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{what}_NS" for what in ("SYNC_BOOST", "SW_THERM_SLOWDOWN")),
        *(f"DCGM_FI_DEV_{what}_VIOLATION" for what in ("POWER", "THERMAL", "BOARD_LIMIT", "LOW_UTIL")),
        "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
        "DCGM_FI_DEV_PCIE_REPLAY_COUNTER",
    )
    for metric in counters:
        assert meaning.kind(metric, PanelSettings()) == "counter", metric
        assert meaning.bounds(metric, PanelSettings()) is None, metric
