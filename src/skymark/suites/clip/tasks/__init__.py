"""Metrics of the tasks, as pure functions of features and labels."""
