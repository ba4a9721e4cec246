"""Of log files a job reads the end it needs; rotated sets and journals are read as one."""

import gzip
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

import httpx
import orjson
import pandas as pd
import pytest

from features.tables import InputError, UpstreamError, to_ns
from pipelines import log_sources
from pipelines.config import Config
from pipelines.readers.context import LogContext
from pipelines.readers.tally import Tally

SECOND = 1_000_000_000
T0 = to_ns("2026-01-01T00:00:00Z")
NONE: Mapping[str, str] = {}


def line(second: int, text: str = "link up") -> str:
    day, rest = divmod(second, 86_400)
    clock = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"2026-01-{day + 1:02}T{clock}+00:00 n1 kernel: {text} {'x' * 60} {second}\n"


def write(path: Path, first: int, last: int, step: int = 1) -> Path:
    path.write_text("".join(line(second) for second in range(first, last, step)))
    os.utime(path, (T0 / 1e9 + last, T0 / 1e9 + last))
    return path


def read(*paths: Path, start: int, end: int, tally: Tally | None = None) -> pd.DataFrame:
    found = Tally() if tally is None else tally
    return log_sources.read(paths, None, Config(), T0 + start * SECOND, T0 + end * SECOND, found, NONE)


def seconds(frame: pd.DataFrame) -> list[int]:
    return [int(text.rsplit(" ", 1)[1]) for text in frame["message"]]


def test_only_the_lines_of_the_span_come_back(tmp_path: Path) -> None:
    path = write(tmp_path / "kern.log", 0, 100)
    assert seconds(read(path, start=10, end=20)) == list(range(10, 20))


def test_of_a_large_file_only_the_end_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "kern.log", 0, 90_000)
    tally = Tally()
    assert seconds(read(path, start=89_000, end=90_000, tally=tally)) == list(range(89_000, 90_000))
    assert tally.read < 5_000


@pytest.mark.parametrize("start", [0, 1, 45_000, 89_999])
def test_seeking_loses_no_line(tmp_path: Path, start: int) -> None:
    path = write(tmp_path / "kern.log", 0, 90_000)
    begin = log_sources.offset(path, LogContext(), T0 + start * SECOND)
    with path.open() as file:
        file.seek(begin)
        assert int(file.readline().rsplit(" ", 1)[1]) <= start


def test_a_hole_in_a_large_file_is_no_end(tmp_path: Path) -> None:
    path = tmp_path / "kern.log"
    path.write_text("".join(line(second) for second in [*range(40_000), *range(80_000, 110_000)]))
    assert seconds(read(path, start=79_000, end=80_010)) == list(range(80_000, 80_010))


def test_a_rotated_set_is_one_log(tmp_path: Path) -> None:
    write(tmp_path / "kern.log", 200, 300)
    packed = tmp_path / "kern.log.1.gz"
    packed.write_bytes(gzip.compress("".join(line(second) for second in range(100, 200)).encode()))
    os.utime(packed, (T0 / 1e9 + 200, T0 / 1e9 + 200))
    assert seconds(read(tmp_path, start=150, end=250)) == list(range(150, 250))


def test_what_was_rotated_away_before_the_span_is_not_opened(tmp_path: Path) -> None:
    write(tmp_path / "kern.log", 200, 300)
    old = tmp_path / "kern.log.2.gz"
    old.write_bytes(b"\x1f\x8b torn")
    os.utime(old, (T0 / 1e9 + 100, T0 / 1e9 + 100))
    assert len(read(tmp_path, start=250, end=300)) == 50


def test_a_line_in_two_files_is_one_line(tmp_path: Path) -> None:
    write(tmp_path / "a.log", 0, 10)
    write(tmp_path / "b.log", 5, 15)
    assert seconds(read(tmp_path, start=0, end=15)) == list(range(15))


def test_an_empty_file_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "kern.log").write_text("")
    assert read(tmp_path, start=0, end=10).empty


def test_a_path_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not exist"):
        read(tmp_path / "nowhere", start=0, end=10)


def test_a_journal_s_folder_is_read_by_journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "system.journal").write_bytes(b"LPKSHHRH")
    asked: list[list[str]] = []

    def run(command: list[str], **how: object) -> subprocess.CompletedProcess[bytes]:
        asked.append(command)
        entry = {"__REALTIME_TIMESTAMP": str((T0 + 5 * SECOND) // 1000), "_HOSTNAME": "n1", "MESSAGE": "link up 5"}
        how["stdout"].write(orjson.dumps(entry) + b"\n")  # type: ignore[attr-defined]  # a file
        return subprocess.CompletedProcess(command, 0, stderr=b"")

    monkeypatch.setattr(log_sources.shutil, "which", lambda _: "/usr/bin/journalctl")  # type: ignore[attr-defined]  # the module's own import
    monkeypatch.setattr(subprocess, "run", run)
    assert seconds(read(tmp_path, start=0, end=10)) == [5]
    (command,) = asked
    assert command[:3] == ["/usr/bin/journalctl", "-D", str(tmp_path)]
    assert {f"--since=@{T0 // SECOND}", f"--until=@{T0 // SECOND + 10}"} <= set(command)


@pytest.mark.server
def test_a_journal_that_journalctl_refuses_is_one_line(tmp_path: Path) -> None:
    if log_sources.shutil.which("journalctl") is None:  # type: ignore[attr-defined]  # as above
        pytest.skip("journalctl is not installed")
    (tmp_path / "system.journal").write_bytes(b"no journal at all" * 100)
    try:
        found = read(tmp_path, start=0, end=10)
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017  # versions differ in whether this is an error
    else:
        assert found.empty


def test_lines_come_from_loki_too(monkeypatch: pytest.MonkeyPatch) -> None:
    real = httpx.Client
    page = {"status": "success", "data": {"resultType": "streams", "result": [
        {"stream": {"host": "n1"}, "values": [[str(T0 + 5 * SECOND), "link up 5"]]},
    ]}}  # fmt: skip
    handle = httpx.MockTransport(lambda _: httpx.Response(200, json=page))
    monkeypatch.setattr(httpx, "Client", lambda **how: real(**{**how, "transport": handle}))
    found = log_sources.read((), "http://loki.test", Config(), T0, T0 + 10 * SECOND, Tally(), NONE)
    assert (found["node"].tolist(), seconds(found)) == (["n1"], [5])


def test_a_loki_that_is_down_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(UpstreamError):
        log_sources.read((), "http://127.0.0.1:9", Config(), T0, T0 + SECOND, Tally(), NONE)
