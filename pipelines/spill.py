"""A matrix that is filled a part at a time; one that is large lies in a file without a name, not in memory.

The file's pages are the kernel's to drop and read again, so what a process takes for itself stays small however long
the history is.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

IN_MEMORY = 512 << 20  # bytes up to which it is worth no file
_AT_ONCE = 32 << 20  # bytes that are moved at a time
_ROOM = 1.1  # columns that are still to come are given a tenth more place

Singles = NDArray[np.float32]


class Spill:
    """Rows [n, C] in any order, columns by name; a column that a part lacks is NaN there.

    Parameters
    ----------
    rows
        How many there will be.
    folder
        Where the file would lie.
    """

    def __init__(self, rows: int, folder: Path) -> None:
        self.rows, self.folder = rows, folder
        self.place: dict[str, int] = {}
        self.held: NDArray[np.bool_] = np.zeros(0, dtype=bool)  # by place, whether any row has a value
        self.values: Singles = np.empty((rows, 0), dtype=np.float32)
        self.filled = np.zeros(rows, dtype=bool)

    def put(self, at: NDArray[np.int64], part: pd.DataFrame) -> None:
        """Rows ``at`` of the matrix."""
        new = [str(name) for name in part.columns if name not in self.place]
        self.place |= {name: len(self.place) + number for number, name in enumerate(new)}
        if len(self.place) > self.values.shape[1]:
            self._widen()
        into = np.array([self.place[str(name)] for name in part.columns], dtype=np.int64)
        block = part.to_numpy(dtype=np.float32)
        self.held[into] |= ~np.isnan(block).all(axis=0)
        whole = np.full((min(len(block), _some(self.values)), self.values.shape[1]), np.nan, dtype=np.float32)
        for low in range(0, len(block), len(whole) or 1):
            rows = block[low : low + len(whole)]
            whole[: len(rows), into] = rows
            self.values[at[low : low + len(rows)]] = whole[: len(rows)]
        self.filled[at] = True

    def _widen(self) -> None:
        """A wider matrix with what was there; its new columns are NaN in the rows that are filled."""
        width = len(self.place) if self.values.shape[1] == 0 else int(len(self.place) * _ROOM)
        old, self.values = self.values, self._made(width)
        self.held = np.append(self.held, np.zeros(width - old.shape[1], dtype=bool))
        if old.shape[1]:
            step = _some(self.values)
            for low in range(0, self.rows, step):
                if self.filled[low : low + step].any():
                    self.values[low : low + step, : old.shape[1]] = old[low : low + step]
                    self.values[low : low + step, old.shape[1] :] = np.nan

    def _made(self, width: int) -> Singles:
        if self.rows * width * 4 <= IN_MEMORY:
            return np.empty((self.rows, width), dtype=np.float32)
        with tempfile.TemporaryFile(dir=self.folder, prefix=".matrix") as file:
            made: Any = np.memmap(file, dtype=np.float32, mode="w+", shape=(self.rows, width))
        return np.asarray(made)

    def finish(self) -> tuple[Singles, list[str]]:
        """The matrix with the columns in which any row has a value, by name; nothing may be put any more."""
        names = sorted(name for name, at in self.place.items() if self.held[at])
        order = np.array([self.place[name] for name in names], dtype=np.int64)
        width = len(names)
        if self.values.shape[1] == width and (order == np.arange(width)).all():
            return self.values, names
        # moved in place: rows are written where rows were read before
        flat = self.values.reshape(-1)
        for low in range(0, self.rows, _some(self.values)):
            rows = self.values[low : low + _some(self.values)][:, order]
            flat[low * width : low * width + rows.size] = rows.reshape(-1)
        return flat[: self.rows * width].reshape(self.rows, width), names


def _some(values: Singles) -> int:
    """Rows that are moved at once."""
    return max(1, _AT_ONCE // max(1, 4 * int(values.shape[1])))
