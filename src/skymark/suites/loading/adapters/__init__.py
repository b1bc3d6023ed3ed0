"""Adapters: a module per library, or a package where it has operators of its own."""
