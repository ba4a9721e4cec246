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
    Without labels, and where none is clearly better, the first leads.

    Parameters
    ----------
    support
        Weight of the mean of the others; 0 is the leader alone.
    """

    def __init__(self, *, support: float = 0.2) -> None:
        self.support = support

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Choose the leader."""
        values = self.checked(X, fitting=True, weight=sample_weight)
        self.lead_ = 0
        if y is not None and values.shape[1] > 1:
            odd, where, label = _surprises(values), place(X), np.asarray(y, dtype=np.float64)
            caught = [_caught(self._mixed(odd, lead), where, label) for lead in range(odd.shape[1])]
            best = int(np.argmax(caught))
            self.lead_ = best if caught[best] > _CLEARLY * caught[0] else 0
        return self

    def _mixed(self, odd: Floats, lead: int) -> Floats:
        if odd.shape[1] == 1:
            return odd[:, 0]
        others: Floats = np.delete(odd, lead, axis=1).mean(axis=1)
        return np.asarray((1 - self.support) * odd[:, lead] + self.support * others)

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The confirmed score."""
        return squash(self._mixed(_surprises(self.checked(X)), self.lead_))

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Models by what they give to the score."""
        odd = _surprises(self.checked(X))
        given = odd * (self.support / max(odd.shape[1] - 1, 1))
        given[:, self.lead_] = odd[:, self.lead_] * (1 - self.support)
        return strongest(given, self.columns(), most)


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
