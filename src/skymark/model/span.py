"""Estimated durations: at best, expected, and at worst."""

from __future__ import annotations

from skymark.model.base import Frozen

LONGEST_S = 365 * 86400
"""The longest time limit that can be given: a year."""


class Span(Frozen):
    """A time in seconds: at best, expected, and at worst."""

    low_s: float
    expected_s: float
    high_s: float

    def plus(self, other: Span) -> Span:
        """Return the time of both, one after the other."""
        return Span(
            low_s=self.low_s + other.low_s,
            expected_s=self.expected_s + other.expected_s,
            high_s=self.high_s + other.high_s,
        )

    def times(self, count: float) -> Span:
        """Return the time of so many, one after the other."""
        return Span(
            low_s=self.low_s * count,
            expected_s=self.expected_s * count,
            high_s=self.high_s * count,
        )

    def at_most(self, limit_s: float) -> Span:
        """Return the time if it is cut off at a limit."""
        return Span(
            low_s=min(self.low_s, limit_s),
            expected_s=min(self.expected_s, limit_s),
            high_s=min(self.high_s, limit_s),
        )


NOTHING = Span(low_s=0, expected_s=0, high_s=0)
