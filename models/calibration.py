"""A model's score put on a scale of its own quiet time, so that folds, models and thresholds can be compared."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.persistence import persist
from models.scorers import Floats, Place, quiet_rows, squash, unsquash
from models.tails import Tails

_OVERLAP = 4.0


class Calibration:
    """Raw scores to scores of [0, 1): ``1 - 2 ** -surprise`` after persistence.

    Quiet windows in which the node's work changes are judged among their like, when there are enough of them.

    Attributes
    ----------
    raw
        Tails of the raw score, steady and changing windows.
    final
        Tails of what persistence makes of it.
    windows
        That must agree before a score counts fully.
    """

    def __init__(self, raw: Tails, final: Tails, windows: int) -> None:
        self.raw, self.final, self.windows = raw, final, windows

    @classmethod
    def fit(cls, score: Floats, where: Place, changing: NDArray[np.bool_], y: Any, windows: int) -> Self:
        """Learn from the quiet rows' raw scores, best from scores of rows the model was not fitted on."""
        quiet = quiet_rows(y, len(score))
        odd = unsquash(score)
        steady, moving = odd[quiet & ~changing], odd[quiet & changing]
        if len(moving) < 200:  # too few for a tail of their own
            steady = moving = odd[quiet]
        raw = Tails.fit(np.column_stack(_even(steady, moving)), overlap=_OVERLAP)
        held = cls(raw, raw, windows)
        kept = persist(held.surprise(score, changing), where, windows)
        return cls(raw, Tails.fit(kept[quiet][:, None], overlap=_OVERLAP), windows)

    def surprise(self, score: Floats, changing: NDArray[np.bool_]) -> Floats:
        """-log10 of the share of like quiet windows with a raw score as high."""
        odd = unsquash(score)
        return np.where(changing, self.raw.one(odd, 1), self.raw.one(odd, 0))

    def apply(self, score: Floats, where: Place, changing: NDArray[np.bool_]) -> Floats:
        """Calibrated scores."""
        return squash(self.final.one(persist(self.surprise(score, changing), where, self.windows)))

    def to_state(self) -> dict[str, Any]:
        """Plain arrays."""
        return {"raw": self.raw.to_state(), "final": self.final.to_state(), "windows": self.windows}

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> Self:
        """What `to_state` gave."""
        return cls(Tails.from_state(state["raw"]), Tails.from_state(state["final"]), int(state["windows"]))


def _even(*columns: Floats) -> list[Floats]:
    """The columns padded with NaN to one length."""
    most = max(len(column) for column in columns)
    return [np.pad(column, (0, most - len(column)), constant_values=np.nan) for column in columns]
