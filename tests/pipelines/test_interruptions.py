"""The map over node-days where processes die: this one, or a worker of a Dask cluster."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pipelines import featurise
from pipelines.config import Config
from pipelines.store import Store
from tests import small_cluster as made

CONFIG = Config()
# a run that tells its progress, a line a node-day, and waits for an answer after each
SLOW = """
import sys
from pathlib import Path
from pipelines import featurise
from pipelines.config import Config
from pipelines.store import Store

def progress(done, _):
    print(done, flush=True)
    sys.stdin.readline()

featurise.featurise(Store.open(Path(sys.argv[1])), Config(), workers=1, progress=progress)
"""


def contents(store: Store) -> dict[str, bytes]:
    folder = store.cache_dir / "rows"
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.parquet")}


def test_a_run_killed_midway_is_taken_up_without_doing_a_node_day_again(tmp_path: Path) -> None:
    store, whole = made.store(tmp_path / "store"), made.store(tmp_path / "whole")
    featurise.featurise(whole, CONFIG, workers=1)
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, str(store.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdin is not None
        assert run.stdout is not None
        for _ in range(3):
            assert run.stdout.readline()
            run.stdin.write("\n")
            run.stdin.flush()
        assert run.stdout.readline() == "4\n"
        os.kill(run.pid, signal.SIGKILL)
    again = featurise.featurise(store, CONFIG, workers=1)
    assert (again.computed, again.kept) == (6, 4)
    assert contents(store) == contents(whole)


@contextmanager
def cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:
    """A scheduler and its workers on loopback, each a process of its own; address and workers."""
    address = folder / "scheduler.json"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    local = ["--host", "127.0.0.1", "--no-dashboard", "--scheduler-file", str(address)]
    one_task = ["--nthreads", "1", "--no-nanny", "--local-directory", str(folder)]
    dask = [sys.executable, "-m", "dask"]
    running = [subprocess.Popen([*dask, "scheduler", "--port", "0", *local], **quiet)]  # type: ignore[call-overload]  # of a dict
    try:
        while not address.exists():
            time.sleep(0.05)
        running += [subprocess.Popen([*dask, "worker", *local, *one_task], **quiet) for _ in range(workers)]  # type: ignore[call-overload]  # of a dict
        from distributed import Client  # noqa: PLC0415  # slow to import, for this test alone

        with Client(scheduler_file=str(address), set_as_default=False) as client:
            client.wait_for_workers(workers, timeout=60)
            where = str(client.scheduler.address)
        yield where, running[1:]
    finally:
        for process in running:
            process.kill()
            process.wait()


def test_a_cluster_that_loses_a_worker_midway_gives_the_bits_of_a_local_run(tmp_path: Path) -> None:
    pytest.importorskip("distributed", reason="the extra 'dask' is not installed")
    store, local = made.store(tmp_path / "store"), made.store(tmp_path / "local")
    featurise.featurise(local, CONFIG, workers=1)
    with cluster(tmp_path, 2) as (address, workers):

        def progress(done: int, _: int) -> None:
            if done == 2:
                workers[0].kill()

        filled = featurise.featurise(store, CONFIG, scheduler=address, progress=progress)
        assert workers[0].wait() == -signal.SIGKILL
    assert filled.computed == len(contents(local)) == 10
    assert contents(store) == contents(local)
