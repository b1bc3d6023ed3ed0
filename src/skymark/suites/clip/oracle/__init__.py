"""Proof of what was scored: which images, labels and prompts, by which model."""
