"""What operators copy is checked by the programs that will read it, and names what is really exported."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pipelines.writers import textfile
from tests.conftest import ROOT
from tests.pipelines.job import rows

DEPLOY = ROOT / "deploy"
NAME = re.compile(r"foreshock_[a-z_]+")


def tool(name: str, *arguments: object, folder: Path = DEPLOY / "prometheus") -> str:
    """What a program says; it must be content."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed")
    ran = subprocess.run([path, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout + ran.stderr


def exported() -> set[str]:
    """Names of a textfile of a window with an alarm."""
    drift = (
        "features_missing_ratio", "unscored_ratio", "metrics_missing_ratio", "metrics_new_ratio",
        "unknown_templates_ratio", "score_quantile_mean", "score_high_ratio",
    )  # fmt: skip
    report: dict[str, Any] = {
        "window_end": "2026-01-01T00:20:00Z", "model": "m", "digest": "d", "horizon": "1h", "scores": rows(1.5),
        "alerts": [{"node": "n0", "gpu": "", "state": "firing", "silenced": False}], "suspect": False,
        "rejected": {"why": 1}, "drift": dict.fromkeys(drift, 0.0), "finished_seconds": 1.0, "duration_seconds": 1.0,
    }  # fmt: skip
    text = textfile.exposition(report).decode()
    return {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}


def board() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DEPLOY / "grafana" / "foreshock.json").read_text())
    return found


@pytest.mark.server
def test_promtool_finds_the_rules_sound() -> None:
    assert "6 rules found" in tool("promtool", "check", "rules", "--lint-fatal", "foreshock.rules.yml")


@pytest.mark.server
def test_the_rules_page_when_they_should() -> None:
    assert "SUCCESS" in tool("promtool", "test", "rules", "foreshock.rules.test.yml")


@pytest.mark.server
def test_alertmanager_takes_the_example() -> None:
    assert "3 inhibit rules" in tool("amtool", "check-config", "alertmanager.example.yml")


def test_the_rules_name_only_metrics_that_are_exported() -> None:
    named = set(NAME.findall((DEPLOY / "prometheus" / "foreshock.rules.yml").read_text()))
    assert named
    assert named <= exported()


def test_the_dashboard_names_only_metrics_that_are_exported() -> None:
    text = json.dumps([[t["expr"] for t in panel["targets"]] for panel in board()["panels"]])
    text += json.dumps(board()["templating"]) + json.dumps(board()["annotations"])
    assert set(NAME.findall(text)) <= exported()
    assert len(set(NAME.findall(text))) > 10


def test_every_exported_metric_is_on_the_operator_s_page() -> None:
    page = (ROOT / "docs" / "operating.md").read_text()
    assert exported() <= set(NAME.findall(page))


def test_the_dashboard_can_be_imported_anywhere() -> None:
    found = board()
    assert found["uid"] == "foreshock-scores"
    assert [item["name"] for item in found["__inputs"]] == ["DS_PROMETHEUS"]
    assert "id" not in found
    used = set(
        re.findall(r'"uid": "([^"]+)"', json.dumps([found["panels"], found["templating"], found["annotations"]]))
    )
    assert used == {"${DS_PROMETHEUS}"}


@pytest.mark.server
def test_no_promql_of_the_dashboard_is_malformed(tmp_path: Path) -> None:
    exprs = [target["expr"].replace("$node", ".*") for panel in board()["panels"] for target in panel["targets"]]
    rules = [{"record": f"checked:{number}", "expr": expr} for number, expr in enumerate(exprs)]
    (tmp_path / "r.yml").write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
    tool("promtool", "check", "rules", tmp_path / "r.yml")


def test_systemd_finds_the_units_sound(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in sorted((DEPLOY / "systemd").iterdir()):
        # the program need not be installed where tests run
        text = unit.read_text().replace("/opt/foreshock/bin/foreshock", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    ran = subprocess.run(
        ["systemd-analyze", "verify", *sorted(map(str, tmp_path.iterdir()))],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in ran.stderr.splitlines() if "foreshock" in line]
    assert ours == []


def test_the_unit_s_user_can_be_given_the_textfile_s_folder() -> None:
    unit = (DEPLOY / "systemd" / "foreshock-score.service").read_text()
    # a dynamic user has another number at each start, and owns no folder of node_exporter's
    assert "\nUser=foreshock\n" in unit
    assert "DynamicUser=" not in unit


@pytest.mark.server
def test_kustomize_makes_the_job_its_settings_and_its_volume() -> None:
    made = tool("kubectl", "kustomize", DEPLOY / "kubernetes")
    kinds = re.findall(r"^kind: (\w+)$", made, re.MULTILINE)
    assert sorted(kinds) == ["ConfigMap", "CronJob", "PersistentVolumeClaim"]
    assert "image: foreshock:0.1.0" in made
    (config,) = re.findall(r"name: (foreshock-\w{10})\n  namespace", made)
    assert made.count(config) == 2  # the job mounts the settings that were made


@pytest.mark.server
def test_the_timer_asks_for_the_minute_after_each_window() -> None:
    said = tool("systemd-analyze", "calendar", "--iterations=2", "--base-time=2026-01-01 00:00:00 UTC", "*:0/5:30")
    assert "00:00:30 UTC" in said
    assert "00:05:30 UTC" in said
    assert "OnCalendar=*:0/5:30" in (DEPLOY / "systemd" / "foreshock-score.timer").read_text()
