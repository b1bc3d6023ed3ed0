"""Stores of runs: kinds, upload, verification and download."""
