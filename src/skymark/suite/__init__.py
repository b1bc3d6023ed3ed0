"""Contract of a suite, and the registry of installed suites."""
