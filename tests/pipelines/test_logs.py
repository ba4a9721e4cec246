"""Log files of every format to one table."""

import gzip
import lzma
import os
import tracemalloc
from pathlib import Path
from unittest.mock import patch

import orjson
import pandas as pd
import pytest
import zstandard

from features.tables import LOGS, InputError, check
from pipelines.readers import documents, lines, logs
from pipelines.readers.context import LogContext
from pipelines.readers.logs import read_logs, recognise_log
from pipelines.readers.tally import Tally

NEW_YEAR = pd.Timestamp("2026-01-01T00:00:00Z")
DEFAULT = LogContext(timezone="UTC", reference_time=pd.Timestamp("2026-02-01T00:00:00Z"), boot_time=NEW_YEAR, node="n1")


class Read:
    """A file's lines and what became of them."""

    def __init__(self, folder: Path, content: str | bytes, context: LogContext = DEFAULT, name: str = "x.log") -> None:
        path = folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        self.tally = Tally()
        frames = list(read_logs(path, context, self.tally))
        self.frame = check(pd.concat(frames, ignore_index=True) if frames else LOGS.empty(), LOGS)
        assert self.tally.read == self.tally.ok + sum(self.tally.rejected.values())

    def column(self, name: str) -> list[object]:
        return list(self.frame[name])

    def times(self) -> list[str]:
        return [time.isoformat() for time in self.frame["time"]]


LINE = "NVRM: Xid (PCI:0000:4e:00): 79, pid=1, name=a, GPU has fallen off the bus."
FORMATS = {
    "journald": '{"__REALTIME_TIMESTAMP":"1767225600250000","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"kernel",'
    '"MESSAGE":"%s"}',
    "rfc3339": "2026-01-01T00:00:00.250000+00:00 n1 kernel: %s",
    "rfc3339-other-zone": "2025-12-31T19:00:00.250-05:00 n1 kernel: [  885.242168] %s",
    "short-iso": "2026-01-01T00:00:00.250000+0000 n1.example.net kernel: %s",
    "rfc3164": "Jan  1 00:00:00.250 n1 kernel: [  885.242168] %s",
    "rfc3164-priority": "<4>Jan  1 00:00:00.250 n1 kernel: [ T1946] %s",
    "rfc5424": "<4>1 2026-01-01T00:00:00.250Z n1 kernel - - - %s",
    "rfc5424-data": '<4>1 2026-01-01T00:00:00.250Z n1 kernel - - [x@1 a="b\\]c"][y] %s',
    "dmesg": "[    0.250000] %s",
    "dmesg-x": "kern  :warn  : [    0.250000] %s",
    "dmesg-iso": "kern  :warn  : 2026-01-01T00:00:00,250000+00:00 %s",
    "kmsg": "4,3964,250000,-;%s",
    "loki": '{"labels":{"node":"n1","transport":"kernel"},"line":"%s","timestamp":"2026-01-01T00:00:00.25Z"}',
    "vector": '{"host":"n1","message":"%s","timestamp":"2026-01-01T00:00:00.25Z","SYSLOG_IDENTIFIER":"kernel"}',
    "fluent-bit": '{"date":1767225600.25,"log":"%s\\n","hostname":"n1","ident":"kernel"}',
    "generic": '{"timestamp":"2026-01-01T00:00:00.250Z","host":"n1","source":"kernel","message":"%s"}',
    "elastic": '{"_index":"a","_source":{"@timestamp":"2026-01-01T00:00:00.250Z","message":"%s","host":{"name":"n1"},'
    '"process":{"name":"kernel"}}}',
    "elastic-flat": '{"_index":"a","_source":{"@timestamp":1767225600250,"message":"%s","host.name":"n1",'
    '"syslog.identifier":"kernel"}}',
    "elastic-search": '{"took":1,"hits":{"total":1,"hits":[{"_source":{"@timestamp":"2026-01-01T00:00:00.250Z",'
    '"message":"%s","host":{"name":"n1"},"program":"kernel"}}]}}',
    "loki-api": '{"status":"success","data":{"resultType":"streams","result":[{"stream":{"node":"n1","app":"kernel"},'
    '"values":[["1767225600250000000","%s"]]}]}}',
}


@pytest.mark.parametrize("name", FORMATS)
def test_one_line_reads_the_same_in_every_format(name: str, tmp_path: Path) -> None:
    found = Read(tmp_path, FORMATS[name] % LINE + "\n")
    assert found.frame.drop(columns="severity").to_numpy().tolist() == [
        ["n1", pd.Timestamp("2026-01-01T00:00:00.25Z"), "kernel", LINE, True, 1]
    ]


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress, zstandard.ZstdCompressor().compress])
def test_packed_files_are_known_by_their_first_bytes(pack: object, tmp_path: Path) -> None:
    assert callable(pack)
    assert len(Read(tmp_path, pack(b"2026-01-01T00:00:00Z n1 app: a\n")).frame) == 1


def test_what_is_no_log_is_not_recognised() -> None:
    assert recognise_log(b'{"metric":{"__name__":"up"},"values":[1],"timestamps":[1767225600000]}\n') is None
    assert recognise_log(b"time,node,xid\n2026-01-01,n1,79\n") is None
    assert recognise_log(b"") is None


def test_a_file_of_no_known_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no log format"):
        Read(tmp_path, "once upon a time\n")


def test_a_journal_message_of_bytes_is_text(tmp_path: Path) -> None:
    line = '{"__REALTIME_TIMESTAMP":"1767225600123456","_HOSTNAME":"n1","MESSAGE":[97,255,254]}'
    found = Read(tmp_path, line)
    assert found.column("message") == ["a\ufffd\ufffd"]
    assert found.times() == ["2026-01-01T00:00:00.123456+00:00"]


def test_journal_entries_without_text_are_counted_and_the_cure_is_said(tmp_path: Path) -> None:
    found = Read(
        tmp_path,
        '{"__REALTIME_TIMESTAMP":"1767225600000000","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"app","MESSAGE":null}\n'
        '{"__REALTIME_TIMESTAMP":"1767225601000000","_HOSTNAME":"n1","_PID":"1"}\n'
        '{"__REALTIME_TIMESTAMP":"1767225602000000","_HOSTNAME":"n1","SYSLOG_IDENTIFIER":"kernel","MESSAGE":"ok"}\n',
    )
    assert found.column("message") == ["ok"]
    assert found.tally.rejected == {"message_null": 1, "message_missing": 1}
    assert "journalctl --all" in found.tally.hints[0]


def test_a_program_named_kernel_is_not_the_kernel(tmp_path: Path) -> None:
    line = (
        '{"__REALTIME_TIMESTAMP":"1767225600000000","_HOSTNAME":"n1","_TRANSPORT":"syslog",'
        '"SYSLOG_IDENTIFIER":"kernel","MESSAGE":"x"}'
    )
    assert Read(tmp_path, line).column("kernel") == [False]


def test_lines_without_a_year_stay_near_each_other_over_new_year(tmp_path: Path) -> None:
    context = LogContext(reference_time=pd.Timestamp("2026-01-01T00:00:05Z"))
    found = Read(tmp_path, "Dec 31 23:59:58 n1 kernel: a\nJan  1 00:00:01 n1 kernel: b\n", context)
    assert found.times() == ["2025-12-31T23:59:58+00:00", "2026-01-01T00:00:01+00:00"]


@pytest.mark.parametrize(
    ("lines", "reference", "years"),
    [
        ("Dec 31 23:59:58 n1 app: a\nJan  1 00:00:01 n1 app: b\n", None, "2025 and 2026"),
        ("Jan  1 00:00:01 n1 app: b\n", pd.Timestamp("2026-01-05T00:00:00Z"), ""),
        ("Jan  1 2024 00:00:01 n1 app: b\n", None, ""),
    ],
    ids=["guessed", "said by the user", "written"],
)
def test_a_year_that_was_guessed_is_said(
    tmp_path: Path, lines: str, reference: pd.Timestamp | None, years: str
) -> None:
    path = tmp_path / "syslog"
    path.write_text(lines)
    os.utime(path, (1_767_312_000, 1_767_312_000))  # 2026-01-02
    tally = Tally()
    list(read_logs(path, LogContext(timezone="UTC", reference_time=reference), tally))
    said = f"times without a year were read as of {years}, by when the file was last written"
    assert [hint.partition(";")[0] for hint in tally.hints] == [said] * bool(years)


def test_a_29_february_without_a_year_is_in_the_last_leap_year(tmp_path: Path) -> None:
    assert Read(tmp_path, "Feb 29 12:00:00 n1 kernel: a\n").times() == ["2024-02-29T12:00:00+00:00"]


def test_local_times_are_read_in_the_zone_that_is_said(tmp_path: Path) -> None:
    context = LogContext(timezone="America/New_York", reference_time=pd.Timestamp("2026-06-01T00:00:00Z"))
    assert Read(tmp_path, "May  4 08:15:00 n1 kernel: x\n", context).times() == ["2026-05-04T12:15:00+00:00"]


@pytest.mark.parametrize(
    "line",
    [
        "Oct 26 02:{}:00 n1 app: {}\n",
        "2025-10-26T02:{}:00 n1 app: {}\n",
        "Oct 26 2025 02:{}:00 n1 app: {}\n",
        "[Sun Oct 26 02:{}:00 2025] {}\n",
    ],
    ids=["without year", "iso", "with year", "dmesg -T"],
)
def test_the_hour_that_comes_twice_is_told_by_the_order(tmp_path: Path, line: str) -> None:
    reference = pd.Timestamp("2025-11-01T00:00:00Z")
    context = LogContext(timezone="Europe/Berlin", reference_time=reference, node="n1")
    lines = "".join(line.format(minute, place) for place, minute in enumerate(["10", "50", "05", "55"]))
    assert [time[11:16] for time in Read(tmp_path, lines, context).times()] == ["00:10", "00:50", "01:05", "01:55"]


def test_without_a_zone_utc_is_taken_and_said(tmp_path: Path) -> None:
    found = Read(tmp_path, "May  4 08:15:00 n1 kernel: x\n", LogContext())
    assert found.times()[0].endswith("08:15:00+00:00")
    assert "--timezone" in found.tally.hints[0]


@pytest.mark.parametrize("month", ["aug", "Aug", "août", "ago", "авг"])
def test_months_are_read_in_other_languages(month: str, tmp_path: Path) -> None:
    assert Read(tmp_path, f"{month} 16 23:01:35 n1 kernel: x\n").times() == ["2025-08-16T23:01:35+00:00"]


def test_seconds_since_boot_need_the_boot_time(tmp_path: Path) -> None:
    line = "[ 1200.250000] NVRM: x\n"
    assert Read(tmp_path, line).times() == ["2026-01-01T00:20:00.250000+00:00"]
    with pytest.raises(InputError, match="--boot-time"):
        Read(tmp_path, line, LogContext(node="n1"))


def test_dmesg_needs_a_node(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--node"):
        Read(tmp_path, "[ 1200.250000] NVRM: x\n", LogContext(boot_time=NEW_YEAR))


def test_dmesg_t_is_read_and_called_inexact(tmp_path: Path) -> None:
    found = Read(tmp_path, "[Fri Aug 30 11:43:09 2024] NVRM: x\n")
    assert found.times() == ["2024-08-30T11:43:09+00:00"]
    assert "dmesg -T" in found.tally.hints[0]


def test_a_dmesg_record_of_several_lines_is_one(tmp_path: Path) -> None:
    found = Read(tmp_path, "[  900.100000] NVRM: a\n               NVRM: b\n[  900.200000] c\n")
    assert found.column("message") == ["NVRM: a NVRM: b", "c"]


def test_a_repeat_told_by_syslog_is_counted(tmp_path: Path) -> None:
    found = Read(
        tmp_path,
        "2026-01-01T00:00:00Z n1 kernel: x [y]\n2026-01-01T00:00:30Z n1 kernel: message repeated 4 times: [ x [y]]\n",
    )
    assert found.frame[["message", "count"]].to_numpy().tolist() == [["x [y]", 1], ["x [y]", 4]]


def test_equal_lines_are_one_row_with_a_count(tmp_path: Path) -> None:
    found = Read(tmp_path, "2026-01-01T00:00:00Z n1 app: a\n" * 120_000)
    assert found.column("count") == [120_000]


def test_only_newlines_end_lines_and_control_bytes_are_gone(tmp_path: Path) -> None:
    found = Read(
        tmp_path,
        b"2026-01-01T00:00:00Z n1 kernel: \0\0\0\0NVRM: x\n"
        b"2026-01-01T00:00:01Z n1 app: a\x0bb\x0cc\xc2\x85d\xe2\x80\xa8e\x1cf\x1b[31mg\x1b[0m\n"
        b"2026-01-01T00:00:02Z n1 kernel: ok\xff\r\n",
    )
    assert found.column("message") == ["NVRM: x", "a b c d e fg", "ok\ufffd"]


def test_a_line_of_megabytes_is_cut_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "long.log"
    text = "\u00e9".encode() * 25_000_000
    path.write_bytes(b"2026-01-01T00:00:00Z n1 app: " + text + b"\n2026-01-01T00:00:01Z n1 app: b\n")
    tally = Tally()
    tracemalloc.start()
    frames = list(read_logs(path, DEFAULT, tally))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    messages = list(pd.concat(frames)["message"])
    assert messages[1] == "b"
    assert len(messages[0].encode()) <= 1 << 20
    assert "\ufffd" not in messages[0]
    assert tally.noted["truncated"] == 1
    assert "not scanned" in tally.hints[0]
    assert peak < 64 << 20


def test_nanoseconds_and_equal_times_of_loki_are_kept_in_any_order(tmp_path: Path) -> None:
    lines = [
        '{"labels":{"node":"n1"},"line":"b 2","timestamp":"2026-01-01T00:00:01.000000001Z"}',
        '{"labels":{"node":"n1"},"line":"a 2","timestamp":"2026-01-01T00:00:01.000000001Z"}',
        '{"labels":{"node":"n1"},"line":"a 1","timestamp":"2026-01-01T00:00:00Z"}',
    ]
    tables = [
        Read(tmp_path, "\n".join(order)).frame.sort_values(["time", "message"], ignore_index=True)
        for order in (lines, lines[::-1])
    ]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert tables[0]["time"].iloc[1].value % 10 == 1


def test_a_default_limit_of_loki_is_pointed_out(tmp_path: Path) -> None:
    line = '{"labels":{"node":"n1"},"line":"%d","timestamp":"2026-01-01T00:00:00Z"}\n'
    assert "--limit" in Read(tmp_path, "".join(line % place for place in range(30))).tally.hints[0]


def test_parts_of_a_container_s_line_are_joined(tmp_path: Path) -> None:
    found = Read(
        tmp_path,
        "2026-01-01T00:00:00.123Z stdout P one \n2026-01-01T00:00:00.123Z stderr F other\n"
        "2026-01-01T00:00:00.124Z stdout F two\n",
        name=f"pod_ns_train-{'0' * 64}.log",
    )
    assert found.frame[["source", "message"]].to_numpy().tolist() == [["train", "other"], ["train", "one two"]]


def test_the_parts_of_a_line_that_ends_in_the_next_file_are_a_line(tmp_path: Path) -> None:
    found = Read(tmp_path, "2026-01-01T00:00:00.1Z stdout P one \n2026-01-01T00:00:00.2Z stdout P two\n")
    assert found.frame["message"].tolist() == ["one two"]
    assert (found.tally.ok, found.tally.noted) == (2, {"line without its last part": 1})


def test_what_can_t_be_read_is_counted_by_reason(tmp_path: Path) -> None:
    found = Read(
        tmp_path,
        '{"timestamp":"2026-01-01T00:00:00Z","host":"n1","message":"ok"}\n'
        '{"timestamp":"never","host":"n1","message":"m"}\n'
        '{"timestamp":"1970-01-01T00:00:09Z","host":"n1","message":"m"}\n{broken\n[]\n\n{"host":"n1","message":"m"}\n'
        '{"timestamp":"2026-01-01T00:00:00Z","host":"n1"}\n'
        '{"timestamp":"2026-01-01T00:00:00Z","host":"n1","message":" "}\n',
    )
    assert found.tally.rejected == {
        "no time stamp": 1, "time before 2000": 1, "not JSON": 1, "not a JSON object": 1, "blank line": 1, "no time": 1,
        "no message": 1, "empty message": 1,
    }  # fmt: skip


def test_a_torn_archive_gives_what_came_before_the_tear(tmp_path: Path) -> None:
    lines = "".join(f"2026-01-01T00:00:{place % 60:02}Z n1 app: {place * 7919 % 100_003}\n" for place in range(90_000))
    whole = gzip.compress(lines.encode())
    found = Read(tmp_path, whole[: len(whole) // 2])
    assert len(found.frame) > 0
    assert found.tally.rejected["torn archive"] == 1


def test_domains_are_stripped_and_aliases_followed(tmp_path: Path) -> None:
    lines = "".join(f"2026-01-01T00:00:00Z {host} app: a\n" for host in ("n7.example.net", "10.0.0.7", "old"))
    context = LogContext(aliases={"10.0.0.7": "n8", "old": "n9"})
    assert Read(tmp_path, lines, context).column("node") == ["n7", "n8", "n9"]


def test_times_after_the_export_are_noted(tmp_path: Path) -> None:
    assert Read(tmp_path, "2031-01-01T00:00:00Z n1 app: a\n").tally.noted["time after the export"] == 1


def test_real_dmesg_and_kmsg_are_read_whole(real_data: Path) -> None:
    for name, rejected in (("dmesg_iso.log", 0), ("kmsg_raw.log", 0)):
        tally = Tally()
        frame = pd.concat(list(read_logs(real_data / "kernel" / name, DEFAULT, tally)))
        assert sum(tally.rejected.values()) == rejected
        assert frame["kernel"].all()


def test_real_application_logs_are_read_whole(real_data: Path) -> None:
    tally = Tally()
    lines = sum(
        int(frame["count"].sum()) for frame in read_logs(real_data / "nezha" / "logs" / "logs.jsonl.gz", DEFAULT, tally)
    )
    assert lines == tally.read == 175_211


def test_a_json_line_with_half_a_character_is_read(tmp_path: Path) -> None:
    line = orjson.dumps({"timestamp": "2026-01-01T00:00:00Z", "host": "n1", "message": "@"}).replace(b"@", b"\\ud800")
    assert Read(tmp_path, line + b"\n" + FORMATS["generic"].encode()).tally.read == 2


def test_answers_of_a_server_one_a_line_may_be_more_than_is_held_at_once(tmp_path: Path) -> None:
    answers = [FORMATS["loki-api"] % f"line {place}" + "\n" for place in range(20)]
    with patch.object(documents, "LIMIT_BYTES", 500):
        assert Read(tmp_path, "".join(answers)).column("message") == [f"line {place}" for place in range(20)]
        with pytest.raises(InputError, match="one JSON document over"):
            Read(tmp_path, FORMATS["loki-api"] % ("a" * 600) + "\n")


@pytest.mark.parametrize("line", ["[999999999999.000000] a", "4,1,999999999999999999,-;a"])
def test_seconds_since_boot_beyond_all_time_are_no_time(tmp_path: Path, line: str) -> None:
    assert Read(tmp_path, f"[    1.000000] b\n{line}\n").tally.rejected == {"no time stamp": 1}


def test_a_clock_that_goes_back_is_noticed_for_each_host_alone(tmp_path: Path) -> None:
    times = [("n1", "10:00:00"), ("n2", "09:00:00"), ("n1", "10:00:05"), ("n1", "09:58:00"), ("n1", "09:58:01")]
    lines = [f"2026-01-01T{clock}Z {host} app: {place}" for place, (host, clock) in enumerate(times)]
    found = Read(tmp_path, "\n".join(lines))
    assert found.tally.noted == {"time going back by over a minute": 1}
    assert "a clock went back" in found.tally.hints[0]
    shipped = [FORMATS["vector"].replace("00:00:00.25", clock) % "x" for _, clock in times]
    assert not Read(tmp_path, "\n".join(shipped)).tally.noted  # a shipper gives lines in any order


def test_a_clock_minutes_ahead_of_the_export_is_noticed(tmp_path: Path) -> None:
    context = LogContext(timezone="UTC", reference_time=pd.Timestamp("2026-01-01T10:00:00Z"))
    lines = "2026-01-01T10:00:30Z n1 app: a\n2026-01-01T10:07:00Z n1 app: b\n"
    assert Read(tmp_path, lines, context).tally.noted == {"time after the export": 1}


def test_a_file_of_one_time_is_not_held_whole(tmp_path: Path) -> None:
    (tmp_path / "x.log").write_text("".join(f"2026-01-01T00:00:00Z n1 app: {place}\n" for place in range(120)))
    with patch.object(logs, "BATCH_LINES", 20), patch.object(lines, "BATCH_LINES", 10):
        sizes = [len(frame) for frame in read_logs(tmp_path / "x.log", DEFAULT, Tally())]
    assert sum(sizes) == 120
    assert max(sizes) <= 30


def test_a_host_that_calls_itself_localhost_needs_the_user_s_word(tmp_path: Path) -> None:
    lines = "2026-01-01T00:00:00Z localhost kernel: a\n2026-01-01T00:00:00Z n1 kernel: b\n"
    found = Read(tmp_path, lines, LogContext(timezone="UTC"))
    assert (found.column("node"), found.tally.rejected) == (["n1"], {"no host": 1})
    assert "--node" in found.tally.hints[0]
    assert Read(tmp_path, lines, LogContext(node="n7")).column("node") == ["n7", "n1"]
