"""Parity of the clip suite with clip_benchmark: the same checkpoints on the same data sets."""
