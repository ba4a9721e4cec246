"""One file for each outlet."""
