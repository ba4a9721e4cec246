import pytest

from features.device_lines import CLASSES, NONE, device_class


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("NVRM: GPU 0000:1b:00.0: RPC timeout", "gpu"),
        ("nvidia 0000:9a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)", "gpu"),
        ("nvme 0000:e3:00.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)", "storage"),
        ("pcieport 0000:80:01.0: AER: Corrected error message received", "bus"),
        ("EDAC MC0: 1 CE memory read error on CPU_SrcID#0", "memory"),
        ("mlx5_core 0000:0c:00.0: Port module event: High temperature", "fabric"),
        ("nvme nvme0: I/O error", "storage"),
        ("INFO: task python:4711 blocked for more than 120 seconds.", "waits"),
        ("NFS: server storage-1 not responding, still trying", "storage"),
        ("ipmi_si IPI0001:00: KCS in invalid state 9", "heat"),
        ("watchdog: BUG: soft lockup - CPU#3 stuck for 22s!", "waits"),
    ],
)
def test_a_line_is_of_the_device_whose_driver_speaks_whatever_it_complains_of(line: str, expected: str) -> None:
    assert [list(CLASSES)[number] for number in device_class([line])] == [expected]


@pytest.mark.parametrize(
    "line",
    [
        "Accepted publickey for ops from 10.0.0.1 port 22",
        "(root) CMD (run-parts /etc/cron.hourly)",
        "Received disconnect from 10.0.0.1: disconnected by user",
        "checkpoint job=7 written in 12s",
        "python[12]: segfault at 0 ip 00007f error 4 in libc.so.6",
    ],
)
def test_sessions_services_and_jobs_name_none(line: str) -> None:
    assert device_class([line]).tolist() == [NONE]


def test_no_text_names_nothing() -> None:
    assert device_class([]).tolist() == []
