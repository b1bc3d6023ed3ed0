"""The adapters: each sorts a list with ``<`` alone, and may do so in place."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

QUADRATIC_LIMIT = 4096
"""Longest array for an algorithm that takes quadratic time."""


@dataclass(frozen=True)
class Algorithm:
    """A sorting algorithm, as tables and plans have it."""

    name: str
    sort: Callable[[list[Any]], list[Any]]
    language: str = "Python"
    longest: int | None = None
    """Elements that it can be asked to sort; None for any number."""
    by_default: bool = True
    """Whether it takes part where no adapter is named."""


def insertion(values: list[Any]) -> list[Any]:
    """Insert each element into the sorted ones before it."""
    for end in range(1, len(values)):
        moved, place = values[end], end
        while place > 0 and moved < values[place - 1]:
            values[place] = values[place - 1]
            place -= 1
        values[place] = moved
    return values


def merge(values: list[Any]) -> list[Any]:
    """Sort both halves, then merge them."""
    if len(values) < 2:
        return values
    middle = len(values) // 2
    left, right = merge(values[:middle]), merge(values[middle:])
    merged: list[Any] = []
    i = j = 0
    while i < len(left) and j < len(right):
        if right[j] < left[i]:
            merged.append(right[j])
            j += 1
        else:
            merged.append(left[i])
            i += 1
    return merged + left[i:] + right[j:]


def heap(values: list[Any]) -> list[Any]:
    """Take the smallest from a heap until it is empty."""
    heapq.heapify(values)
    return [heapq.heappop(values) for _ in range(len(values))]


def no_op(values: list[Any]) -> list[Any]:
    """Cheat: return the array as it is, for a test of the oracle."""
    return values


ALGORITHMS: dict[str, Algorithm] = {
    "builtin": Algorithm("Python's sorted()", sorted, language="C"),
    "heap": Algorithm("heap sort with heapq", heap, language="C"),
    "insertion": Algorithm("insertion sort", insertion, longest=QUADRATIC_LIMIT),
    "merge": Algorithm("merge sort", merge),
    "no-op": Algorithm("no sorting at all", no_op, by_default=False),
}


class Counted:
    """An element that counts how often two of its kind are compared."""

    comparisons = 0

    def __init__(self, value: float) -> None:
        self.value = value

    def __lt__(self, other: Counted) -> bool:
        Counted.comparisons += 1
        return self.value < other.value


def comparisons_of(algorithm: Algorithm, values: list[float]) -> int:
    """Return how many comparisons it takes to sort an array."""
    Counted.comparisons = 0
    algorithm.sort([Counted(value) for value in values])
    return Counted.comparisons
