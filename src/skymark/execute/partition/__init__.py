"""Splits of numbered items, or of a plan's cells, between workers."""
