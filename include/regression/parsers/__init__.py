"""What the tools print or write, turned into typed values by pure functions."""
