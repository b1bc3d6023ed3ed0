"""Torchvision: the adapter, and its operators by scenario."""

from skymark.suites.loading.adapters.torchvision.adapter import Torchvision

__all__ = ["Torchvision"]
