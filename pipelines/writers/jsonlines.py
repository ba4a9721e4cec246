"""Scores as JSON lines: one file a window end, one line a node."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from features.tables import ForeshockError
from pipelines import console
from pipelines.store import replace_file


def write(folder: Path, stamp: str, rows: Sequence[dict[str, Any]]) -> Path:
    """Put a window's rows in ``FOLDER/STAMP.jsonl``; the same window again is the same file.

    Raises
    ------
    ForeshockError
        The disk is full or refuses; what was there is kept.
    """
    path = folder / f"{stamp}.jsonl"
    content = "".join(console.to_json(row) for row in rows).encode()
    save(path, content)
    return path


def save(path: Path, content: bytes) -> None:
    """Replace a file whole, or say in one line why not."""
    try:
        replace_file(path, content)
    except OSError as error:
        raise ForeshockError(f"{path} can't be written: {error.strerror}") from error
