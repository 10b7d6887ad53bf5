"""Reports from the store, for the terminal and for files."""
