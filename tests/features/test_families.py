import pytest

from features.families import FAMILIES, PATTERNS, family, harm, role


@pytest.mark.parametrize(
    ("metric", "expected"),
    [
        ("DCGM_FI_DEV_MEMORY_TEMP", "thermal"),
        ("DCGM_FI_DEV_POWER_USAGE", "power"),
        ("DCGM_FI_DEV_SM_CLOCK", "clocks"),
        ("DCGM_FI_DEV_FB_USED", "memory"),
        ("DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "ecc"),
        ("DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "nvlink"),
        ("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "pcie"),
        ('node_infiniband_port_data_received_bytes_total{device="mlx5_0"}', "network"),
        ('node_mountstats_nfs_operations_queue_time_seconds_total{operation="GETATTR"}', "storage"),
        ("node_procs_running", "os"),
        ("DCGM_FI_DEV_GPU_UTIL", "utilisation"),
        ("up", "presence"),
        ("logs.unknown", "logs"),
        ("history", "history"),
        ("node_netstat_TcpExt_DelayedACKLocked", "network"),
        ("node_vmstat_pgpgout", "storage"),
        ("node_vmstat_oom_kill", "memory"),
        ("node_processes_threads", "os"),
        ("SyscallRead", "other"),
    ],
)
def test_a_metrics_name_tells_its_family(metric: str, expected: str) -> None:
    assert family(metric) == expected


def test_every_family_but_other_has_a_pattern() -> None:
    assert {name for name, _ in PATTERNS} == set(FAMILIES) - {"other"}


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "fault"),
        ("node_nfs_rpc_retransmissions_total", "host"),
        ("logs.device_storage", "host"),
        ("logs.device_gpu", "fault"),
        ("logs.burst_max", "condition"),
        ("DCGM_FI_DEV_MEMORY_TEMP", "condition"),
        ("node_mountstats_nfs_operations_queue_time_seconds_total", "condition"),
        ("metric_17", "condition"),
        ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "condition"),
        ("node_network_speed_bytes", "condition"),
        ("node_vmstat_pgmajfault", "work"),
        ("node_interrupts_total", "work"),
        ("node_disk_discards_completed_total", "work"),
        ("DCGM_FI_PROF_SM_ACTIVE", "work"),
        ("logs.lines", "work"),
        ("scrape_duration_seconds", "presence"),
    ],
)
def test_a_metrics_role_is_read_from_its_name(metric: str, wanted: str) -> None:
    assert role(metric) == wanted


@pytest.mark.parametrize(
    ("metric", "known"),
    [
        ("DCGM_FI_DEV_THERMAL_VIOLATION", "fault"),
        ("DCGM_FI_DEV_RELIABILITY_VIOLATION", "fault"),
        ("DCGM_FI_DEV_POWER_VIOLATION", "work"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", "fault"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", "fault"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", "work"),
        ("DCGM_FI_DEV_SLOWDOWN_TEMP", "condition"),
        ("DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", "work"),
        ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "fault"),
    ],
)
def test_a_gpu_at_its_power_cap_is_at_work_and_one_held_back_by_heat_is_not(metric: str, known: str) -> None:
    assert role(metric) == known


@pytest.mark.parametrize(
    ("metric", "step", "calculator", "side"),
    [
        ("DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "gpu_max", "sum_values", 1),
        ("DCGM_FI_DEV_GPU_TEMP", "gpu_max", "mean", 1),
        ("DCGM_FI_DEV_GPU_TEMP", "gpu_2", "from_siblings", 1),
        ("DCGM_FI_DEV_GPU_TEMP", "gpu_max", 'linear_trend__attr_"slope"', 0),
        ("DCGM_FI_DEV_SM_CLOCK", "gpu_min", "mean", -1),
        ("DCGM_FI_DEV_SM_CLOCK", "gpu_spread", "mean", 1),
        ("DCGM_FI_DEV_PCIE_LINK_WIDTH", "gpu_0", "from_siblings", -1),
        ("DCGM_FI_DEV_CLOCK_THROTTLE_REASONS", "gpu_max", "mean", 1),
        ("node_mountstats_nfs_operations_queue_time_seconds_total", "", "sum_values", 1),
        ("DCGM_FI_DEV_POWER_USAGE", "gpu_max", "mean", 0),
        ("node_load1", "", "mean", 0),
        ("metric_17", "", "mean", 0),
    ],
)
def test_a_name_tells_on_which_side_of_the_usual_harm_lies(metric: str, step: str, calculator: str, side: int) -> None:
    assert harm(metric, step, calculator) == side
