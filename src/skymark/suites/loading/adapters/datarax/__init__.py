"""Datarax: the adapter, JAX operators, and elements as Datarax's sources."""

from skymark.suites.loading.adapters.datarax.adapter import Datarax

__all__ = ["Datarax"]
