"""A disk that is really full, or read-only: one line, what was there stays, and the next run heals."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from features.tables import ForeshockError
from pipelines import score as scoring
from pipelines.config import Config
from pipelines.score import Outlets
from tests.pipelines.job import Job, Receiver, copy, frozen


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with Receiver().running() as running:
        yield running


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a megabyte."""
    place = tmp_path / "disk"
    place.mkdir()
    if shutil.which("mount") is None or mounted(place, "size=1m"):
        pytest.skip("this user may mount nothing")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def mounted(place: Path, options: str) -> int:
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def fill(disk: Path, leave: int) -> Path:
    """Take all room but some bytes."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(0, file.tell() // 4096 * 4096 - leave))
    return ballast


@pytest.mark.parametrize("leave", [0, 4096, 16_384, 65_536])
def test_a_full_disk_is_one_line_and_healed_once_there_is_room(
    receiver: Receiver, disk: Path, tmp_path: Path, leave: int
) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), disk / "out", receiver)
    job.run(0)
    free = copy(job, tmp_path / "free")
    free.run(1)
    wanted = free.left()
    receiver.alerts.clear()
    ballast = fill(disk, leave)
    try:
        job.run(1)
    except ForeshockError as error:
        assert "\n" not in str(error)  # noqa: PT017  # with enough room left it is no error
    else:
        assert leave > 16_384
    assert [path.name for path in (disk / "out").rglob("*") if path.name.endswith((".new", ".tmp"))] == []
    ballast.unlink()
    job.run(1)
    assert job.left() == wanted


def test_a_textfile_on_a_full_disk_costs_no_score(receiver: Receiver, disk: Path, tmp_path: Path) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), tmp_path / "out", receiver)
    fill(disk, 0)
    outlets = Outlets(textfile=disk / "foreshock.prom")
    with job.put_in((0.1,)), pytest.raises(ForeshockError, match="No space left"):
        scoring.score(scoring.Source(prometheus="http://p.test"), Config(), out=job.out, outlets=outlets)
    assert len(list((job.out / "scores").iterdir())) == 1
    assert not (disk / "foreshock.prom").exists()


def test_a_disk_that_turned_read_only_is_one_line_and_healed(receiver: Receiver, disk: Path, tmp_path: Path) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), disk / "out", receiver)
    job.run(0)
    free = copy(job, tmp_path / "free")
    free.run(1)
    wanted = free.left()
    receiver.alerts.clear()
    assert mounted(disk, "remount,ro") == 0
    with pytest.raises(ForeshockError, match=r"can't be (written|used)"):
        job.run(1)
    assert mounted(disk, "remount,rw") == 0
    job.run(1)
    assert job.left() == wanted


def test_a_sync_that_fails_is_one_line_and_healed(receiver: Receiver, tmp_path: Path) -> None:
    receiver.alerts.clear()
    job = Job(frozen(), tmp_path / "out", receiver)
    job.run(0)
    free = copy(job, tmp_path / "free")
    free.run(1)
    wanted = free.left()
    receiver.alerts.clear()
    with mock.patch("os.fsync", side_effect=OSError(5, "Input/output error")), pytest.raises(ForeshockError):
        job.run(1)
    job.run(1)
    assert job.left() == wanted
