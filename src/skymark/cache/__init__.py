"""What lies on this disk and can be made again: data sets and venvs."""
