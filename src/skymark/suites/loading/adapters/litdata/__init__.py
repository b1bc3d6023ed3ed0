"""LitData: the adapter, and its mixture of several sources."""

from skymark.suites.loading.adapters.litdata.adapter import LitData

__all__ = ["LitData"]
