"""From tables to one row per window: pure functions, no disk, no network."""
