"""What runs is what the lock says; a resolver left alone falls back to an older drain3 or mlflow."""

from importlib.metadata import distributions, version
from pathlib import Path

import pytest
from drain3 import TemplateMiner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

LOCKS = ("requirements.lock", "requirements-dev.lock")


def pins(lock: str) -> list[Requirement]:
    """The lock's lines that hold on this machine."""
    lines = (Path(__file__).parent.parent / lock).read_text().splitlines()
    found = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    return [pin for pin in found if pin.marker is None or pin.marker.evaluate()]


@pytest.mark.parametrize("lock", LOCKS)
def test_every_locked_package_runs_in_the_locked_version(lock: str) -> None:
    installed = {canonicalize_name(found.name): found.version for found in distributions()}
    wrong = [
        f"{pin} is locked, {installed.get(canonicalize_name(pin.name), 'none')} is installed"
        for pin in pins(lock)
        if not pin.specifier.contains(installed.get(canonicalize_name(pin.name), "0"), prereleases=True)
    ]
    assert wrong == []


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_pins_every_package_and_names_no_host(lock: str) -> None:
    text = (Path(__file__).parent.parent / lock).read_text()
    assert "://" not in text
    assert all(len(pin.specifier) == 1 and str(pin.specifier).startswith("==") for pin in pins(lock))


def test_drain3_runs_beside_a_current_mlflow_and_its_caches() -> None:
    assert version("drain3") == "0.9.11"
    assert Version(version("mlflow")) >= Version("3.17")
    assert Version(version("cachetools")) >= Version("5")
    assert Version(version("jsonpickle")) >= Version("4")


def test_drain3_mines_with_the_newer_caches() -> None:
    miner = TemplateMiner()
    for line in ("link 1 down", "link 2 down"):
        found = miner.add_log_message(line)
    assert found["template_mined"] == "link <*> down"
