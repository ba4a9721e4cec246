"""From a matrix of windows to scores, and how good they are."""
