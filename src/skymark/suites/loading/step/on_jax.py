"""JAX's training steps, on one device: compiled, and timed by the clock until it is done.

JAX has no clock of the device's own, so that the start of a step on it is in its time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax import lax
from jax import numpy as jnp

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.on_jax import Jax
from skymark.suites.loading.devices import HOST
from skymark.suites.loading.step import jax_networks
from skymark.suites.loading.step.calibration import (
    FLOPS_PER_IMAGE,
    Calibrated,
    calibrated_by,
    peak_flops_per_s,
)
from skymark.suites.loading.step.step import IMAGE_SIDE, SEED, Step, StepKind

RATE, MOMENTUM = 1e-4, 0.9

Loss = Callable[[Any, Any], Any]
"""From a network's weights and inputs to a number."""


def jax_step(kind: StepKind, platform: Platform, number: int, images: Sequence[str]) -> Step:
    """Return a step on a device; `images` are the fields that a network of images is trained on."""
    if kind.ms is None:
        return ImageStep(kind.network, platform, number, images)
    return SquareStep(platform, number, calibrated_on(kind.ms, platform, number))


class JaxStep(Step):
    """A network's weights and momentum on a device, and its compiled updates."""

    loops: ClassVar[bool] = False
    """Whether a step has a number of updates that changes without compiling anew."""

    def __init__(
        self, platform: Platform, number: int, make: Callable[[Any], Any], loss: Loss
    ) -> None:
        self.framework = Jax(platform, number)
        self.updates = 1
        with jax.default_device(self.framework.device):
            self._weights = make(jax.random.key(SEED))
            self._momentum = jax.tree.map(jnp.zeros_like, self._weights)
        self._updated = jax.jit(partial(updated, loss), donate_argnums=(0, 1))

    def fields(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return all fields as arrays of the device."""
        there = {
            name: value
            for name, value in batch.items()
            if isinstance(value, jax.Array) and value.devices() == {self.framework.device}
        }
        placed = self.framework.place({n: batch[n] for n in batch if n not in there})
        return {**placed.fields, **there}

    def train(self, inputs: Any) -> int:
        """Make the updates of a step."""
        begin = time.perf_counter_ns()
        updates = np.int32(self.updates) if self.loops else None
        made = self._updated(self._weights, self._momentum, inputs, updates)
        self._weights, self._momentum = jax.block_until_ready(made)
        return time.perf_counter_ns() - begin


def updated(loss: Loss, weights: Any, momentum: Any, inputs: Any, updates: Any) -> tuple[Any, Any]:
    """Return weights and momentum after so many updates by gradient descent with momentum.

    With None it is one, without a loop, which would ask the device before each whether to go on.
    """

    def update(_: Any, state: tuple[Any, Any]) -> tuple[Any, Any]:
        weights, momentum = state
        gradients = jax.grad(loss)(weights, inputs)
        momentum = jax.tree.map(lambda m, g: MOMENTUM * m + g, momentum, gradients)
        return jax.tree.map(lambda w, m: w - RATE * m, weights, momentum), momentum

    if updates is None:
        return update(0, (weights, momentum))
    made: tuple[Any, Any] = lax.fori_loop(0, updates, update, (weights, momentum))
    return made


class ImageStep(JaxStep):
    """A step of a network that classifies images: in bfloat16 on an accelerator."""

    def __init__(
        self, network: str, platform: Platform, number: int, images: Sequence[str]
    ) -> None:
        make, scores = {
            "resnet50": (jax_networks.resnet50, jax_networks.resnet50_scores),
            "vit_b16": (jax_networks.vit_b16, jax_networks.vit_b16_scores),
        }[network]
        self.images = tuple(images)
        self._kind = jnp.float32 if platform == HOST else jnp.bfloat16
        self._flops_per_image = FLOPS_PER_IMAGE[network]
        super().__init__(platform, number, make, partial(first_class_loss, scores))
        if platform != HOST:
            self.peak_flops_per_s = peak_flops_per_s(self.framework.device.device_kind)

    def inputs(self, batch: Mapping[str, Any]) -> Any:
        """Return ``[n, side, side, 3]``, all views of all elements in one."""
        fields = self.fields({name: batch[name] for name in self.images})
        images = jnp.concatenate(list(fields.values())).astype(self._kind)
        if images.shape[1:3] != (IMAGE_SIDE, IMAGE_SIDE):
            images = jax.image.resize(images, (len(images), IMAGE_SIDE, IMAGE_SIDE, 3), "bilinear")
        return jax.block_until_ready(images)

    def flops(self, inputs: Any) -> int:
        """Return those of all images, forward and backward."""
        return len(inputs) * self._flops_per_image


def first_class_loss(scores: Loss, weights: Any, images: Any) -> Any:
    """Return the cross-entropy where all are of the first class: what is learned is no figure."""
    weights = jax.tree.map(lambda one: one.astype(images.dtype), weights)
    found = scores(weights, images).astype(jnp.float32)
    return -jax.nn.log_softmax(found)[:, 0].mean()


class SquareStep(JaxStep):
    """A step of so many updates of a square network."""

    loops: ClassVar = True

    def __init__(self, platform: Platform, number: int, size: Calibrated) -> None:
        make = partial(jax_networks.square, width=size.width)
        super().__init__(platform, number, make, square_loss)
        self.updates = size.updates
        with jax.default_device(self.framework.device):
            self.start = jnp.eye(size.width)

    def inputs(self, batch: Mapping[str, Any]) -> Any:
        """Return ``[width, width]`` in which every value of the batch has a part."""
        means = [value.astype(jnp.float32).mean() for value in self.fields(batch).values()]
        mean = jnp.nan_to_num(jnp.stack(means).mean()).clip(-1, 1)
        return jax.block_until_ready(self.start + mean)


def square_loss(weights: Any, x: Any) -> Any:
    """Return the mean square of the outputs."""
    return jnp.square(jax_networks.square_outputs(weights, x)).mean()


@lru_cache
def calibrated_on(ms: float, platform: Platform, number: int) -> Calibrated:
    """Return the size of a step that takes so long on a device; found once per process."""
    return calibrated_by(ms, partial(SquareStep, platform, number))
