"""The contract of a suite, and how suites are found."""
