"""The frameworks that put batches on an accelerator, by name."""

from __future__ import annotations

from skymark.model.machine import Platform
from skymark.suites.loading.delivery.framework import Framework, FrameworkName
from skymark.suites.loading.delivery.on_jax import Jax
from skymark.suites.loading.delivery.on_tensorflow import TensorFlow
from skymark.suites.loading.delivery.on_torch import Torch

FRAMEWORKS: dict[FrameworkName, type[Framework]] = {
    cls.name: cls for cls in (Jax, TensorFlow, Torch)
}


def framework_named(name: FrameworkName, platform: Platform, number: int) -> Framework:
    """Start a framework on a device of a platform."""
    return FRAMEWORKS[name](platform, number)
