"""JAX's training steps, compiled, on one device, and the networks that they train.

JAX has no clock of the device's own, so that the start of a step on it is in its time.

Weights are trees of float32 arrays; a network computes in the precision of its inputs.
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
from skymark.suites.loading.step.calibration import (
    FLOPS_PER_IMAGE,
    Calibrated,
    calibrated_by,
    peak_flops_per_s,
)
from skymark.suites.loading.step.step import CLASSES, IMAGE_SIDE, SEED, Step, StepKind

Weights = Any
"""A tree of arrays."""

STAGES = (3, 4, 6, 3)
"""Blocks of ResNet-50 by stage, of 64, 128, 256 and 512 channels inside."""

WIDTH, PATCH, LAYERS, HEADS = 768, 16, 12, 12
"""Of ViT-B/16."""

SQUARE_LAYERS = 4

NORMAL = jax.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
"""Weights with a variance that preserves the variance of their inputs (He et al., 2015)."""


def resnet50(key: Any) -> Weights:
    """Return weights of ResNet-50 (He et al., "Deep residual learning …", 2016)."""
    keys = iter(jax.random.split(key, 64))

    def layer(size: int, inputs: int, outputs: int) -> Weights:
        kernel = NORMAL(next(keys), (size, size, inputs, outputs))
        return {"kernel": kernel, "scale": jnp.ones(outputs), "shift": jnp.zeros(outputs)}

    first, blocks, inputs = layer(7, 3, 64), [], 64
    for stage, count in enumerate(STAGES):
        width = 64 << stage
        for number in range(count):
            block = {
                "before": layer(1, inputs, width),
                "wide": layer(3, width, width),
                "after": layer(1, width, 4 * width),
            }
            if number == 0:
                block["shortcut"] = layer(1, inputs, 4 * width)
            blocks.append(block)
            inputs = 4 * width
    last = {"matrix": NORMAL(next(keys), (inputs, CLASSES)), "shift": jnp.zeros(CLASSES)}
    return {"first": first, "blocks": blocks, "last": last}


def resnet50_scores(weights: Weights, images: Any) -> Any:
    """Return the classes' scores ``[B, CLASSES]`` of images ``[B, side, side, 3]``.

    Batches are normalised by their own moments, as in training; averages of these, which a model
    would be used with later, are not kept.
    """
    x = jax.nn.relu(_normalised(weights["first"], images, 2))
    window, strides = (1, 3, 3, 1), (1, 2, 2, 1)
    x = lax.reduce_window(x, -jnp.inf, lax.max, window, strides, "SAME")
    firsts = {sum(STAGES[:stage]) for stage in range(1, len(STAGES))}
    for number, block in enumerate(weights["blocks"]):
        stride = 2 if number in firsts else 1
        way = jax.nn.relu(_normalised(block["before"], x, 1))
        way = jax.nn.relu(_normalised(block["wide"], way, stride))
        shortcut = _normalised(block["shortcut"], x, stride) if "shortcut" in block else x
        x = jax.nn.relu(_normalised(block["after"], way, 1) + shortcut)
    return x.mean((1, 2)) @ weights["last"]["matrix"] + weights["last"]["shift"]


def _normalised(layer: Weights, x: Any, stride: int) -> Any:
    """Convolve, and normalise over the batch."""
    numbers = ("NHWC", "HWIO", "NHWC")
    strides = (stride, stride)
    x = lax.conv_general_dilated(x, layer["kernel"], strides, "SAME", dimension_numbers=numbers)
    mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
    return (x - mean) * lax.rsqrt(variance + 1e-5) * layer["scale"] + layer["shift"]


def vit_b16(key: Any) -> Weights:
    """Return weights of ViT-B/16 (Dosovitskiy et al., "An image is worth 16x16 words", 2021)."""
    first, last, *keys = jax.random.split(key, 2 + LAYERS)
    layers = [_transformer_layer(one) for one in keys]
    return {
        "patches": _linear(first, PATCH * PATCH * 3, WIDTH),
        "token": jnp.zeros((1, 1, WIDTH)),
        "places": jnp.zeros((1, 1 + (IMAGE_SIDE // PATCH) ** 2, WIDTH)),
        "layers": jax.tree.map(lambda *one: jnp.stack(one), *layers),
        "norm": _norm(),
        "classes": _linear(last, WIDTH, CLASSES),
    }


def vit_b16_scores(weights: Weights, images: Any) -> Any:
    """Return the classes' scores ``[B, CLASSES]`` of images ``[B, side, side, 3]``."""
    count, side = len(images), IMAGE_SIDE // PATCH
    x = images.reshape(count, side, PATCH, side, PATCH, 3).transpose(0, 1, 3, 2, 4, 5)
    x = _applied(weights["patches"], x.reshape(count, side * side, -1))
    token = jnp.broadcast_to(weights["token"], (count, 1, WIDTH))
    x = jnp.concatenate([token, x], 1) + weights["places"]
    x, _ = lax.scan(lambda x, layer: (_transformed(layer, x), None), x, weights["layers"])
    return _applied(weights["classes"], _layer_normalised(weights["norm"], x)[:, 0])


def _transformer_layer(key: Any) -> Weights:
    keys = jax.random.split(key, 4)
    return {
        "before_attention": _norm(),
        "queries": _linear(keys[0], WIDTH, 3 * WIDTH),
        "attended": _linear(keys[1], WIDTH, WIDTH),
        "before_wide": _norm(),
        "wide": _linear(keys[2], WIDTH, 4 * WIDTH),
        "narrow": _linear(keys[3], 4 * WIDTH, WIDTH),
    }


def _transformed(layer: Weights, x: Any) -> Any:
    count, places, _ = x.shape
    found = _applied(layer["queries"], _layer_normalised(layer["before_attention"], x))
    query, key, value = jnp.moveaxis(found.reshape(count, places, 3, HEADS, WIDTH // HEADS), 2, 0)
    attended = jax.nn.dot_product_attention(query, key, value).reshape(count, places, WIDTH)
    x = x + _applied(layer["attended"], attended)
    wide = jax.nn.gelu(_applied(layer["wide"], _layer_normalised(layer["before_wide"], x)))
    return x + _applied(layer["narrow"], wide)


def _linear(key: Any, inputs: int, outputs: int) -> Weights:
    return {"matrix": NORMAL(key, (inputs, outputs)), "shift": jnp.zeros(outputs)}


def _norm() -> Weights:
    return {"scale": jnp.ones(WIDTH), "shift": jnp.zeros(WIDTH)}


def _applied(layer: Weights, x: Any) -> Any:
    return x @ layer["matrix"] + layer["shift"]


def _layer_normalised(layer: Weights, x: Any) -> Any:
    return jax.nn.standardize(x, epsilon=1e-6) * layer["scale"] + layer["shift"]


def square(key: Any, width: int) -> Weights:
    """Return `SQUARE_LAYERS` square matrices."""
    return [NORMAL(one, (width, width)) for one in jax.random.split(key, SQUARE_LAYERS)]


def square_outputs(weights: Weights, x: Any) -> Any:
    """Return the outputs ``[width, width]``, a ReLU after each matrix."""
    for matrix in weights:
        x = jax.nn.relu(x @ matrix)
    return x


RATE, MOMENTUM = 1e-4, 0.9

Loss = Callable[[Any, Any], Any]
"""From a network's weights and inputs to a number."""


def jax_step(kind: StepKind, platform: Platform, number: int, images: Sequence[str]) -> Step:
    """Return a step on a device; `images` are the fields for a network of images."""
    if kind.ms is None:
        return ImageStep(kind.network, platform, number, images)
    return SquareStep(platform, number, calibrated_on(kind.ms, platform, number))


class JaxStep(Step):
    """A network's weights and momentum on a device, and its compiled updates."""

    framework: Jax
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

    def train(self, inputs: Any) -> int:
        """Make the updates of a step."""
        begin = time.perf_counter_ns()
        updates = np.int32(self.updates) if self.loops else None
        made = self._updated(self._weights, self._momentum, inputs, updates)
        self._weights, self._momentum = jax.block_until_ready(made)
        return time.perf_counter_ns() - begin


def updated(loss: Loss, weights: Any, momentum: Any, inputs: Any, updates: Any) -> tuple[Any, Any]:
    """Return weights and momentum after a number of updates by gradient descent with momentum.

    None stands for one update without a loop, which would query the device before each update.
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
            "resnet50": (resnet50, resnet50_scores),
            "vit_b16": (vit_b16, vit_b16_scores),
        }[network]
        self.images = tuple(images)
        self._kind = jnp.float32 if platform == HOST else jnp.bfloat16
        self.flops_per_image = FLOPS_PER_IMAGE[network]
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


def first_class_loss(scores: Loss, weights: Any, images: Any) -> Any:
    """Return the cross-entropy of images of the first class: no figure depends on learning."""
    weights = jax.tree.map(lambda one: one.astype(images.dtype), weights)
    found = scores(weights, images).astype(jnp.float32)
    return -jax.nn.log_softmax(found)[:, 0].mean()


class SquareStep(JaxStep):
    """A step with a number of updates of a square network."""

    loops: ClassVar = True

    def __init__(self, platform: Platform, number: int, size: Calibrated) -> None:
        make = partial(square, width=size.width)
        super().__init__(platform, number, make, square_loss)
        self.updates = size.updates
        with jax.default_device(self.framework.device):
            self.start = jnp.eye(size.width)

    def inputs(self, batch: Mapping[str, Any]) -> Any:
        """Return inputs ``[width, width]`` that depend on every value of the batch."""
        means = [value.astype(jnp.float32).mean() for value in self.fields(batch).values()]
        mean = jnp.nan_to_num(jnp.stack(means).mean()).clip(-1, 1)
        return jax.block_until_ready(self.start + mean)


def square_loss(weights: Any, x: Any) -> Any:
    """Return the mean square of the outputs."""
    return jnp.square(square_outputs(weights, x)).mean()


@lru_cache
def calibrated_on(ms: float, platform: Platform, number: int) -> Calibrated:
    """Return the size of a step with a given time on a device; found once per process."""
    return calibrated_by(ms, partial(SquareStep, platform, number))
