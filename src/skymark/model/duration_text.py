"""Durations as users write them: ``90m``, ``1h30m``."""

from __future__ import annotations

import re

from skymark.model.errors import UsageError
from skymark.model.span import LONGEST_S

UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def seconds_of(text: str, option: str = "--deadline") -> int:
    """Read a duration such as ``90m``, ``2h``, ``1h30m`` or ``45s``.

    Raises:
        UsageError: it is none, zero, or more than a year.
    """
    parts = re.findall(r"([0-9]{1,9})([smhd])", text)
    total = sum(int(count) * UNITS_S[unit] for count, unit in parts)
    if "".join(count + unit for count, unit in parts) != text or not 0 < total <= LONGEST_S:
        raise UsageError(
            f"{option} {text!r} is no duration of a year at most; give one such as 90m, 2h or 1h30m"
        )
    return total
