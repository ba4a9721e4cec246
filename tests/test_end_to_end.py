"""The whole path by the commands that a user types, on a small made-up cluster."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

CANARY = "canary-0123456789"
# what a training may know and never tells
SECRETS = {"MLFLOW_TRACKING_USERNAME": "me", "MLFLOW_TRACKING_PASSWORD": CANARY, "AWS_SECRET_ACCESS_KEY": CANARY}


def foreshock(*arguments: object, code: int = 0, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as a user does, in a folder of its own."""
    words = [sys.executable, "-m", "pipelines.cli", *(str(word) for word in arguments)]
    environment = {**os.environ, **SECRETS}
    ran = subprocess.run(words, capture_output=True, text=True, cwd=cwd, check=False, timeout=280, env=environment)
    assert CANARY not in ran.stdout + ran.stderr
    assert ran.returncode == code, f"{words[3:]} ended with {ran.returncode}: {ran.stderr[-2000:]}"
    return ran


def answer(*arguments: object, cwd: Path) -> Any:
    return json.loads(foreshock(*arguments, "--json", "--quiet", cwd=cwd).stdout)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a cluster's export was read into ``store``."""
    folder = tmp_path_factory.mktemp("operator")
    small = ("--nodes", 5, "--gpus", 2, "--days", 1.5, "--failures", 4, "--metrics", 48, "--seed", 3)
    foreshock("simulate", "export", *small, "--quiet", cwd=folder)
    exported = ("--metrics", "export/metrics", "--logs", "export/logs", "--sessions", "export/sessions.csv")
    report = answer("ingest", "store", *exported, cwd=folder)
    assert report["nodes"] == 5
    assert all(item["read"] == item["ok"] + sum(item["rejected"].values()) for item in report["inputs"])
    return folder


@pytest.fixture(scope="module")
def trained(home: Path) -> dict[str, Any]:
    (home / "secret.toml").write_text(f'[tracking]\nuri = "postgresql://me:{CANARY}@127.0.0.1:9/db"\n')
    registry = ("--config", "secret.toml", "--tracking-uri", "sqlite:///mlruns/mlflow.db")
    report: dict[str, Any] = answer("train", "store", "--models", "lightgbm,robust-z", *registry, cwd=home)
    return report


def test_a_training_keeps_no_secret_of_its_settings_or_surroundings(home: Path, trained: dict[str, Any]) -> None:
    kept = [path for path in home.rglob("*") if path.is_file() and path.name != "secret.toml"]
    assert any(path.name == "mlflow.db" for path in kept)
    assert any(path.parent.name == trained["run_id"] or trained["run_id"] in path.parts for path in kept)
    assert [path for path in kept if CANARY.encode() in path.read_bytes()] == []


def test_a_second_ingest_adds_nothing(home: Path) -> None:
    before = answer("ingest", "store", "--metrics", "export/metrics", cwd=home)
    again = answer("ingest", "store", "--metrics", "export/metrics", "--logs", "export/logs", cwd=home)
    assert {key: again[key] for key in ("nodes", "series", "samples", "log_lines")} == {
        key: before[key] for key in ("nodes", "series", "samples", "log_lines")
    }


def test_the_failures_found_are_the_ones_that_were_put_there(home: Path) -> None:
    truth = json.loads((home / "export" / "truth.json").read_text())["failures"]
    found = answer("failures", "store", cwd=home)
    wanted = {(made["node"], pd.Timestamp(made["time"]).floor("min")) for made in truth}
    slack = {(node, time + pd.Timedelta(minutes=late)) for node, time in wanted for late in range(15)}
    assert len(found) == len(truth)
    assert {(row["node"], pd.Timestamp(row["time"]).floor("min")) for row in found} <= slack


def test_events_have_the_promised_keys(home: Path) -> None:
    keys = {"time", "node", "pci", "gpu", "xid", "origin", "detail", "severity", "mig", "link", "count", "kind"}
    assert set(answer("events", "store", cwd=home)[0]) == keys


def test_training_gives_the_promised_figures(trained: dict[str, Any]) -> None:
    assert {"run_id", "experiment", "failures", "monitored_days", "budget_per_day", "models"} <= set(trained)
    assert {"champion", "registered", "verdict"} <= set(trained)
    assert {"lightgbm", "robust-z", "random", "clock-and-node", "hand-rules"} <= set(trained["models"])
    for judged in trained["models"].values():
        assert judged["before"] + judged["at"] + judged["missed"] == trained["failures"]
        assert [row["budget"] for row in judged["curve"]] == [0.25, 0.5, 0.84, 1.0, 2.0, 5.0]
        assert len(judged["by_failure"]) == trained["failures"]
    assert trained["verdict"] in {"signal", "no signal"}
    assert trained["registered"] == "models:/foreshock/1"


def test_a_window_is_scored_with_the_registered_model(home: Path, trained: dict[str, Any]) -> None:
    assert trained["registered"]
    scored = answer("score", "store", "--out", "scores", "--textfile", "scores/foreshock.prom", cwd=home)
    assert len(scored["scores"]) == 5
    assert {"node", "score", "probability", "alarm", "suspect_gpu", "status", "reasons"} <= set(scored["scores"][0])
    page = (home / "scores" / "foreshock.prom").read_text()
    assert "foreshock_" in page
    assert not any(len(line.split()) > 2 for line in page.replace('", ', '",').splitlines() if not line.startswith("#"))


def test_scoring_again_writes_the_same_rows(home: Path, trained: dict[str, Any]) -> None:
    assert trained["registered"]
    first = answer("score", "store", "--out", "again", cwd=home)
    files = {path.name: path.read_bytes() for path in (home / "again").rglob("*.jsonl")}
    second = answer("score", "store", "--out", "again", cwd=home)
    assert files
    assert first["scores"] == second["scores"]
    assert {path.name: path.read_bytes() for path in (home / "again").rglob("*.jsonl")} == files


def test_backtest_runs_the_job_over_history(home: Path, trained: dict[str, Any]) -> None:
    assert trained["registered"]
    told = answer("backtest", "store", "--start", "2026-01-05T00:00:00Z", "--end", "2026-01-05T06:00:00Z", cwd=home)
    assert told["windows"] > 0
    assert {"alerts", "days"} <= set(told)


def test_a_training_is_told_on_one_page_with_both_analyses(home: Path, trained: dict[str, Any]) -> None:
    told = answer("report", "store", "--out", "report.html", cwd=home)
    page = (home / "report.html").read_text(encoding="utf-8")
    assert told["run_id"] == trained["run_id"]
    assert told["sections"] == ["checkpoints", "retries"]
    assert all(words in page for words in ("Verdict:", "Judged otherwise", "Each failure", "Nodes by risk"))


def test_training_is_judged_by_other_protocols_and_tells_its_cost(trained: dict[str, Any]) -> None:
    assert set(trained["protocols"]) == {"node", "class", "chronological"}
    for found in trained["protocols"].values():
        assert bool(found["why_not"]) != bool(found["models"])
    assert {"recalling", "telling", "folds", "freezing"} <= set(trained["cost"]["stages"])


def test_settings_are_searched_and_the_figures_come_from_elsewhere(home: Path, trained: dict[str, Any]) -> None:
    told = answer("tune", "store", "--trials", 1, "--models", "lightgbm", cwd=home)
    assert list(told["models"]) == ["tuned", "default"]
    assert all(row["trials"] == 1 for row in told["folds"])
    assert len(told["models"]["tuned"]["by_failure"]) == trained["failures"]


def test_the_model_can_be_promoted_by_its_version(home: Path, trained: dict[str, Any]) -> None:
    assert trained["registered"]
    assert "is version 1 now" in foreshock("promote", 1, cwd=home).stdout


BAD = {
    "an empty folder": (["ingest", "s1", "--metrics", "empty"], 3),
    "a path that is not there": (["ingest", "s2", "--metrics", "nowhere"], 3),
    "a file that is no metric": (["ingest", "s3", "--metrics", "poem.txt"], 3),
    "an empty file": (["ingest", "s4", "--metrics", "nothing.json"], 3),
    "a store that is not there": (["train", "nowhere"], 3),
    "a store that is a file": (["failures", "poem.txt"], 3),
    "a model that no one trained": (["score", "store", "--model", "models:/nobody@champion", "--out", "o"], 4),
    "a bundle that is not there": (["score", "store", "--bundle", "nowhere", "--out", "o"], 4),
    "a server that is not there": (
        [
            "ingest",
            "s5",
            "--prometheus",
            "http://127.0.0.1:9",
            "--start",
            "2026-01-01T00:00Z",
            "--end",
            "2026-01-01T01:00Z",
        ],
        5,
    ),
    "a tracking server that is not there": (["train", "store", "--tracking-uri", "http://127.0.0.1:9"], 5),
    "a model of no known name": (["train", "store", "--models", "oracle"], 2),
    "a horizon within the gap": (["train", "store", "--horizon", "1m", "--gap", "5m"], 2),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_ends_with_one_line_and_its_code(home: Path, case: str) -> None:
    (home / "empty").mkdir(exist_ok=True)
    (home / "poem.txt").write_text("The cluster hums\nand nobody knows why\n")
    (home / "nothing.json").write_bytes(b"")
    words, code = BAD[case]
    ran = foreshock(*words, "--quiet", code=code, cwd=home)
    errors = [line for line in ran.stderr.splitlines() if line.startswith("foreshock: error: ")]
    assert len(errors) == 1
    assert "Traceback" not in ran.stderr
    assert "unexpected" not in ran.stderr
