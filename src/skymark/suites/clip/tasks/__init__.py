"""Metrics of the tasks: pure functions of features and labels."""
