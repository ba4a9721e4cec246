"""The kernel's own account of its NFS mounts."""

from pathlib import Path

import pytest

from pipelines.readers import exposition, mountstats
from pipelines.readers.metrics import recognise_metrics
from pipelines.readers.samples import ReadContext, SampleChunk
from pipelines.readers.tally import Tally

TEXT = """device rootfs mounted on / with fstype rootfs
device nfs1:/ckpt mounted on /ckpt with fstype nfs4 statvers=1.1
	opts:	rw,vers=4.1,proto=tcp,mountaddr=10.0.0.9,local_lock=none
	age:	100
	bytes:	1 2 3 4 5 6 7 8
	xprt:	tcp 832 0 1 0 11 64 63 0 12154 40 128 26 57
	xprt:	tcp 833 0 1 0 11 32 31 0 12154 20 127 13 28
	per-op statistics
		WRITE: 10 12 1 1000 2000 9000 700 9800
"""
AT = ReadContext(reference_ns=1_767_225_600_000_000_000)
Found = dict[tuple[tuple[str, str], ...], float]


def values(chunks: list[SampleChunk], **labels: str) -> Found:
    return {
        tuple(sorted(chunk.labels.items())): float(chunk.values[0])
        for chunk in chunks
        if labels.items() <= chunk.labels.items()
    }


def taken(tmp_path: Path, text: str, context: ReadContext = AT) -> tuple[list[SampleChunk], Tally]:
    path = tmp_path / "mountstats"
    path.write_text(text)
    tally = Tally()
    return list(mountstats.read(path, tally, context)), tally


def named(chunks: list[SampleChunk], name: str, **labels: str) -> list[float]:
    return list(values(chunks, __name__=f"node_mountstats_nfs_{name}", **labels).values())


def test_the_text_is_recognised() -> None:
    assert recognise_metrics(TEXT.encode()) == "mountstats"


def test_times_of_an_operation_are_seconds(tmp_path: Path) -> None:
    chunks, _ = taken(tmp_path, TEXT)
    assert named(chunks, "operations_queue_time_seconds_total", operation="WRITE") == [9.0]
    assert named(chunks, "operations_response_time_seconds_total", operation="WRITE") == [0.7]
    assert named(chunks, "operations_requests_total", operation="WRITE") == [10.0]


def test_each_connection_of_a_mount_has_its_own_slots(tmp_path: Path) -> None:
    chunks, _ = taken(tmp_path, TEXT)
    assert named(chunks, "transport_maximum_rpc_slots", transport="0") == [128.0]
    assert named(chunks, "transport_maximum_rpc_slots", transport="1") == [127.0]


def test_an_rdma_connection_tells_its_backlog_and_no_slots(tmp_path: Path) -> None:
    stream = "xprt:\ttcp 832 0 1 0 11 64 63 0 12154 40 128 26 57"
    rdma = TEXT.replace(stream, "xprt: rdma 0 0 1 0 11 64 63 0 12154 41 9 9")
    chunks, _ = taken(tmp_path, rdma)
    assert named(chunks, "transport_backlog_queue_total", protocol="rdma") == [41.0]
    assert named(chunks, "transport_maximum_rpc_slots", protocol="rdma") == []


def test_without_a_time_nothing_is_kept_and_the_cure_is_said(tmp_path: Path) -> None:
    chunks, tally = taken(tmp_path, TEXT, ReadContext())
    assert chunks == []
    assert tally.rejected["no timestamp"] == tally.read > 0
    assert "--reference-time" in tally.hints[0]


def test_a_second_mount_of_one_export_is_counted_once(tmp_path: Path) -> None:
    mount = TEXT[TEXT.index("device nfs1") :]
    chunks, tally = taken(tmp_path, TEXT + mount.replace("mounted on /ckpt", "mounted on /again"))
    assert named(chunks, "read_bytes_total") == [1.0]
    assert len(named(chunks, "mountpoint_info")) == 2
    assert tally.noted["mount shown twice"] == 1


def test_a_broken_number_is_counted_and_the_rest_is_read(tmp_path: Path) -> None:
    chunks, tally = taken(tmp_path, TEXT.replace("age:	100", "age:	-"))
    assert tally.rejected == {"broken number": 1}
    assert named(chunks, "read_bytes_total") == [1.0]


def test_a_cut_text_gives_what_came_before(tmp_path: Path) -> None:
    chunks, _ = taken(tmp_path, TEXT[: TEXT.index("per-op")])
    assert named(chunks, "total_write_bytes_total") == [6.0]
    assert named(chunks, "operations_requests_total") == []


@pytest.mark.parametrize("torn", ["device", "device a mounted on b with fstype nfs4 statvers=1.1\n\txprt:", "\0\xff"])
def test_no_scrap_of_text_breaks_the_reader(tmp_path: Path, torn: str) -> None:
    chunks, _ = taken(tmp_path, torn)
    assert named(chunks, "read_bytes_total") == []


def test_a_real_text_reads_as_node_exporter_shows_it(real_data: Path) -> None:
    text, page = real_data / "kernel" / "proc_mountstats.txt", real_data / "exposition" / "node_exporter.metrics"
    mine = values(list(mountstats.read(text, tally := Tally(), AT)), operation="READ")
    theirs = values(list(exposition.read(page, Tally(), AT)), operation="READ", protocol="tcp")
    assert mine == theirs
    assert len(mine) == 8
    mine = values(list(mountstats.read(text, Tally(), AT)), transport="0")
    theirs = values(list(exposition.read(page, Tally(), AT)), transport="0", protocol="tcp")
    assert mine == {key: value for key, value in theirs.items() if dict(key)["__name__"].startswith("node_mountstats")}
    assert tally.noted["count below zero"] == 1
