"""One file for each foreign format that comes in."""
