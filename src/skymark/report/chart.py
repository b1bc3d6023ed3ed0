"""Geometry of the report's charts: places on an axis, in per cent of its length."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from skymark.report.text import significant

ROOM = 1.04
"""Length of a linear axis relative to its largest value."""


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    place: float
    label: str


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...] = ()

    def value_at(self, place: float) -> float:
        """Return the value that lies at a place."""
        part = place / 100
        if self.logarithmic:
            return self.low * math.exp(part * math.log(self.high / self.low))
        return self.low + (self.high - self.low) * part

    def at(self, value: float | None) -> float:
        """Return where a value lies, 0 to 100; what is beyond an end lies at that end."""
        if value is None or value <= self.low:
            return 0.0
        if self.logarithmic:
            place = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            place = (value - self.low) / (self.high - self.low)
        return round(100 * min(place, 1.0), 2)


def linear_axis(values: Iterable[float], label: Callable[[float], str]) -> Axis:
    """Return an axis from 0 to a little beyond the largest value, with about four ticks."""
    high = max(values, default=0.0) * ROOM or 1.0
    step = _round_step(high / 4)
    numbers = [step * k for k in range(math.floor(high / step) + 1)]
    axis = Axis(0.0, high, logarithmic=False)
    return _with_ticks(axis, numbers, label)


def log_axis(values: Iterable[float | None], label: Callable[[float], str] = significant) -> Axis:
    """Return a logarithmic axis around all positive values, with at most four ticks."""
    positive = [value for value in values if value is not None and value > 0]
    low, high = min(positive, default=1.0) / 1.3, max(positive, default=10.0) * 1.3
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers: list[float] = []
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        numbers = [f * 10.0**k for k in decades for f in factors if low <= f * 10.0**k <= high]
        if len(numbers) <= 4:
            break
    stride = -(-len(numbers) // 4) or 1
    return _with_ticks(Axis(low, high, logarithmic=True), numbers[::stride], label)


def _with_ticks(axis: Axis, numbers: Iterable[float], label: Callable[[float], str]) -> Axis:
    ticks = tuple(Tick(axis.at(number), trimmed(label(number))) for number in numbers)
    return Axis(axis.low, axis.high, axis.logarithmic, ticks)


def _round_step(step: float) -> float:
    """Return the next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * 0.999)


def trimmed(number: str) -> str:
    """Return a number without zeros that say nothing: ``5.00 k`` is ``5 k``."""
    digits, space, unit = number.partition(" ")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}{space}{unit}"
