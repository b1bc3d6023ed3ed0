"""The bill of a machine: its price per hour × the time from the order to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from skymark.cloud.hired_machines import HiredMachines
from skymark.model.base import Frozen


class MachineCost(Frozen):
    """The cost of one life of a cluster, as SkyPilot's cost report has it."""

    launched_at_s: float
    """Seconds since 1970."""
    seconds: float
    price_usd: float | None
    """None where SkyPilot has no price; nobody lets a machine for nothing."""
    ended: bool


class Bill(Frozen):
    """The cost of a run's machines."""

    hourly_price_usd: float | None
    """Of all that were there together; None where it is not known."""
    seconds: float
    price_usd: float | None
    price_from: Literal["catalogue", "provider"] = "catalogue"
    absent_s: float = 0.0
    """Of all machines together that were lost before the end: nobody pays for them then."""

    def without(self, absent_s: float, nodes: int) -> Bill:
        """Return the bill less the time in which some of its machines were lost already.

        Args:
            absent_s: of all lost machines together.
            nodes: machines that the price per hour is for.
        """
        if self.price_usd is None or self.hourly_price_usd is None or absent_s <= 0:
            return self
        less_usd = absent_s / 3600 * self.hourly_price_usd / nodes
        changes = {"price_usd": max(0.0, self.price_usd - less_usd), "absent_s": absent_s}
        return self.model_copy(update=changes)

    @property
    def in_words(self) -> str:
        """The amount, and what it is made of."""
        if self.price_usd is None:
            return f"an amount that is not known: {self.seconds:.0f} s at no known price"
        whose = "the catalogue's" if self.price_from == "catalogue" else "the provider's own"
        absent = f", less {self.absent_s:.0f} s of lost machines" if self.absent_s else ""
        return (
            f"${self.price_usd:.4f}: {self.seconds:.0f} s at ${self.hourly_price_usd:.2f}/h, "
            f"{whose} price{absent}"
        )


def bill_of_last(costs: Sequence[MachineCost], machines: HiredMachines | None) -> Bill | None:
    """Return the bill of the last cluster that had a name; None if none had it."""
    lived = [one for one in costs if one.seconds]
    return bill_of_all(sorted(lived, key=lambda one: one.launched_at_s)[-1:], machines)


def bill_of_all(costs: Sequence[MachineCost], machines: HiredMachines | None) -> Bill | None:
    """Return the bill of clusters that had a name one after another; None if none had it.

    Args:
        costs: of SkyPilot, at the price of its catalogue.
        machines: as they were hired; their price counts where the provider told it, and where
            SkyPilot has none.
    """
    seconds = sum(one.seconds for one in costs)
    if not seconds:
        return None
    prices_usd = [one.price_usd for one in costs if one.price_usd is not None]
    told = machines is not None and machines.price_from == "provider"
    if told or len(prices_usd) < len(costs):
        return bill_of_time(seconds, machines)
    price_usd = sum(prices_usd)
    hourly_usd = round(price_usd / seconds * 3600, 6)
    return Bill(hourly_price_usd=hourly_usd, seconds=seconds, price_usd=price_usd)


def bill_of_time(seconds: float, machines: HiredMachines | None) -> Bill:
    """Return the bill of machines that were there for so long."""
    hourly_usd = None if machines is None else machines.hourly_price_usd
    return Bill(
        hourly_price_usd=hourly_usd,
        seconds=seconds,
        price_usd=None if hourly_usd is None else seconds / 3600 * hourly_usd,
        price_from="catalogue" if machines is None else machines.price_from,
    )
