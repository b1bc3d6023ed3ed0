"""Calibration of a step that is to take so many milliseconds, by trying on the device."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

LEAST_WIDTH, MOST_WIDTH = 32, 4096
"""Of the square matrices, in powers of two. The widest fill any accelerator; 100 MB hold all."""

UPDATES = 8
"""A step has at least so many updates where the narrowest network allows it, so that rounding their
number changes its time by a sixteenth at most."""

TRIALS, TRIALS_NS = 5, 500_000_000
"""Of one size: so many, or fewer that together take so long. The shortest counts, for workers that
fill their queues meanwhile take CPU time."""


@dataclass(frozen=True)
class Calibrated:
    """A square network's size and the updates that make one step."""

    width: int
    updates: int


def calibrated(ms: float, time_ns: Callable[[int, int], int]) -> Calibrated:
    """Return the size of a step that takes so long.

    The widest network is taken of which `UPDATES` updates take no longer than the step; then so
    many updates as fill it.

    Args:
        ms: how long the step is to take.
        time_ns: makes a step of a width and a number of updates, and returns how long it took.
    """
    target_ns = ms * 1e6
    width = LEAST_WIDTH
    while width < MOST_WIDTH and shortest(2 * width, UPDATES, time_ns) <= target_ns:
        width *= 2
    updates = UPDATES
    # Starting a step takes time, too, so the time of one update is known better from more of them.
    for _ in range(2):
        took = shortest(width, updates, time_ns)
        updates = max(1, math.floor(updates * target_ns / took + 0.5))
    return Calibrated(width, updates)


class SizedStep(Protocol):
    """A step of a square network, of which a calibration tries several sizes."""

    updates: int
    start: Any
    """Inputs to try it with, ``[width, width]`` on its device."""

    def train(self, inputs: Any) -> int:
        """Make the updates, and return the nanoseconds in which the device computed."""


def calibrated_by(ms: float, make: Callable[[Calibrated], SizedStep]) -> Calibrated:
    """Return the size of a step that takes so long, of steps that are made and tried.

    Of each width one network is made, and of two widths never both are there.
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
    """Return the shortest time of some trials, after one that is not counted."""
    time_ns(width, updates)
    took: list[int] = []
    while len(took) < TRIALS and sum(took) < TRIALS_NS:
        took.append(time_ns(width, updates))
    return max(1, min(took))
