"""Statistics of rounds: intervals, differences, stopping rules and stability. Pure functions."""
