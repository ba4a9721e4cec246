"""What a user is told of an ingest: on stdout what is held, on stderr what was not usable."""

import json
from pathlib import Path

import pytest

from pipelines import cli

CONTAINERS = (("a", 1), ("b", 2))
GOOD = "2026-01-01T00:00:00 n1 rsyslogd: imjournal: 12 messages lost due to rate-limiting\n"


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main([str(word) for word in words])
    return int(str(ended.value.code))


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "good.log").write_text(GOOD)
    (folder / "bad.txt").write_text("once upon a time\n")
    return folder


def test_what_was_unusable_is_a_line_each_and_the_rest_is_kept(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("ingest", tmp_path / "s", "--logs", logs) == 0
    said = capsys.readouterr()
    errors = said.err.splitlines()
    assert sum("bad.txt: no log format" in line for line in errors) == 1
    assert sum("--timezone" in line for line in errors) == 1
    assert "messages suppressed by the logger 12" in said.out


def test_json_holds_the_same(tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("ingest", tmp_path / "s", "--logs", logs, "--json")
    report = json.loads(capsys.readouterr().out)
    assert len(report["errors"]) == 1
    assert report["inputs"][0]["noted"] == {"messages suppressed by the logger": 12}


def test_nothing_usable_ends_with_3(tmp_path: Path, logs: Path) -> None:
    (logs / "good.log").unlink()
    assert run("ingest", tmp_path / "s", "--logs", logs) == 3


def test_gaps_of_a_node_s_samples_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stamps = [1_767_225_600_000 + minute * 60_000 for minute in (0, 1, 2, 32, 33)]
    entry = {"metric": {"__name__": "m", "node": "n1"}, "values": [1] * 5, "timestamps": stamps}
    (tmp_path / "m.jsonl").write_text(json.dumps(entry) + "\n")
    run("ingest", tmp_path / "s", "--metrics", tmp_path / "m.jsonl")
    assert "1 gaps of ten minutes or more in nodes' samples, 29.5 minutes" in capsys.readouterr().err


def test_advice_on_many_files_is_one_line_that_says_how_many(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("second.log", "third.log"):
        (logs / name).write_text(GOOD.replace("12", name))
    run("ingest", tmp_path / "s", "--logs", logs)
    (advice,) = [line for line in capsys.readouterr().err.splitlines() if "--timezone" in line]
    assert f"{logs / 'good.log'} and 2 more: times without a zone" in advice


def test_lines_read_are_those_kept_and_those_that_another_file_had(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "2026-01-01T00:00:0{}Z n1 kernel: {}\n"
    first, both, last = line.format(1, "a"), line.format(2, "b"), line.format(3, "c")
    (tmp_path / "kern.log").write_text(first + both + both)
    (tmp_path / "syslog").write_text(both + last)
    run("ingest", tmp_path / "s", "--logs", tmp_path / "kern.log", "--logs", tmp_path / "syslog", "--json")
    report = json.loads(capsys.readouterr().out)
    assert (sum(item["read"] for item in report["inputs"]), report["log_lines"], report["duplicates"]) == (5, 4, 1)
    (tmp_path / "later.log").write_text(first + line.format(4, "d"))
    run("ingest", tmp_path / "s", "--logs", tmp_path / "later.log")
    assert "1 log lines were in more than one input, or in the store, and are kept once" in capsys.readouterr().out


def test_a_pull_needs_its_ends(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("ingest", tmp_path / "s", "--loki", "http://127.0.0.1:1") == 2
    assert "--loki needs --start and --end" in capsys.readouterr().err


def test_failures_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.log").write_text("2026-01-01T00:00:00Z n1 kernel: NVRM: Xid (PCI:0000:4e:00): 79, x\n")
    run("ingest", tmp_path / "s", "--logs", tmp_path / "k.log")
    capsys.readouterr()
    run("failures", tmp_path / "s", "--explain", "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["xid"], row["node"]) == (79, "n1")
    assert "is the first line of failure 20260101T000000Z-n1: preset hardware counts hardware errors" in row["why"]
    run("failures", tmp_path / "s", "--json")
    (failure,) = json.loads(capsys.readouterr().out)
    assert {"repaired", "repair_minutes", "left_censored", "right_censored"} <= set(failure)


@pytest.mark.parametrize(("step", "told"), [("30s", True), ("60s", False)])
def test_a_grid_finer_than_the_scrapes_is_told_with_the_step_that_fits(
    step: str, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"2026-01-01T00:{minute:02}:00Z,up,n1,1" for minute in range(10)]
    (tmp_path / "m.csv").write_text("\n".join(["time,metric,instance,value", *rows]) + "\n")
    run("ingest", tmp_path / "s", "--metrics", tmp_path / "m.csv", "--step", step)
    assert ("ingest into a new store with --step 60s" in capsys.readouterr().err) == told


@pytest.mark.parametrize(("apart", "told"), [(1, False), (2, True), (5, True)])
def test_windows_that_hold_few_samples_are_told_with_a_length_that_fits(
    apart: int, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [f"2026-01-01T00:{minute:02}:00Z,up,n1,1" for minute in range(0, 60, apart)]
    (tmp_path / "m.csv").write_text("\n".join(["time,metric,instance,value", *rows]) + "\n")
    run("ingest", tmp_path / "s", "--metrics", tmp_path / "m.csv", "--step", "60s")
    fits = {2: "holds 2: give train --window 10m", 5: "holds 1: give train --window 20m"}
    assert (fits.get(apart, "give train") in capsys.readouterr().err) == told


def test_samples_that_contradict_each_other_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = "".join(f'restarts_total{{node="n1",container="{name}"}} {count} 1767225600\n' for name, count in CONTAINERS)
    (tmp_path / "m.om").write_text(f"# TYPE restarts counter\n{text}# EOF\n")
    assert run("ingest", tmp_path / "s", "--metrics", tmp_path / "m.om") == 0
    assert "1 samples differed from another of the same series and time" in capsys.readouterr().err


def lines_of(store: Path, capsys: pytest.CaptureFixture[str], *inputs: object) -> int:
    capsys.readouterr()
    assert run("ingest", store, "--timezone", "UTC", *inputs, "--json") == 0
    return int(json.loads(capsys.readouterr().out)["log_lines"])


def test_several_files_behind_one_option_are_read_as_a_shell_gives_them(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / "more.log").write_text(GOOD.replace("n1", "n2"))
    assert lines_of(tmp_path / "s", capsys, "--logs", *sorted(logs.glob("*.log")), "--quiet") == 2


def test_a_folder_is_read_wherever_it_lies(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden = tmp_path / ".exports"
    logs.rename(hidden)
    assert lines_of(tmp_path / "s", capsys, "--logs", hidden) == 1
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    assert lines_of(tmp_path / "t", capsys, "--logs", "../../.exports") == 1


def test_a_linked_folder_is_read_once_and_a_circle_ends(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    top = tmp_path / "top"
    top.mkdir()
    (top / "one").symlink_to(logs)
    (top / "again").symlink_to(logs)
    (logs / "up").symlink_to(top)
    assert lines_of(tmp_path / "s", capsys, "--logs", top) == 1


def test_what_lies_hidden_in_a_folder_is_left_out(
    tmp_path: Path, logs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (logs / ".snapshot").mkdir()
    (logs / ".snapshot" / "old.log").write_text(GOOD.replace("n1", "n9"))
    assert lines_of(tmp_path / "s", capsys, "--logs", logs) == 1
