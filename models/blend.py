"""Several models that must agree."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from models.scorers import Floats, Reason, Scorer, squash, strongest, unsquash


class Blend(Scorer):
    """Reads calibrated scores, a column a model, and lets the second opinion confirm the first.

    The score is a mean of the largest surprise and the second largest: single models are unstable over time, and a
    failure that one model sees is rarely unseen by all the others.

    Parameters
    ----------
    agreement
        Weight of the second largest; 0 is the largest alone.
    """

    def __init__(self, *, agreement: float = 0.5) -> None:
        self.agreement = agreement

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:  # noqa: ARG002  # nothing is learned from y
        """Remember the models' names."""
        self.checked(X, fitting=True, weight=sample_weight)
        self.fitted_ = True
        return self

    def _surprises(self, X: Any) -> Floats:
        return unsquash(np.clip(np.nan_to_num(self.checked(X)), 0.0, 1.0))

    def score(self, X: Any, y: Any = None) -> Floats:  # noqa: ARG002  # scikit-learn's signature
        """The agreed score."""
        odd = -np.sort(-self._surprises(X), axis=1)
        second = odd[:, min(1, odd.shape[1] - 1)]
        return squash((1 - self.agreement) * odd[:, 0] + self.agreement * second)

    def explain(self, X: Any, most: int = 5) -> list[list[Reason]]:
        """Models by their surprise."""
        return strongest(self._surprises(X), self.columns(), most)
