"""Amounts of USD as people read them, and give them back as a ceiling."""

from __future__ import annotations

import math
from decimal import Decimal

ROUNDING_USD = 1e-9
"""Prices are decimal and sums are binary: a figure this little above another one equals it."""


def at_most(usd: float) -> str:
    """Return an upper limit in whole cents, rounded up: who pays so much has enough."""
    return f"{math.ceil((usd - ROUNDING_USD) * 100) / 100 + 0.0:.2f}"


def as_given(usd: float) -> str:
    """Return an amount with the digits that it was given with, at least two."""
    given = Decimal(repr(usd))
    return f"{given:.2f}" if given == round(given, 2) else f"{given:f}"
