"""Loops in parts on threads, for work that lets go of the interpreter: compiled loops, and numpy on large arrays."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_THREADS = 2


def in_parts(count: int, work: Callable[[int, int], None], at_once: int) -> None:
    """Call ``work(low, high)`` for each part of ``range(count)``.

    What a part raises is raised here, when those under way have ended.
    """
    if count <= at_once:
        work(0, count)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        for done in [pool.submit(work, low, min(low + at_once, count)) for low in range(0, count, at_once)]:
            done.result()
