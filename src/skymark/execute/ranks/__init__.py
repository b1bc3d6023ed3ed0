"""Ranks: which of several workers a process is, as its variables tell it."""
