"""Platforms of machines, and the targets that packages are built for."""

from __future__ import annotations

from typing import Literal

Platform = Literal["cpu", "gpu", "tpu"]
"""The kind of machine that a plan asks for."""

Target = Literal["cpu", "cuda12", "cuda13", "tpu"]
"""The kind of machine that packages are built for: those for a GPU depend on CUDA's version."""


def usual_target(platform: Platform) -> Target:
    """Return the target whose packages work on every machine of a platform, whatever its driver."""
    return "cuda12" if platform == "gpu" else platform


def platform_of(target: Target) -> Platform:
    """Return the platform that a target belongs to."""
    return "gpu" if target in {"cuda12", "cuda13"} else "tpu" if target == "tpu" else "cpu"
