"""FFCV: the adapter, its operators by scenario, and the compiled code that they run."""

from skymark.suites.loading.adapters.ffcv.adapter import FFCV

__all__ = ["FFCV"]
