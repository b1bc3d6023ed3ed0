"""The user's own loaders: a function of a Python file that makes one, timed as a loop uses it."""
