"""The NumPy reference of every transform."""
