"""The files of a folder that the user named."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def files_in(top: Path) -> Iterator[Path]:
    """Files in a folder and those below it, but for hidden ones; a link to a folder is followed, once."""
    seen: set[str] = set()
    for folder, inner, names in os.walk(top, followlinks=True):
        real = os.path.realpath(folder)
        if real in seen:
            inner.clear()
            continue
        seen.add(real)
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        yield from (Path(folder) / name for name in names if not name.startswith((".", "README")))
