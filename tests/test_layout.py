"""The house: floors kept, rooms small, and nobody else owns our names."""

import ast
import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FLOORS = {"features": set(), "models": {"features"}, "pipelines": {"features", "models"}}
DOORS = {
    "mlflow": "models/tracking.py",
    "tsfresh": "features/signals.py",
    "drain3": "features/templates.py",
    "lightgbm": "models/supervised.py",
    "optuna": "models/tuning.py",
    "dask": "pipelines/executor.py",
    "distributed": "pipelines/executor.py",
}
CODE_FROM_DATA = {"pickle", "cloudpickle", "joblib", "jsonpickle", "skops", "dill", "shelve", "marshal"}
MODULES = sorted(path for floor in FLOORS for path in (ROOT / floor).rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Top-level names that a module imports, wherever in it."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("floor", FLOORS)
def test_imports_only_go_down_the_floors(floor: str) -> None:
    upstairs = set(FLOORS) - FLOORS[floor] - {floor}
    climbing = {str(path): imported(path) & upstairs for path in (ROOT / floor).rglob("*.py")}
    assert {path: names for path, names in climbing.items() if names} == {}


def test_a_foreign_library_enters_by_one_door() -> None:
    elsewhere = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in MODULES
        for name in imported(path) & set(DOORS)
        if str(path.relative_to(ROOT)) != DOORS[name]
    }
    assert elsewhere == set()


def test_no_module_can_load_code_from_data() -> None:
    assert {str(path): imported(path) & CODE_FROM_DATA for path in MODULES if imported(path) & CODE_FROM_DATA} == {}


def test_arrays_are_never_loaded_with_pickle() -> None:
    loads = re.compile(r"(?:np|numpy)\.load\((?![^)]*allow_pickle=False)")
    assert [str(path) for path in MODULES if loads.search(path.read_text(encoding="utf-8"))] == []


def test_no_module_is_longer_than_400_lines() -> None:
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES}
    assert {path: length for path, length in lengths.items() if length > 400} == {}


def test_every_module_says_in_its_docstring_what_it_is() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))] == []


@pytest.mark.parametrize("floor", FLOORS)
def test_no_other_distribution_owns_our_package_names(floor: str) -> None:
    assert set(packages_distributions().get(floor, [])) <= {"foreshock"}


def test_there_is_no_room_for_leftovers() -> None:
    named = {path.stem for path in MODULES}
    assert named & {"utils", "util", "helpers", "common", "base", "misc"} == set()
