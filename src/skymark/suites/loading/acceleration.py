"""Acceleration of a library: how it sees accelerators, and its builds for them.

An adapter's batches stay where the library puts them; what is stated here decides which packages
it gets on a machine with an accelerator, and who is asked whether it is seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from skymark.model.platform import Platform, Target
from skymark.suite.contract import SeenBy


@dataclass(frozen=True)
class Acceleration:
    """The part that a library, as its adapter uses it, has for accelerators."""

    seen_by: Mapping[Platform, SeenBy] = field(default_factory=dict)
    """The library that has to compute on a platform's accelerator before anything is measured. A
    platform that is not named is none of its business: it works on the host there."""
    pins: Mapping[Target, str] = field(default_factory=dict)
    """Suffixes of requirement files, as ``gpu`` of ``grain.gpu.txt``; the usual file does for
    targets that are not named."""
    distributions: Mapping[Target, str] = field(default_factory=dict)
    """The package whose version counts, where it is another than usual."""
    variables: Mapping[Platform, Mapping[str, str]] = field(default_factory=dict)
    """Environment variables of the worker, besides those of every platform."""


HOST_ONLY = Acceleration()

TORCH = Acceleration(seen_by={"gpu": "torch"}, pins={"cuda12": "gpu"})
"""The usual pins have the newest torch, whose wheel is for CUDA 13. It knows no TPU by itself."""

TORCH_FROM_HOST = Acceleration(pins={"cuda12": "gpu"})
"""Of libraries that work on the host, and use torch for batches that go to a GPU."""

JAX = Acceleration(
    seen_by={"gpu": "jax", "tpu": "jax"},
    pins={"cuda12": "gpu", "cuda13": "gpu-cuda13", "tpu": "tpu"},
    # Else the first of several ranks takes 75 % of a GPU's memory, and the next finds too little.
    variables={"gpu": {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}},
)
