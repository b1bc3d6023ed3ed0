"""Price sources: the machines that would do for a task, and their price per hour."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import date
from typing import Any, Protocol

from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class CatalogueError(UsageError):
    """A price source has no catalogue, or none that has the machine."""


class Offer(Frozen):
    """One machine that would do, in one region, at one price."""

    cloud: str
    region: str | None
    """None where the cloud has none, such as a cluster of one's own."""
    instance_type: str
    accelerators: str | None
    """Such as ``A100:1``."""
    spot: bool
    hourly_price_usd: float
    catalogue_price_usd: float | None = None
    """Price that SkyPilot goes by, where that is another one."""
    price_from: str = "catalogue"
    """``catalogue``; ``provider`` where it told its price itself; ``on demand`` where the catalogue
    has 0 for a spot machine, which is no price; ``own`` for a cluster of the user's own, which
    bills nothing."""

    @property
    def gpus(self) -> tuple[str, int]:
        """The kind of the accelerators, and how many each machine has; 0 where it has none."""
        kind, _, count = (self.accelerators or "").partition(":")
        return kind, int(float(count)) if re.fullmatch(r"[0-9.]+", count) else 0


class PriceList(Frozen):
    """The offers for a task, the cheapest first, and the age of their prices."""

    offers: tuple[Offer, ...]
    catalogue_date: date | None
    """Day on which the oldest of the prices was last fetched; None where none was needed."""
    problems: tuple[str, ...] = ()
    """Clouds that could not be asked, and why."""


class PriceSource(Protocol):
    """A source of prices; SkyPilot's catalogue is one."""

    def prices_for(self, task: Any, clouds: Collection[str] | None = None) -> PriceList:
        """Return the offers of the machines that a task can be launched on.

        Args:
            task: its resources, their alternatives and the number of nodes.
            clouds: names of the clouds to ask, such as those with credentials; None for every
                cloud whose prices are known.

        Raises:
            CatalogueError: there is no catalogue, or it has no such machine.
        """
        ...
