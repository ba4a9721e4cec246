"""Several models: one leads, the others confirm."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from models.persistence import hourly, stride
from models.scorers import Floats, Place, Reason, Scorer, place, quiet_rows, squash, strongest, unsquash

_BORNE = (4, 8, 16, 32)  # quiet node-hours that alarms may take
_APART = 12  # windows between two warnings of a node
# A learned model has seen its training's failures in part, whatever is done to keep them apart: it leads only where it
# catches half as many again as the first
_CLEARLY = 1.5


class Blend(Scorer):
    """Reads calibrated scores, a column a model, and lets the other opinions confirm the leader's.

    Single models are unstable over time, and a failure that one model sees is rarely unseen by all the others. Which
    model leads is learned: the one that, so confirmed, puts most of the known warnings above all but a few quiet
    node-hours. On clusters whose failures repeat a learned model may lead; where each is new, what is merely odd does.
    Without labels, and where none is clearly better, the first leads. How much another one confirms is learned as well:
    its part is as much smaller as it alone catches less than the leader alone.

    Parameters
    ----------
    support
        Weight of the mean of the others where they catch as much as the leader; 0 is the leader alone.
    """

    def __init__(self, *, support: float = 0.2) -> None:
        self.support = support

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the leader, and how much the others confirm."""
        values = self.checked(X, fitting=True, weight=sample_weight)
        self.parts_ = self._parts(np.ones(values.shape[1]), 0)
        if y is not None and values.shape[1] > 1:
            odd, where, label = _surprises(values), place(X), np.asarray(y, dtype=np.float64)
            alone = np.array([_caught(one, where, label) for one in odd.T], dtype=np.float64)
            if not alone.any():  # nothing is known of who sees what
                return self
            parts = [self._parts(alone, lead) for lead in range(odd.shape[1])]
            caught = [_caught(odd @ part, where, label) for part in parts]
            best = int(np.argmax(caught))
            self.parts_ = parts[best if caught[best] > _CLEARLY * caught[0] else 0]
        return self

    def _parts(self, caught: Floats, lead: int) -> Floats:
        """What of the score each model gives, [K], when one leads, by what each catches alone."""
        parts: Floats = np.minimum(caught / max(caught[lead], 1.0), 1.0) * self.support / max(len(caught) - 1, 1)
        parts[lead] = 0.0
        parts[lead] = 1 - parts.sum()
        return parts

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The confirmed score."""
        return squash(_surprises(self.checked(X)) @ self.parts_)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Models by what they give to the score."""
        return strongest(_surprises(self.checked(X)) * self.parts_, self.columns(), most)


def _surprises(values: NDArray[Any]) -> Floats:
    return unsquash(np.clip(np.nan_to_num(values), 0.0, 1.0))


def _caught(score: Floats, where: Place, label: Floats) -> int:
    """Warnings with a score above all but a few quiet node-hours, summed over several numbers of these."""
    warned, quiet = label == 1, quiet_rows(label, len(label))
    if not warned.any() or not quiet.any():
        return 0
    largest = np.sort(hourly(score[quiet][:, None], _part(where, quiet))[:, 0])[::-1]
    rows = where.order[warned[where.order]]
    node, end = where.node[rows], where.end[rows]
    begins = np.r_[True, (node[1:] != node[:-1]) | (np.diff(end) > _APART * stride(where.node, where.end))]
    best = np.maximum.reduceat(score[rows], np.flatnonzero(begins))
    return int(sum((best > largest[min(number, len(largest) - 1)]).sum() for number in _BORNE))


def _part(where: Place, wanted: NDArray[np.bool_]) -> Place:
    """The places of some rows."""
    number = np.cumsum(wanted) - 1
    return Place(where.node[wanted], where.end[wanted], number[where.order[wanted[where.order]]])
