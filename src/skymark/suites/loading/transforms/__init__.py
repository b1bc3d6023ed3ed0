"""The NumPy reference of the scenarios' work."""
