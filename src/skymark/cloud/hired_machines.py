"""The machines of a cluster or a managed job as they were hired: ids, kind, price and provider."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from skymark.model.base import Frozen


class ProviderAddress(Frozen):
    """Directions to a cluster in its provider's own list."""

    provider: str
    """SkyPilot's name of it."""
    name: str
    """The cluster's name with the provider."""
    settings: dict[str, Any]
    """Of SkyPilot, such as region and zone; no credentials."""


class HiredMachines(Frozen):
    """Facts for whoever has to end these machines, noted while everybody still answers."""

    name: str
    """Of the cluster or the managed job, with skymark."""
    cluster: str
    """Of the cluster, with SkyPilot."""
    ids: tuple[str, ...] = ()
    """With the provider; empty where they are not known (yet)."""
    kind: str = "a machine of unknown kind"
    instance_type: str | None = None
    """The provider's name of the kind."""
    nodes: int = 1
    spot: bool = False
    hourly_price_usd: float | None = Field(default=None, gt=0)
    """Of all machines together; None where it is not known."""
    price_from: Literal["catalogue", "provider"] = "catalogue"
    address: ProviderAddress | None = None
    not_ended_since: AwareDatetime | None = None
    """When their ending was given up; None while nobody has tried in vain."""
    absent_since_s: float | None = None
    """Moment of `skymark.cloud.waiting.clock_s` since which SkyPilot and their provider have none
    of them, as far as somebody looked."""

    def with_what_was_told(self, before: HiredMachines | None) -> HiredMachines:
        """Return it with the ids that it lacks and the price that the provider told before."""
        if before is None:
            return self
        changes: dict[str, Any] = {} if self.ids else {"ids": before.ids}
        if before.price_from == "provider" or self.hourly_price_usd is None:
            changes["hourly_price_usd"] = before.hourly_price_usd
            changes["price_from"] = before.price_from
        return self.model_copy(update=changes)

    @property
    def in_words(self) -> str:
        """Ids, kind and price per hour."""
        price = self.hourly_price_usd
        cost = "of unknown price" if price is None else f"at ${price:.2f}/h"
        return ", ".join((*self.ids, self.kind, cost))
