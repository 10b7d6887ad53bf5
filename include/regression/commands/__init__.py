"""Command lines of every stage, rendered from a RunSpec by pure functions. Differences between releases live here."""
