"""The bill of a machine: its price per hour × the time from the order to its end."""

from __future__ import annotations

from collections.abc import Sequence

from skymark.model.base import Frozen


class MachineCost(Frozen):
    """The cost of one life of a cluster, as SkyPilot's cost report has it."""

    launched_at_s: float
    """Seconds since 1970."""
    seconds: float
    price_usd: float
    ended: bool


class Bill(Frozen):
    """The cost of a run's machines."""

    hourly_price_usd: float
    """Of all that were there together."""
    seconds: float
    price_usd: float


def bill_of_last(costs: Sequence[MachineCost]) -> Bill | None:
    """Return the bill of the last cluster that had a name; None if none had it."""
    lived = [one for one in costs if one.seconds]
    return bill_of_all(sorted(lived, key=lambda one: one.launched_at_s)[-1:])


def bill_of_all(costs: Sequence[MachineCost]) -> Bill | None:
    """Return the bill of clusters that had a name one after another; None if none had it."""
    seconds = sum(one.seconds for one in costs)
    if not seconds:
        return None
    price_usd = sum(one.price_usd for one in costs)
    hourly_usd = round(price_usd / seconds * 3600, 6)
    return Bill(hourly_price_usd=hourly_usd, seconds=seconds, price_usd=price_usd)
