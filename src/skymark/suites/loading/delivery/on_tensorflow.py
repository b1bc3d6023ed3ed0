"""TensorFlow's way to an accelerator: eager tensors made on its device, then a wait for it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName, Placed


class TensorFlow(Framework):
    """A GPU of TensorFlow, or the CPU."""

    name: ClassVar[FrameworkName] = "tensorflow"

    def __init__(self, platform: Platform, number: int) -> None:
        import tensorflow as tf

        self.tf = tf
        self.kind = platform.upper()
        number %= len(tf.config.list_logical_devices(self.kind))
        self.device = f"/{self.kind}:{number}"

    def bytes_to_move(self, value: Any) -> int:
        """Return the bytes of a tensor or an array that is not on the GPU."""
        if not isinstance(value, self.tf.Tensor):
            return int(value.nbytes)
        size: int = value.shape.num_elements() * value.dtype.size
        return 0 if self._is_there(value) else size

    def place(self, batch: Mapping[str, Any]) -> Placed:
        """Make every array anew on the device, and wait for the device.

        `tf.identity` copies between devices; on the CPU it would return the same memory.
        """
        copied = self.tf.identity if self.kind == "GPU" else self.tf.raw_ops.DeepCopy
        argument = "input" if self.kind == "GPU" else "x"
        begin_ns = time.perf_counter_ns()
        with self.tf.device(self.device):
            placed = {
                name: value
                if self._is_there(value)
                else copied(**{argument: self.tf.convert_to_tensor(value)})
                for name, value in batch.items()
            }
        if self.kind == "GPU":
            self.tf.test.experimental.sync_devices()
        return Placed(placed, time.perf_counter_ns() - begin_ns)

    def _is_there(self, value: Any) -> bool:
        return self.kind == "GPU" and "GPU" in str(getattr(value, "device", ""))
