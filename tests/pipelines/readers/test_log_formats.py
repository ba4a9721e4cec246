"""The same lines through every reader of logs are the same table, and the same store."""

import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
import zstandard

from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.store import Store

BOOT = pd.Timestamp("2026-01-01T00:00:00Z")
LINES = [  # milliseconds since boot, program, text
    (250, "kernel", "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=a, GPU has fallen off the bus."),
    (1_000, "sshd", 'Accepted "publickey" for root from 10.0.0.7 port 22; \\ back'),
    (1_000, "sshd", "session opened"),
    (61_500, "kernel", "mlx5_core 0000:1a:00.0: Port module event: module 0, Cable plugged"),
]
KERNEL = [line for line in LINES if line[1] == "kernel"]
Line = tuple[int, str, str]


def when(milliseconds: int) -> pd.Timestamp:
    return BOOT + pd.Timedelta(milliseconds=milliseconds)


def stamp(milliseconds: int) -> str:
    return f"{when(milliseconds):%Y-%m-%dT%H:%M:%S.%f}"


def nanoseconds(milliseconds: int) -> str:
    return str(when(milliseconds).as_unit("ns").value)


def each(write: Callable[[int, str, str], object], lines: list[Line] = LINES) -> str:
    """One line of the export for each line of the log."""
    return "".join(
        text if isinstance(text := write(*line), str) and text.endswith("\n") else json.dumps(text) + "\n"
        for line in lines
    )


def journal(ms: int, tag: str, text: str) -> dict[str, object]:
    return {
        "__REALTIME_TIMESTAMP": nanoseconds(ms)[:-3], "_HOSTNAME": "n1", "SYSLOG_IDENTIFIER": tag, "MESSAGE": text,
        "_TRANSPORT": "kernel" if tag == "kernel" else "syslog",
    }  # fmt: skip


def bytes_journal(ms: int, tag: str, text: str) -> dict[str, object]:
    return {**journal(ms, tag, text), "MESSAGE": list(text.encode())}


def elastic(ms: int, tag: str, text: str) -> dict[str, object]:
    source = {"@timestamp": f"{stamp(ms)}Z", "message": text, "host": {"name": "n1"}, "process": {"name": tag}}
    return {"_index": "logs", "_id": str(ms), "_source": source}


def loki_answer() -> str:
    streams = [
        {
            "stream": {"node": "n1", "app": tag},
            "values": [[nanoseconds(ms), text] for ms, one, text in LINES if one == tag],
        }
        for tag in ("kernel", "sshd")
    ]
    return json.dumps({"status": "success", "data": {"resultType": "streams", "result": streams}})


WHOLE: dict[str, str] = {
    "journald": each(journal),
    "journald with bytes": each(bytes_journal),
    "journald for browsers": "".join(f"data: {json.dumps(journal(*line))}\n\n" for line in LINES),
    "json-seq": "".join(f"\x1e{json.dumps(journal(*line))}\n" for line in LINES),
    "RFC 3339": each(lambda ms, tag, text: f"{stamp(ms)}Z n1 {tag}: {text}\n"),
    "RFC 3339 of another zone": each(
        lambda ms, tag, text: f"{when(ms).tz_convert('Asia/Shanghai').isoformat()} n1.example.net {tag}[7]: {text}\n"
    ),
    "RFC 3339, ends of Windows": each(lambda ms, tag, text: f"{stamp(ms)}Z n1 {tag}: {text}\r\n"),
    "RFC 5424": each(lambda ms, tag, text: f'<14>1 {stamp(ms)}Z n1 {tag} 7 - [a b="c"] {text}\n'),
    "RFC 3164": each(lambda ms, tag, text: f"{when(ms):%b} {when(ms).day:2} {stamp(ms)[11:]} n1 {tag}: {text}\n"),
    "logcli": each(
        lambda ms, tag, text: {"labels": {"node": "n1", "app": tag}, "line": text, "timestamp": f"{stamp(ms)}Z"}
    ),
    "Loki's API": loki_answer(),
    "Vector": each(lambda ms, tag, text: {"host": "n1", "message": text, "timestamp": f"{stamp(ms)}Z", "appname": tag}),
    "Fluent Bit": each(
        lambda ms, tag, text: {"date": when(ms).timestamp(), "log": f"{text}\n", "hostname": "n1", "ident": tag}
    ),
    "elasticdump": each(elastic),
    "Elasticsearch": json.dumps({"took": 1, "hits": {"total": 4, "hits": [elastic(*line) for line in LINES]}}),
}
OF_KERNEL: dict[str, str] = {
    "dmesg": each(lambda ms, _, text: f"[{ms / 1000:12.6f}] {text}\n", KERNEL),
    "dmesg -x": each(lambda ms, _, text: f"kern  :warn  : [{ms / 1000:12.6f}] {text}\n", KERNEL),
    "dmesg, ISO": each(lambda ms, _, text: f"{stamp(ms).replace('.', ',')}+00:00 {text}\n", KERNEL),
    "kmsg": each(lambda ms, _, text: f"4,{ms},{ms * 1000},-;{text}\n", KERNEL),
    "journald": each(journal, KERNEL),
    "RFC 3339": each(lambda ms, tag, text: f"{stamp(ms)}Z n1 {tag}: {text}\n", KERNEL),
}


def table(folder: Path, content: bytes) -> list[list[object]]:
    folder.mkdir(exist_ok=True)
    (folder / "export").write_bytes(content)
    reference = pd.Timestamp("2026-01-02T00:00:00Z")
    said = {"reference_time": reference, "boot_time": BOOT, "node": "n1", "timezone": "UTC"}
    (item,) = ingest(folder / "store", Config(), logs=[folder / "export"], **said)["inputs"]  # type: ignore[arg-type]  # options of several types
    assert item["read"] == item["ok"] + sum(item["rejected"].values())
    frame = Store.open(folder / "store").logs(0, 4_102_444_800_000_000_000)
    return sorted(frame[["time", "node", "source", "message", "kernel", "count"]].to_numpy().tolist())


def wanted(lines: list[Line]) -> list[list[object]]:
    return sorted([when(ms), "n1", tag, text, tag == "kernel", 1] for ms, tag, text in lines)


@pytest.mark.parametrize("name", WHOLE)
def test_every_format_gives_the_same_table(tmp_path: Path, name: str) -> None:
    assert table(tmp_path, WHOLE[name].encode()) == wanted(LINES)


@pytest.mark.parametrize("name", OF_KERNEL)
def test_every_format_of_the_kernel_gives_the_same_table(tmp_path: Path, name: str) -> None:
    assert table(tmp_path, OF_KERNEL[name].encode()) == wanted(KERNEL)


def test_container_logs_give_the_same_words_and_times(tmp_path: Path) -> None:
    text = each(lambda ms, _, text: f"{stamp(ms)}Z stdout F {text}\n")
    assert [[row[0], row[3]] for row in table(tmp_path, text.encode())] == [[row[0], row[3]] for row in wanted(LINES)]


def test_dmesg_t_gives_the_same_words_at_whole_seconds(tmp_path: Path) -> None:
    text = each(lambda ms, _, text: f"[{when(ms):%a %b %d %H:%M:%S %Y}] {text}\n", KERNEL)
    rows = table(tmp_path, text.encode())
    assert [row[3] for row in rows] == [row[3] for row in wanted(KERNEL)]
    assert [row[0] for row in rows] == [when(0), when(61_000)]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress])
def test_packed_files_give_the_same_table(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    assert table(tmp_path, pack(WHOLE["RFC 3339"].encode())) == wanted(LINES)


def test_a_rotated_set_gives_the_same_table(tmp_path: Path) -> None:
    lines = WHOLE["RFC 3339"].splitlines(keepends=True)
    folder = tmp_path / "log"
    folder.mkdir()
    (folder / "syslog.2.gz").write_bytes(gzip.compress(lines[0].encode()))
    (folder / "syslog.1").write_text(lines[1])
    (folder / "syslog").write_text("".join(lines[2:]))
    ingest(tmp_path / "store", Config(), logs=[folder])
    frame = Store.open(tmp_path / "store").logs(0, 4_102_444_800_000_000_000)
    assert sorted(frame["message"]) == sorted(text for _, _, text in LINES)
