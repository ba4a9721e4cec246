"""The server is asked before anything heavy is loaded, and for all that a score depends on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from models.lineup import LOOK_BACK
from pipelines import asking, verdicts
from tests.pipelines.tiny import World

HEAVY = ("sklearn", "scipy", "numba", "lightgbm", "tsfresh", "drain3", "mlflow", "matplotlib", "optuna")
# What is loaded when the first connection is made ready; the thread that uses it starts later
PROBE = """
import json, os, sys
from pipelines.readers import prometheus_api

def connect(*_):
    print(json.dumps(sorted(sys.modules)), flush=True)
    os._exit(7)

prometheus_api.connect = connect
from pipelines.cli import main
main(sys.argv[1:])
"""


def test_nothing_heavy_is_loaded_before_the_first_request(world: World, tmp_path: Path) -> None:
    command = ["score", "--prometheus", "http://127.0.0.1:9", "--bundle", str(world.bundle), "--out", str(tmp_path)]
    ran = subprocess.run([sys.executable, "-c", PROBE, *command], capture_output=True, text=True, check=False)
    assert ran.returncode == 7, ran.stderr
    loaded = set(json.loads(ran.stdout))
    assert "pipelines.readers.prometheus_api" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_context_is_what_the_models_look_back_to() -> None:
    assert asking.CONTEXT == verdicts.CONTEXT == LOOK_BACK - 1


def test_windows_are_asked_for_with_their_context() -> None:
    before = [200 - 10 * back for back in range(asking.CONTEXT, 0, -1)]
    assert asking.with_context([200, 210], 10) == [*before, 200, 210]


@pytest.mark.parametrize("count", [1, 60, 61])
def test_every_metric_is_in_one_selector(count: int) -> None:
    names = [f"m{number}" for number in range(count)]
    found = [name for one in asking.selectors(names) for name in one.split('"')[1].split("|")]
    assert found == names
