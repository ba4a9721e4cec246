"""A made-up GPU cluster, exported in the formats that real ones use."""

from pipelines.simulate.run import simulate

__all__ = ["simulate"]
