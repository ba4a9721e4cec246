"""Functions compiled on first call and kept for the next run, under a name that covers all the code in them.

numba keeps compiled code beside the module, in NUMBA_CACHE_DIR or in the user's cache, and holds it for fresh as
long as the function's own file is unchanged. But the code of a kernel holds a copy of every compiled function it
calls, from whatever file: after an upgrade it would run with the old ones inside. So here the stamp is one digest of
all files of this folder that hold compiled code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib.resources import files
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_MARKS = (b"\n@compiled\n", b"\n@part\n", b"\n@intrinsic\n")


@lru_cache(maxsize=1)
def digest() -> bytes:
    """SHA-256 of this folder's files that hold compiled code, and of this one."""
    whole = hashlib.sha256()
    for file in sorted(files(__package__).iterdir(), key=lambda file: file.name):
        if not file.name.endswith(".py"):
            continue
        text = file.read_bytes()
        if file.name == "compiling.py" or any(mark in text for mark in _MARKS):
            whole.update(file.name.encode() + b"\0" + hashlib.sha256(text).digest())
    return whole.digest()


class _Cache(FunctionCache):
    """numba's cache of one function, which is stale when any compiled code of ours has changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]  # numba's types have none
        self._cache_file._source_stamp = (self._cache_file._source_stamp, digest())  # noqa: SLF001  # numba has no public way


def compiled(function: Kernel) -> Kernel:
    """Compile on first call and keep the code.

    Where it can't be kept the program still runs, and compiles again each time.
    """
    made: Any = njit(error_model="numpy")(function)
    with suppress(RuntimeError):  # numba: "no locator available"
        made._cache = _Cache(function)  # noqa: SLF001  # what numba's own enable_caching does
    return cast("Kernel", made)


def part(function: Kernel) -> Kernel:
    """Compile for use within other compiled functions alone: without a way in from Python, in two thirds of the time.

    Kept within the code of those that call it.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # numba's types know them not
    return cast("Kernel", njit(error_model="numpy", **options)(function))
