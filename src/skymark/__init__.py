"""Benchmark machine-learning input pipelines and models, with proof that the work was equal."""

__version__ = "0.1.0"
