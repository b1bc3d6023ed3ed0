"""Synthetic and imported data, the canonical form, and shared storage formats."""
