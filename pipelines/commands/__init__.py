"""The verbs a person types: each parses, calls and prints; the work is elsewhere."""
