"""Lifecycle of a run on a rented machine: price, hire, run, download, verify, end, bill."""
