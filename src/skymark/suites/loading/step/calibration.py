"""Calibration of a step to a given time, and the operations of steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

LEAST_WIDTH, MOST_WIDTH = 32, 4096
"""Width of the square matrices, a power of two. The widest fill any accelerator; 100 MB hold all.
"""

UPDATES = 8
"""Least updates of a step, if the narrowest network allows them, so that rounding their number
changes its time by a sixteenth at most."""

TRIALS, TRIALS_NS = 5, 500_000_000
"""Most trials of one size, and their total time. The shortest counts, because workers that fill
their queues meanwhile take CPU time."""


@dataclass(frozen=True)
class Calibrated:
    """A square network's size and the updates that make one step."""

    width: int
    updates: int


def calibrated(ms: float, time_ns: Callable[[int, int], int]) -> Calibrated:
    """Return the size of a step that takes a given time.

    The network is the widest with `UPDATES` updates in this time; then the number of updates is
    fitted to the time.

    Args:
        ms: time of the step.
        time_ns: makes a step of a width and a number of updates, and returns its time.
    """
    target_ns = ms * 1e6
    width = LEAST_WIDTH
    while width < MOST_WIDTH and shortest(2 * width, UPDATES, time_ns) <= target_ns:
        width *= 2
    updates = UPDATES
    # The start of a step takes time, too, so more updates give a better time per update.
    for _ in range(2):
        took = shortest(width, updates, time_ns)
        updates = max(1, math.floor(updates * target_ns / took + 0.5))
    return Calibrated(width, updates)


class SizedStep(Protocol):
    """A step of a square network, for a calibration with several sizes."""

    updates: int
    start: Any
    """Inputs to try it with, ``[width, width]`` on its device."""

    def train(self, inputs: Any) -> int:
        """Make the updates, and return the nanoseconds in which the device computed."""


def calibrated_by(ms: float, make: Callable[[Calibrated], SizedStep]) -> Calibrated:
    """Return the size of a step that takes a given time, by trial steps.

    Only one network is in memory at a time, one for each width.
    """
    steps: dict[int, SizedStep] = {}

    def time_ns(width: int, updates: int) -> int:
        if width not in steps:
            steps.clear()
            steps[width] = make(Calibrated(width, updates))
        step = steps[width]
        step.updates = updates
        return step.train(step.start)

    return calibrated(ms, time_ns)


def shortest(width: int, updates: int, time_ns: Callable[[int, int], int]) -> int:
    """Return the shortest time of some trials, after a trial that is not counted."""
    time_ns(width, updates)
    took: list[int] = []
    while len(took) < TRIALS and sum(took) < TRIALS_NS:
        took.append(time_ns(width, updates))
    return max(1, min(took))


FLOPS_PER_IMAGE: Mapping[str, int] = {
    "resnet50": 24_299_077_632,
    "vit_b16": 105_151_758_336,
}
"""FLOP of an update with one image of 224 × 224 pixels, forward and backward, as counted by
`torch.utils.flop_counter`: two for each multiplication with addition in convolutions and products
of matrices."""

PEAKS: tuple[tuple[str, float], ...] = (
    ("GB200", 2500e12),
    ("B200", 2250e12),
    ("GH200", 990e12),
    ("H200 NVL", 835e12),
    ("H200", 989e12),
    ("H100 NVL", 835e12),
    ("H100 PCIe", 756e12),
    ("H100", 989e12),
    ("A100", 312e12),
    ("A30", 165e12),
    ("A10", 125e12),
    ("L40S", 362e12),
    ("L40", 181e12),
    ("L4", 121e12),
    ("TPU v6 lite", 918e12),
    ("TPU v5 lite", 197e12),
    ("TPU v5", 459e12),
    ("TPU v4", 275e12),
)
"""FLOP/s in bfloat16, dense, by a part of a device's name in a framework; the first match counts.
From NVIDIA's data sheets, halved if they count structured sparsity, and from
https://cloud.google.com/tpu/docs/system-architecture-tpu-vm."""

SLICE = "MIG"
"""Part of the name of a slice of a GPU, which has a share of its peak."""


def peak_flops_per_s(device: str) -> float | None:
    """Return the peak of a device in bfloat16 by its name; None if unknown."""
    words = f" {device.replace('-', ' ')} "
    if SLICE in device:
        return None
    return next((peak for name, peak in PEAKS if f" {name} " in words), None)
