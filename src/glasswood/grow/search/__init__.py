"""One tree from rows that are ready: the compiled search, and everything about a run of it."""
