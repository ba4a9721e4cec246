"""A made-up GPU cluster, exported in the formats that real ones use."""

from pipelines.simulate.habits import STUDY, Habits
from pipelines.simulate.run import simulate

__all__ = ["STUDY", "Habits", "simulate"]
