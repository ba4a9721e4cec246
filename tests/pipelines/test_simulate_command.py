"""The simulator at the command line."""

import gzip
import json
from pathlib import Path

import pytest

from pipelines import cli

USUAL = ["simulate", "--nodes", "1", "--gpus", "1", "--days", "0.1", "--failures", "0", "--metrics", "45", "--quiet"]


def ended(*more: str) -> object:
    with pytest.raises(SystemExit) as code:
        cli.main([*USUAL, *more])
    return code.value.code


def test_a_slot_limit_is_what_its_clients_have(tmp_path: Path) -> None:
    assert ended("--habits", "study", "--rpc-slots", "64", str(tmp_path)) == 0
    (page,) = (tmp_path / "metrics").glob("*.gz")
    held = [line for line in gzip.decompress(page.read_bytes()).splitlines() if b"maximum_rpc_slots" in line]
    assert len(held) == 1
    assert b'"values":[64,64,' in held[0]


@pytest.mark.parametrize("wrong", [("--habits", "monk"), ("--rpc-slots", "-1")])
def test_habits_that_are_none_are_refused(tmp_path: Path, wrong: tuple[str, str]) -> None:
    assert ended(*wrong, str(tmp_path / "out")) == 2
    assert not (tmp_path / "out").exists()


def test_failures_that_do_not_fit_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "--nodes", "1", "--gpus", "1", "--days", "0.2", "--failures", "20", "--metrics", "3"]
    with pytest.raises(SystemExit):
        cli.main([*words, str(tmp_path / "out")])
    held = len(json.loads((tmp_path / "out" / "truth.json").read_bytes())["failures"])
    assert held < 20
    assert f"{held} of 20 failures fit into 1 nodes and 0.2 days" in capsys.readouterr().err
