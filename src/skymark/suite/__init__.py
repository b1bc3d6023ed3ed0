"""The contract of a suite, and the registry of those that are installed."""
