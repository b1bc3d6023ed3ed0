"""The scenarios: arrays of one shape, equal wherever and whenever they are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

LENGTHS = {"small": 256, "medium": 2048}
"""Elements of an array by variant."""

FEW = 8
"""Distinct elements of the shape that has few."""


@dataclass(frozen=True)
class Shape:
    """One way in which the elements of an array can lie."""

    title: str
    make: Callable[[int, random.Random], list[int]]
    """Returns an array of a length."""


SHAPES: dict[str, Shape] = {
    "random": Shape("distinct elements in random order", lambda n, rng: rng.sample(range(n), n)),
    "sorted": Shape("in order already", lambda n, _: list(range(n))),
    "reversed": Shape("in order, from the last to the first", lambda n, _: list(range(n))[::-1]),
    "few-distinct": Shape(
        f"{FEW} distinct elements in random order", lambda n, rng: rng.choices(range(FEW), k=n)
    ),
}


def array_of(shape: str, length: int, seed: int, element: str) -> list[float]:
    """Return the array of a scenario, its elements of the type ``int`` or ``float``."""
    numbers = SHAPES[shape].make(length, random.Random(f"{shape} {length} {seed}"))
    return [float(one) for one in numbers] if element == "float" else list(numbers)
