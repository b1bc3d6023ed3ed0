"""TorchCodec: the adapter, and its operators by scenario."""

from skymark.suites.loading.adapters.torchcodec.adapter import TorchCodec

__all__ = ["TorchCodec"]
