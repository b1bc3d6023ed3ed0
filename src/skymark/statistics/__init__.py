"""Intervals, differences, stopping and stability. Pure functions."""
