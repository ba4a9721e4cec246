import pytest

from features.device_lines import names_device


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU 0000:1b:00.0: RPC timeout",
        "pcieport 0000:80:01.0: AER: Corrected error message received",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0",
        "mlx5_core 0000:0c:00.0: Port module event: High temperature",
        "nvme nvme0: I/O error",
        "INFO: task python:4711 blocked for more than 120 seconds.",
        "NFS: server storage-1 not responding, still trying",
    ],
)
def test_what_the_fields_watchers_look_for_names_a_device(line: str) -> None:
    assert names_device([line]).tolist() == [True]


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
    assert names_device([line]).tolist() == [False]


def test_no_text_names_nothing() -> None:
    assert names_device([]).tolist() == []
