"""What a command's stages cost: seconds of each, and the most memory it held."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Iterator
from typing import Any


class Costs:
    """A clock for stages that follow one another."""

    def __init__(self) -> None:
        self.stages: dict[str, float] = {}
        self._began, self._cpu = time.perf_counter(), _cpu()

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add what is done inside to a stage."""
        began = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - began)

    def add(self, name: str, seconds: float) -> None:
        """Add seconds that were measured elsewhere."""
        self.stages[name] = self.stages.get(name, 0.0) + seconds

    def told(self) -> dict[str, Any]:
        """``stages`` (name to seconds), ``seconds`` and ``cpu_seconds`` of all, ``peak_mebibytes``; ready for JSON."""
        return {
            "stages": {name: round(seconds, 3) for name, seconds in self.stages.items()},
            "seconds": round(time.perf_counter() - self._began, 3),
            "cpu_seconds": round(_cpu() - self._cpu, 3),
            # of this process since its start, and of its largest child; Linux counts in KiB
            "peak_mebibytes": max(_usage(who).ru_maxrss for who in _WHO) // 1024,
        }


_WHO = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)


def _usage(who: int) -> resource.struct_rusage:
    return resource.getrusage(who)


def _cpu() -> float:
    """Seconds of processor time of this process and of those it has waited for."""
    return sum(used.ru_utime + used.ru_stime for used in map(_usage, _WHO))


def words(told: dict[str, Any]) -> str:
    """In a line, the dearest stage first."""
    dear = sorted(told["stages"].items(), key=lambda item: -item[1])
    said = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in dear if seconds >= 0.5)
    whole = f"{told['seconds']:.0f} s ({told['cpu_seconds']:.0f} s of processor), {told['peak_mebibytes']} MiB at most"
    return f"{whole}: {said}" if said else whole
