"""Durations as users write them: ``90m``, ``1h30m``, and ``1-12:00:00`` as Slurm does."""

from __future__ import annotations

import re

from skymark.model.errors import UsageError
from skymark.model.span import LONGEST_S

SLURM = (
    r"(?:(\d{1,3})-(?=\d\d?(?::\d\d){0,2}$)|(?=\d+:\d\d:\d\d$))(\d{1,4})(?::(\d\d)(?::(\d\d))?)?"
)
"""Days before a hyphen, or hours, minutes and seconds; ``12:30`` alone could be either."""
UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str, option: str = "--deadline") -> int:
    """Read a duration such as ``90m``, ``2h``, ``1h30m``, ``45s`` or ``1-12:00:00``.

    Raises:
        UsageError: it is none, zero, or more than a year.
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
