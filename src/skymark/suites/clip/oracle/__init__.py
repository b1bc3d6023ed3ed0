"""Proof of the scored images, labels, prompts and model."""
