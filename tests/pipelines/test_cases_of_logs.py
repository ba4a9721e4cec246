"""Troubles that operators report of their logs, from the export to the event: the value that is right for each."""

import lzma
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from features.tables import InputError
from pipelines import failures
from pipelines.config import Config
from pipelines.ingest import ingest
from pipelines.store import Store

CONFIG = Config()
NEW_YEAR = pd.Timestamp("2026-01-01T00:00:00Z")


class Logs:
    """One file of logs in a store of its own."""

    def __init__(self, folder: Path, text: str | bytes, name: str = "kern.log", **said: Any) -> None:
        path = folder / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        self.report = ingest(folder / "store", CONFIG, logs=[path], **said)
        self.store = Store.open(folder / "store")
        self.counts: Counter[str] = Counter()
        self.events = failures.events(self.store, CONFIG, self.counts)
        (self.input,) = self.report["inputs"]
        assert self.input["read"] == self.input["ok"] + sum(self.input["rejected"].values())

    def lines(self) -> pd.DataFrame:
        return self.store.logs(0, 4_102_444_800_000_000_000)

    def times(self) -> list[str]:
        return [time.isoformat().replace("+00:00", "Z") for time in self.lines()["time"]]

    def told(self, *columns: str) -> list[list[Any]]:
        return [[None if pd.isna(cell) else cell for cell in row] for row in self.events[list(columns)].to_numpy()]

    def failures(self) -> pd.DataFrame:
        return failures.failures(self.store, CONFIG)


def kernel(*messages: str, step: float = 60) -> str:
    """RFC 3339 lines of n1's kernel, so many seconds apart."""
    times = [NEW_YEAR + pd.Timedelta(seconds=step * place) for place in range(len(messages))]
    return "".join(
        f"{time:%Y-%m-%dT%H:%M:%S.%fZ} n1 kernel: {text}\n" for time, text in zip(times, messages, strict=True)
    )


def test_c01_a_message_as_a_byte_array(tmp_path: Path) -> None:
    words = b"NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=\xff\xfe, GPU has fallen off the bus."
    found = Logs(
        tmp_path,
        '{"__REALTIME_TIMESTAMP":"1767225600123456","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"kernel",'
        f'"MESSAGE":{list(words)}}}\n',
    )
    assert found.told("time", "pci", "xid") == [[pd.Timestamp("2026-01-01T00:00:00.123456Z"), "0000:4e:00", 79]]
    assert "name=\ufffd\ufffd," in found.lines()["message"].iloc[0]


def test_c02_a_message_that_is_null_or_missing(tmp_path: Path) -> None:
    entry = '{"__REALTIME_TIMESTAMP":"1767225600000000","_HOSTNAME":"n1"%s}\n'
    found = Logs(tmp_path, entry % ',"MESSAGE":null' + entry % "" + entry % ',"MESSAGE":"ok"')
    assert found.lines()["message"].tolist() == ["ok"]
    assert found.input["rejected"] == {"message_missing": 1, "message_null": 1}
    assert "journalctl --all" in found.input["hints"][0]


def test_c03_lines_without_a_year_over_new_year(tmp_path: Path) -> None:
    found = Logs(
        tmp_path,
        "Dec 31 23:59:58 n1 kernel: NVRM: Xid (PCI:0000:4e:00): 94, pid=10, name=a, Contained ECC error\n"
        "Jan  1 00:00:01 n1 kernel: NVRM: Xid (PCI:0000:4e:00): 79, pid=10, name=a, GPU has fallen off the bus.\n",
        reference_time=pd.Timestamp("2026-01-01T00:00:05Z"),
    )
    assert found.times() == ["2025-12-31T23:59:58Z", "2026-01-01T00:00:01Z"]


@pytest.mark.parametrize(
    ("line", "zone", "time"),
    [
        ("May  4 08:15:00", "America/New_York", "2026-05-04T12:15:00Z"),
        ("May  4 08:15:00", None, "2026-05-04T08:15:00Z"),
        ("Feb 29 12:00:00", "UTC", "2024-02-29T12:00:00Z"),
        ("Mar 29 02:30:00", "Europe/Berlin", "2026-03-29T01:30:00Z"),  # an hour that the clocks leave out
    ],
)
def test_c04_lines_without_a_zone(tmp_path: Path, line: str, zone: str | None, time: str) -> None:
    reference = pd.Timestamp("2026-06-01T00:00:00Z")
    found = Logs(tmp_path, f"{line} n1 kernel: x\n", timezone=zone, reference_time=reference)
    assert found.times() == [time]
    assert bool(found.input["hints"]) == (zone is None)


def test_c05_seconds_since_boot(tmp_path: Path) -> None:
    line = "[ 1200.250000] NVRM: Xid (PCI:0000:4e:00): 48, pid=5, name=a, DBE\n"
    assert Logs(tmp_path, line, node="n1", boot_time=NEW_YEAR).times() == ["2026-01-01T00:20:00.250000Z"]
    with pytest.raises(InputError, match="--boot-time"):
        ingest(tmp_path / "other", CONFIG, logs=[tmp_path / "kern.log"], node="n1")


@pytest.mark.parametrize("form", ["kmsg text", "three syslog lines"])
def test_c06_a_gpu_lost_in_three_lines(tmp_path: Path, form: str) -> None:
    parts = [
        "NVRM: The NVIDIA GPU 0000:5a:00.0",
        "NVRM: (PCI ID: 10de:1234) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
        "NVRM: The NVIDIA probe routine failed for 1 device(s).",
    ]
    text = kernel(*parts, step=0.3)
    if form == "kmsg text":
        text = f"[  900.100000] {parts[0]}\n     {parts[1]}\n     {parts[2]}\n[  900.200000] {parts[3]}\n"
    failure = Logs(tmp_path, text, node="n1", boot_time=NEW_YEAR).failures()
    assert failure[["pci", "xid", "kind"]].to_numpy().tolist() == [["0000:5a:00", 79, "hardware"]]


@pytest.mark.parametrize(("later", "incidents"), [(2, 1), (360, 2)])
def test_c07_a_plain_loss_near_its_xid(tmp_path: Path, later: int, incidents: int) -> None:
    lines = (
        "NVRM: Xid (PCI:0000:5a:00): 79, pid=1, name=a, GPU has fallen off the bus.",
        "NVRM: GPU 0000:5a:00.0: GPU has fallen off the bus.",
    )
    assert len(Logs(tmp_path, kernel(*lines, step=later)).failures()) == incidents


def test_c11_every_variant_of_the_driver_s_line(tmp_path: Path) -> None:
    found = Logs(
        tmp_path,
        kernel(
            "NVRM: Xid (PCI:0000:3b:00): 63, pid='<unknown>', name=<unknown>, Row remapper: new row marked",
            "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:05): 94, pid=7, name=a, Contained",
            "NVRM: Xid (PCI:0000:3b:00 GPU-I:01 GPU-CI:02): 13, pid=9, name=a b, Graphics Exception",
            "NVRM: Xid (0000:3b:00): 74, NVLink error",
            "NVRM: Xid (PCI:0000:3b:00): 9999, something new",
        ),
    )
    assert found.told("pci", "xid", "mig", "kind") == [
        ["0000:3b:00", 63, "", "degradation"],
        ["0000:3b:00", 79, "", "hardware"],
        ["0000:3b:00", 94, "gi=5", "degradation"],
        ["0000:3b:00", 13, "gi=1 ci=2", "application"],
        ["0000:3b:00", 74, "", "hardware"],
        ["0000:3b:00", 9999, "", "unknown"],
    ]


def test_c12_malformed_text(tmp_path: Path) -> None:
    found = Logs(
        tmp_path,
        kernel(
            "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from )x( to",
            "NVRM: Xid (PCI:zz:3b:00): , ",
            "NVRM: Xid (",
            "Xid",
            "NVRM: Xid (PCI:0000:3b:00): 79, x",
        ),
    )
    assert found.told("xid", "detail") == [[154, ""], [79, "x"]]
    assert found.counts["malformed"] == 3


def test_c17_nuls_and_odd_control_bytes(tmp_path: Path) -> None:
    found = Logs(
        tmp_path,
        b"2026-01-01T00:00:00Z n1 kernel: \0\0\0\0NVRM: Xid (PCI:0000:4e:00): 79, x\n"
        b"2026-01-01T00:00:01Z n1 app: a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e\x1cf\n2026-01-01T00:00:02Z n1 kernel: ok\n",
    )
    assert len(found.lines()) == 3
    assert found.told("xid") == [[79]]
    assert not found.lines()["message"].str.contains(r"[\x00-\x1f]").any()


def test_c18_an_xid_beyond_the_cut_of_a_long_line_is_said_to_be_not_scanned(tmp_path: Path) -> None:
    long = b"2026-01-01T00:00:00Z n1 app: " + b"A" * 3_000_000 + b" NVRM: Xid (PCI:0000:4e:00): 48, x\n"
    found = Logs(tmp_path, lzma.compress(long + kernel("NVRM: Xid (PCI:0000:4e:00): 79, x").encode()))
    assert found.told("xid") == [[79]]
    assert found.input["noted"] == {"truncated": 1}
    assert "not scanned" in found.input["hints"][0]


def test_c19_the_order_of_an_export_changes_nothing(tmp_path: Path) -> None:
    lines = [
        '{"labels":{"node":"n1"},"line":"b 2","timestamp":"2026-01-01T00:00:01.000000001Z"}\n',
        '{"labels":{"node":"n1"},"line":"a 2","timestamp":"2026-01-01T00:00:01.000000001Z"}\n',
        '{"labels":{"node":"n1"},"line":"a 1","timestamp":"2026-01-01T00:00:00Z"}\n',
    ]
    digests = set()
    for place, order in enumerate((lines, lines[::-1], [lines[1], lines[2], lines[0]])):
        (tmp_path / str(place)).mkdir()
        found = Logs(tmp_path / str(place), "".join(order))
        digests.add(found.store.digest())
    assert found.lines()["message"].tolist() == ["a 1", "a 2", "b 2"]
    assert found.lines()["time"].iloc[-1].nanosecond == 1
    assert len(digests) == 1


def test_a_message_wrapped_over_two_lines_is_one(tmp_path: Path) -> None:
    found = Logs(
        tmp_path,
        "[  900.100000] NVRM: Xid (PCI:0000:4e:00): 31, pid=7, name=t, Ch 00000023, intr 00000000.\n"
        "  MMU Fault: ENGINE CE0 faulted @ 0x0_0abe0000\n[  900.200000] other\n",
        node="n1",
        boot_time=NEW_YEAR,
    )
    assert found.told("xid", "detail") == [
        [31, "Ch 00000023, intr 00000000. MMU Fault: ENGINE CE0 faulted @ 0x0_0abe0000"]
    ]
    assert len(found.lines()) == 2


@pytest.mark.parametrize(
    "line",
    [
        "août 16 23:01:35 n1 kernel: %s",
        "Okt 16 23:01:35 n1 kernel: %s",
        "[Sa Aug 16 23:01:35 2025] %s",
        "[sam. août 16 23:01:35 2025] %s",
    ],
)
def test_localised_dates(tmp_path: Path, line: str) -> None:
    text = line % "NVRM: Xid (PCI:0000:4e:00): 79, x" + "\n"
    found = Logs(tmp_path, text, timezone="UTC", reference_time=NEW_YEAR, node="n1")
    assert found.told("xid") == [[79]]
    assert found.times()[0][:4] == "2025"
    assert found.times()[0].endswith("-16T23:01:35Z")


def test_gaps_in_the_numbers_of_kernel_records_are_told(tmp_path: Path) -> None:
    found = Logs(tmp_path, "4,10,250000,-;a\n4,11,260000,-;b\n4,40,270000,-;c\n", node="n1", boot_time=NEW_YEAR)
    assert found.input["noted"] == {"records missing by their numbers": 28}


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        ("Suppressed 1203 messages from kubelet.service", 1203),
        ("net_ratelimit: 7 callbacks suppressed", 7),
        ("imuxsock lost 34 messages from pid 12 due to rate-limiting", 34),
        ("imjournal: 12 messages lost due to rate-limiting", 12),
        ("the user suppressed a yawn", 0),
    ],
)
def test_messages_that_a_logger_left_out_are_told(tmp_path: Path, message: str, lost: int) -> None:
    found = Logs(tmp_path, f"2026-01-01T00:00:00Z n1 app: {message}\n")
    assert found.input["noted"].get("messages suppressed by the logger", 0) == lost


def test_c16_the_last_message_repeated_is_that_of_its_host(tmp_path: Path) -> None:
    xid = "NVRM: Xid (PCI:0000:4e:00): 92, pid=1, name=a, High single-bit ECC rate"
    text = (
        f"2026-01-01T00:00:00Z n1 kernel: {xid}\n2026-01-01T00:00:01Z n2 sshd: session opened\n"
        "2026-01-01T00:00:30Z n1 kernel: last message repeated 4 times\n"
        "2026-01-01T00:01:00Z n1 kernel: last message repeated 2 times\n"
        "2026-01-01T00:01:00Z n3 app: last message repeated 2 times\n"
    )
    found = Logs(tmp_path, text)
    assert found.told("node", "xid", "count") == [["n1", 92, 7]]
    assert found.lines()["message"].value_counts().to_dict() == {
        xid: 3,
        "session opened": 1,
        "last message repeated 2 times": 1,
    }
    assert found.input["noted"]["repeats told by syslog"] == 6


def test_an_event_of_nvml_that_tells_only_the_uuid_is_that_gpu_s(tmp_path: Path) -> None:
    """Placed by the last known map; of a GPU that no metric ever named the event is kept, two GPUs apart."""
    (tmp_path / "m").write_text(
        'm{node="n1",UUID="GPU-aaaa",pci_bus_id="00000000:4E:00.0"} 1 1767225500000\n'
        'm{node="n1",UUID="GPU-bbbb",pci_bus_id="00000000:4F:00.0"} 1 1767225500000\n'
    )
    ingest(tmp_path / "store", CONFIG, metrics=[tmp_path / "m"])
    event = '{"timestamp":"2026-01-01T00:00:00Z","node":"n1","uuid":"%s","xid":79}\n'
    found = Logs(tmp_path, "".join(event % uuid for uuid in ("GPU-bbbb", "GPU-cccc", "GPU-dddd")))
    assert sorted(found.told("gpu", "pci", "xid")) == [
        ["GPU-bbbb", "0000:4f:00", 79],
        ["GPU-cccc", "", 79],
        ["GPU-dddd", "", 79],
    ]


def test_c13_an_event_of_nvml_in_json_is_told_by_its_code_and_zero_is_none(tmp_path: Path) -> None:
    event = (
        '{"timestamp":"2026-01-01T00:00:%02dZ","node":"n1","source":"watcher","pciBusId":"00000000:4E:00.0","xid":%d}\n'
    )
    found = Logs(tmp_path, event % (0, 0) + event % (1, 79) + event % (2, 0))
    assert found.told("time", "node", "pci", "xid") == [[pd.Timestamp("2026-01-01T00:00:01Z"), "n1", "0000:4e:00", 79]]
    assert found.counts["zero"] == 2


def test_c13_a_transaction_of_a_database_is_no_xid(tmp_path: Path) -> None:
    found = Logs(tmp_path, '{"timestamp":"2026-01-01T00:00:00Z","node":"n1","message":"commit","xid":79}\n')
    assert found.events.empty


def test_c13_an_event_in_json_keeps_its_words(tmp_path: Path) -> None:
    text = '{"time":"2026-01-01T00:00:00Z","host":"n1","msg":"row remap failed","xid":"64","pci":"0000:4e:00"}\n'
    assert Logs(tmp_path, text).told("xid", "detail") == [[64, "row remap failed"]]
