"""What the models floor can be told, with defaults."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal

from pydantic import Field

from features.settings import Duration, Settings

Protocol = Literal["node", "class", "chronological"]


class EvaluationSettings(Settings):
    """How a model is judged."""

    budget_per_day: float = Field(default=0.84, gt=0, allow_inf_nan=False)
    """The published study's figure, to compare with it."""
    curve_budgets: tuple[float, ...] = (0.25, 0.5, 0.84, 1.0, 2.0, 5.0)
    """False alarms a day at which the curve is read."""
    merge: Duration = timedelta(minutes=15)
    """Scores over the threshold nearer than this are one episode."""
    permutations: int = Field(default=2000, ge=200)
    """Cheap: alarms stay, failure times move."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Of every interval."""
    embargo: Duration = timedelta(minutes=60)
    """Quiet time beside a left-out failure that is kept from training."""
    quiet_folds: int = Field(default=5, ge=2)
    """Parts that quiet time is dealt to."""
    most_folds: int = Field(default=30, ge=2)
    """With more incidents than this, neighbours in time share a fold."""
    protocols: tuple[Protocol, ...] = ("node", "class", "chronological")
    """The champion is judged by these too, beside leaving one failure out."""


class ModelSettings(Settings):
    """Which models are trained, and how."""

    names: tuple[str, ...] = ("blend", "lightgbm", "isolation-forest", "robust-z")
    """The models to train; the baselines always stand beside them."""
    seed: int = 0
    """Of everything drawn at random."""
    threads: int = Field(default=1, ge=0)
    """0: all cores; two that wait for each other on a busy machine are far slower."""
    quiet_windows: int = Field(default=50_000, ge=100)
    """Windows without failure kept for fitting, weighted up."""
    persistence: int = Field(default=3, ge=1)
    """Windows that must agree before a score counts fully."""
    options: dict[str, dict[str, int | float]] = Field(default_factory=dict)
    """A model's own parameters by its name, as 'foreshock tune' finds them: {"lightgbm": {"leaves": 8}}."""
