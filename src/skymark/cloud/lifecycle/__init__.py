"""Lifecycle of a run on a rented machine: price, rent, run, download, verify, end, bill."""
