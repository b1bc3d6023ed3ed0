"""Drives: a module per way of running and timing loaders, named by `Scenario.drive`."""
