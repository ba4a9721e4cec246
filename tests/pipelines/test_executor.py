import os

import pytest

from features.tables import UpstreamError, UsageError
from pipelines import executor


def square(number: int) -> int:
    return number * number


def where(_: int) -> int:
    return os.getpid()


def test_every_piece_is_done_once_in_processes_of_their_own() -> None:
    assert sorted(executor.run(square, range(6), workers=2)) == [0, 1, 4, 9, 16, 25]


def test_one_worker_is_this_process() -> None:
    assert set(executor.run(where, range(3), workers=1)) == {os.getpid()}


def test_a_scheduler_that_is_not_there_is_said_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_PATIENCE", "1s")
    with pytest.raises(UpstreamError, match=r"tcp://127\.0\.0\.1:9"):
        list(executor.run(square, range(6), scheduler="tcp://127.0.0.1:9"))


def test_no_workers_can_do_no_work() -> None:
    with pytest.raises(UsageError, match="1 or more"):
        list(executor.run(square, range(6), workers=0))
