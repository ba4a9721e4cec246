"""A map over independent pieces of work: in this process, on its cores, or on a Dask cluster.

The only file that imports dask.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from typing import TypeVar

from features.tables import UpstreamError, UsageError

Piece = TypeVar("Piece")
Result = TypeVar("Result")
_PATIENCE = "10s"  # for a scheduler's first answer
_FEW = 4  # pieces: starting a process costs more than this many take


def cores() -> int:
    """Cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run(
    function: Callable[[Piece], Result],
    pieces: Sequence[Piece],
    *,
    workers: int | None = None,
    scheduler: str | None = None,
) -> Iterator[Result]:
    """Results as they are done, in any order; the first error ends the map.

    Parameters
    ----------
    function
        A module's own function: it is sent by name.
    workers
        Processes; None takes one a core, 1 works in this process.
    scheduler
        Address of a Dask scheduler, e.g. ``tcp://10.0.0.1:8786``; its workers need this package and must see the
        same files.

    Raises
    ------
    UpstreamError
        The scheduler does not answer.
    UsageError
        dask is not installed, or fewer than one worker was asked for.
    """
    if workers is not None and workers < 1:
        raise UsageError(f"{workers} workers can do no work; ask for 1 or more")
    count = min(workers or cores(), len(pieces))
    if scheduler is None and (count <= 1 or (workers is None and len(pieces) < _FEW)):
        yield from map(function, pieces)
        return
    with _pool(scheduler, count) as pool:
        waiting = {pool.submit(function, piece) for piece in pieces}
        try:
            for done in as_completed(waiting):
                yield done.result()
        finally:
            for future in waiting:
                future.cancel()


@contextmanager
def _pool(scheduler: str | None, count: int) -> Iterator[Executor]:
    if scheduler is None:
        # "spawn": a fork copies the locks of numba's and Arrow's threads in whatever state they are
        with ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
        return
    try:
        from distributed import Client  # noqa: PLC0415  # an extra, and slow to import
    except ImportError as error:
        raise UsageError("--scheduler needs dask: pip install 'foreshock[dask]'") from error
    try:
        client = Client(scheduler, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise UpstreamError(f"no Dask scheduler answers at {scheduler}: {error}") from error
    with client, client.get_executor(retries=3) as executor:
        yield executor
