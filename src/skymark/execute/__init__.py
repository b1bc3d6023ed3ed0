"""Carrying out a plan: environments, worker processes, rounds. Knows no suite."""
