"""Stores of runs: kinds, upload, reading back, fetching."""
