"""Training steps: their kinds, as ``--step`` names them, and the wait for one update."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal

from skymark.model.base import Frozen
from skymark.suites.loading.delivery.framework import Framework, FrameworkName

IMAGE_SIDE = 224
"""Pixels; images of another side are resized to it on the device, as networks have one size."""

CLASSES = 1000
"""Outputs of a network of images, as ImageNet has classes."""

SEED = 0
"""Seed of a network's initial weights."""


class Step(ABC):
    """A step of one network on one device of a framework."""

    launch_ns: int | None = None
    """Time in which the latest step was handed to the device; None where it cannot be told from
    the step's own, as on the CPU."""
    peak_flops_per_s: float | None = None
    """Peak of the device, in the network's precision; None if unknown."""
    flops_per_image: int = 0
    """Floating-point operations, forward and backward; 0 where they are not counted."""

    framework: Framework

    def fields(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return all fields as arrays of the device; its own arrays stay."""
        there = {name: value for name, value in batch.items() if self.framework.has(value)}
        placed = self.framework.place({n: batch[n] for n in batch if n not in there})
        self.framework.receive(placed.fields)
        return {**placed.fields, **there}

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
        return len(inputs) * self.flops_per_image


Network = Literal["resnet50", "vit_b16", "mlp"]

IMAGE_NETWORKS: tuple[Network, ...] = ("resnet50", "vit_b16")
"""Networks that are trained on images, and so on scenarios that deliver such."""

IMAGE_BATCH = 256
"""Images per step on an accelerator, where no batch size is given."""

LEAST_MS, MOST_MS = 0.1, 1000.0
"""Bounds of a calibrated step: below, starting it takes as long as it does; above, finding its size
takes too long."""

TRAINED_BY: Mapping[FrameworkName, str] = {"jax": "JAX", "torch": "PyTorch"}
"""The frameworks that have steps."""


class StepKind(Frozen):
    """A network to train, and for how long one step is to take where it is calibrated."""

    network: Network
    ms: float | None = None

    @classmethod
    def parse(cls, text: str) -> StepKind:
        """Return the kind that ``resnet50``, ``vit_b16`` or ``mlp:MS`` names.

        Raises:
            ValueError: it names none.
        """
        for network in IMAGE_NETWORKS:
            if text == network:
                return cls(network=network)
        name, _, number = text.partition(":")
        if name != "mlp":
            raise ValueError(f"choose from {', '.join(IMAGE_NETWORKS)} and mlp:MS, such as mlp:5")
        try:
            ms = float(number)
        except ValueError:
            ms = math.nan
        if not LEAST_MS <= ms <= MOST_MS:
            raise ValueError(
                f"mlp:MS takes the milliseconds of a step, {LEAST_MS:g} to {MOST_MS:g}, such as "
                "mlp:5"
            )
        return cls(network="mlp", ms=ms)
