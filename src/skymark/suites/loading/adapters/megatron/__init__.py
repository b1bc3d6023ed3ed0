"""Megatron Core: the adapter, its sequences on disk, and the blend of several sources."""

from skymark.suites.loading.adapters.megatron.adapter import Megatron

__all__ = ["Megatron"]
