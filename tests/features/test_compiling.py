import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import numpy.testing as npt

from features import compiling, kernels

INNER = """
from features.compiling import part


@part
def grown(x):
    return x + {more}
"""
OUTER = """
from features.compiling import compiled
from features.inner import grown


@compiled
def twice(x):
    return 2 * grown(x)
"""
OTHER = """
from features.compiling import compiled


@compiled
def more(x):
    return x + {more}
"""
RUN = "from features.outer import twice; print(twice(5), *twice.stats.cache_hits.values())"


def copied(folder: Path) -> Path:
    """A package `features` of the compiling room and two files, one calling into the other."""
    package = folder / "features"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "compiling.py").write_bytes(Path(compiling.__file__).read_bytes())
    (package / "outer.py").write_text(OUTER)
    (package / "inner.py").write_text(INNER.format(more=1))
    return package


def run(folder: Path, code: str = RUN) -> str:
    environment = {"PYTHONPATH": str(folder), "NUMBA_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_code_is_kept_for_the_next_run_and_stale_once_another_file_changed(tmp_path: Path) -> None:
    package = copied(tmp_path)
    assert run(tmp_path) == "12"
    assert run(tmp_path) == "12 1"
    (package / "inner.py").write_text(INNER.format(more=2))
    assert run(tmp_path) == "14"


def test_a_new_version_of_the_code_has_a_file_of_its_own_and_the_former_ones_is_removed(tmp_path: Path) -> None:
    """numba writes its index first: another process that starts in between must not find the former code there."""
    package = copied(tmp_path)
    run(tmp_path)
    (before,) = (file.name for file in (tmp_path / "cache").rglob("*.nbc"))
    (package / "inner.py").write_text(INNER.format(more=2))
    run(tmp_path)
    (after,) = (file.name for file in (tmp_path / "cache").rglob("*.nbc"))
    assert before != after


def test_code_of_another_floor_is_stale_once_it_changed_though_its_file_has_the_old_time_and_size(
    tmp_path: Path,
) -> None:
    copied(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").touch()
    kernels = tmp_path / "models" / "kernels.py"
    said = []
    for number in (1, 1, 2):
        kernels.write_text(OTHER.format(more=number))
        os.utime(kernels, (1e9, 1e9))
        said.append(run(tmp_path, "from models.kernels import more; print(more(5), *more.stats.cache_hits.values())"))
    assert said == ["6", "6 1", "7"]


def test_every_compiled_function_is_stamped() -> None:
    folder = Path(compiling.__file__).parent.parent
    files = [path for floor in ("features", "models", "pipelines") for path in (folder / floor).rglob("*.py")]
    own = [path.name for path in files if "jit(" in path.read_text() and "numba" in path.read_text()]
    assert own == ["compiling.py"]


def test_a_sum_is_numpys_to_the_bit_at_any_length() -> None:
    x = np.random.default_rng(0).normal(size=5000) * 1e6
    lengths = np.array([*range(1, 300), 1000, 1031, 2048, 4999], dtype=np.int64)
    lows = np.ones((1, len(lengths)), dtype=np.int64)
    out = np.full((1, len(lengths), 3), np.nan)
    slots = np.full(len(kernels.LEVELS), -1)
    slots[[kernels.LEVELS.index(name) for name in ("sum_values", "maximum", "variance")]] = 0, 1, 2
    kernels.levels(x[None], lows, lows + lengths, slots, out)
    wanted = [(np.sum(x[1 : 1 + n]), x[1 : 1 + n].max(), np.var(x[1 : 1 + n])) for n in lengths]
    npt.assert_array_equal(out[0], wanted)
