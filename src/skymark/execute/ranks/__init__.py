"""Ranks: a process's number among several workers, from its environment variables."""
