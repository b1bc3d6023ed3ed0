"""Sizes, counts, shares and lists in words. Sizes are decimal, as disks and networks count."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def count_of(number: int, thing: str) -> str:
    """Return a number of things: ``1 cell``, ``2 cells``."""
    return f"{number:,} {thing}{'s' * (number != 1)}"


def percent(share: float, decimals: int = 0, *, signed: bool = False) -> str:
    """Return a share in per cent: ``38 %``, signed ``+38 %`` or ``-38 %``."""
    return f"{100 * share:{'+' * signed}.{decimals}f} %"


def some_of(names: Sequence[str], most: int = 5) -> str:
    """Return names in a line, the first few of many: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def size_text(size_bytes: float) -> str:
    """Return a size with three significant digits: ``1.23 GB``."""
    for factor, unit in UNITS:
        if size_bytes >= factor:
            value = size_bytes / factor
            decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{decimals}f} {unit}"
    return f"{size_bytes:.0f} B"
