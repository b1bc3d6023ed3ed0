"""tf.data: the adapter, TensorFlow's operators, and how TensorFlow reads raw elements."""

from skymark.suites.loading.adapters.tfdata.adapter import TfData

__all__ = ["TfData"]
