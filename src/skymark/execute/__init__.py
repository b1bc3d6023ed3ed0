"""Execution of a plan: venvs, worker processes, rounds. It knows no suite."""
