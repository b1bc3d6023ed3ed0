"""Families of work, each found by its entry point of the group `skymark.suites`."""
