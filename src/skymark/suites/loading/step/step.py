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

    @abstractmethod
    def inputs(self, batch: Mapping[str, Any]) -> Any:
        """Return the network's inputs, made on the device of a model's fields, and wait for them.

        Fields that lie on the host are copied.
        """

    @abstractmethod
    def train(self, inputs: Any) -> int:
        """Make one step, wait for the device, and return the nanoseconds in which it computed."""
