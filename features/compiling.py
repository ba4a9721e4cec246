"""Functions compiled on first call and kept for the next run, under a name that covers all the code in them.

numba keeps compiled code beside the module, in NUMBA_CACHE_DIR or in the user's cache, and holds it for fresh as
long as the function's own file is unchanged. But the code of a kernel holds a copy of every compiled function it
calls, from whatever file: after an upgrade it would run with the old ones inside. And it knows a file by its time and
size, which two versions may share: some builds give every file one time. So here the stamp is one digest of all files
that hold compiled code, of this folder and of the function's own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from glob import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar, cast

from numba import njit
from numba.core.caching import FunctionCache

Kernel = TypeVar("Kernel", bound=Callable[..., Any])
_MARKS = (b"\n@compiled\n", b"\n@part\n", b"\n@intrinsic\n")


@lru_cache(maxsize=8)
def digest(package: str) -> bytes:
    """SHA-256 of the files that hold compiled code, in this folder and in a package's, and of this file."""
    whole = hashlib.sha256()
    for folder in sorted({str(__package__), package}):
        for file in sorted(files(folder).iterdir(), key=lambda file: file.name):
            if not file.name.endswith(".py"):
                continue
            text = file.read_bytes()
            if file.name == "compiling.py" or any(mark in text for mark in _MARKS):
                whole.update(f"{folder}/{file.name}".encode() + b"\0" + hashlib.sha256(text).digest())
    return whole.digest()


class _Cache(FunctionCache):
    """numba's cache of one function, which is stale when any compiled code of ours has changed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]  # numba's types have none
        known = digest(function.__module__.rpartition(".")[0])
        file = self._cache_file
        file._source_stamp = (file._source_stamp, known)  # noqa: SLF001  # numba has no public way
        # numba writes its index before the code: under one name for all versions another process would, in between,
        # load the former version's code
        self._former = file._data_name_pattern.format(number=0).removesuffix(".0.nbc")  # noqa: SLF001  # see above
        self._own = f"{self._former}.{known.hex()[:12]}"
        file._data_name_pattern = f"{self._own}.{{number:d}}.nbc"  # noqa: SLF001  # see above

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep compiled code, and remove what other versions of the function left."""
        super().save_overload(sig, data)  # type: ignore[no-untyped-call]  # numba's types have none
        for file in Path(self.cache_path).glob(f"{escape(self._former)}.*.nbc"):
            if not file.name.startswith(f"{self._own}."):
                with suppress(OSError):  # another user's, or gone already
                    file.unlink()


def compiled(function: Kernel) -> Kernel:
    """Compile on first call and keep the code; other threads run while it does.

    Where it can't be kept the program still runs, and compiles again each time.
    """
    made: Any = njit(error_model="numpy", nogil=True)(function)
    with suppress(RuntimeError):  # numba: "no locator available"
        made._cache = _Cache(function)  # noqa: SLF001  # what numba's own enable_caching does
    return cast("Kernel", made)


def part(function: Kernel) -> Kernel:
    """Compile for use within other compiled functions alone: without a way in from Python, in two thirds of the time.

    Kept within the code of those that call it.
    """
    options: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # numba's types know them not
    return cast("Kernel", njit(error_model="numpy", **options)(function))
