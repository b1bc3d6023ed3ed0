"""Training steps: one update of a network's weights on one device, and the wait for it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

IMAGE_SIDE = 224
"""Pixels; images of another side are resized to it on the device, as networks have one size."""

CLASSES = 1000
"""Outputs of a network of images, as ImageNet has classes."""

SEED = 0
"""Of the weights that a network begins with."""


class Step(ABC):
    """A step of one network on one device of a framework."""

    launch_ns: int | None = None
    """Time in which the latest step was handed to the device; None where it cannot be told from
    the step's own, as on the CPU."""
    peak_flops_per_s: float | None = None
    """Of the device, in the precision in which the network computes; None where it is unknown."""

    @abstractmethod
    def inputs(self, batch: Mapping[str, Any]) -> Any:
        """Return the network's inputs, made on the device of a model's fields, and wait for them.

        Fields that lie on the host are copied.
        """

    @abstractmethod
    def train(self, inputs: Any) -> int:
        """Make one step, wait for the device, and return the nanoseconds in which it computed."""

    def prepare(self, inputs: Any) -> None:
        """Make the step twice with inputs of a shape that is new, outside of every figure.

        Compiling, and choosing algorithms, is then done for it.
        """
        for _ in range(2):
            self.train(inputs)

    def flops(self, inputs: Any) -> int:
        """Return the floating-point operations of a step; 0 where they are not counted."""
        del inputs
        return 0
