"""Durations: estimated spans, and times as users and Slurm write them."""

from __future__ import annotations

import re

from skymark.model.base import Frozen
from skymark.model.errors import UsageError

LONGEST_S = 365 * 86400
"""The longest valid time limit: a year."""


class Span(Frozen):
    """Estimated time in seconds: at best, expected, and at worst."""

    low_s: float
    expected_s: float
    high_s: float

    def plus(self, other: Span) -> Span:
        """Return the sum of two times."""
        return Span(
            low_s=self.low_s + other.low_s,
            expected_s=self.expected_s + other.expected_s,
            high_s=self.high_s + other.high_s,
        )

    def times(self, count: float) -> Span:
        """Return the time multiplied by a count."""
        return Span(
            low_s=self.low_s * count,
            expected_s=self.expected_s * count,
            high_s=self.high_s * count,
        )

    def at_most(self, limit_s: float) -> Span:
        """Return the time cut off at a limit."""
        return Span(
            low_s=min(self.low_s, limit_s),
            expected_s=min(self.expected_s, limit_s),
            high_s=min(self.high_s, limit_s),
        )


NOTHING = Span(low_s=0, expected_s=0, high_s=0)


SLURM = (
    r"(?:(\d{1,3})-(?=\d\d?(?::\d\d){0,2}$)|(?=\d+:\d\d:\d\d$))(\d{1,4})(?::(\d\d)(?::(\d\d))?)?"
)
"""Days before a hyphen, or hours, minutes and seconds; ``12:30`` alone could be either."""
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str, option: str = "--deadline") -> int:
    """Read a duration such as ``90m``, ``2h``, ``1h30m``, ``45s`` or ``1-12:00:00``.

    Raises:
        UsageError: the text is no duration, zero, or more than a year.
    """
    if match := re.fullmatch(SLURM, text, re.ASCII):
        named = zip(match.groups(default="0"), "dhms", strict=True)
        text = "".join(count + unit for count, unit in named)
    parts = re.findall(r"([0-9]{1,9})([smhd])", text)
    total = sum(int(count) * UNITS_S[unit] for count, unit in parts)
    if "".join(count + unit for count, unit in parts) != text or not 0 < total <= LONGEST_S:
        raise UsageError(
            f"{option} {text!r} is no duration of a year at most; give one such as 90m, 2h or 1h30m"
        )
    return total
