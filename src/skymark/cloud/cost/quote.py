"""The quote for a run on a rented machine, before anything is rented: price × time, as a range."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from pydantic import Field

from skymark.cloud.cost.billed_time import ALONE, BilledTime, billed_time
from skymark.cloud.cost.prices import Offer, PriceSource
from skymark.cloud.cost.set_up_time import set_up_time
from skymark.cloud.order import IDLE_MINUTES
from skymark.execute.partition.split import Split
from skymark.model.base import Frozen
from skymark.model.plan import Plan
from skymark.model.span import Span
from skymark.run.history import PastRun


class Cost(Frozen):
    """An amount in USD: at best, expected, and at worst."""

    low_usd: float
    expected_usd: float
    high_usd: float


class Quote(Frozen):
    """The price of a plan on every machine that would do, the cheapest first."""

    profile: str
    num_nodes: int = Field(ge=1)
    deadline_s: float | None
    offers: tuple[Offer, ...] = Field(min_length=1)
    duration: BilledTime
    catalogue_date: date | None
    problems: tuple[str, ...] = ()

    @property
    def cheapest(self) -> Offer:
        """The machine that SkyPilot tries first."""
        return self.offers[0]

    @property
    def billed(self) -> Span:
        """How long the machines are paid for; the deadline limits it."""
        return self.duration.whole(self.deadline_s)

    @property
    def cost(self) -> Cost:
        """The cost on the cheapest machine, of all nodes."""
        return self.cost_of(self.cheapest)

    def cost_of(self, offer: Offer) -> Cost:
        """Return the cost on one of the machines, of all nodes."""
        hourly_usd = offer.hourly_price_usd * self.num_nodes
        billed = self.billed
        return Cost(
            low_usd=hourly_usd * billed.low_s / 3600,
            expected_usd=hourly_usd * billed.expected_s / 3600,
            high_usd=hourly_usd * billed.high_s / 3600,
        )

    def highest_hourly_price_usd(self, max_cost_usd: float) -> float:
        """Return the price per hour and node up to which a run stays below a ceiling at worst.

        SkyPilot takes it as ``max_hourly_cost``, so that it does not fail over to a dearer machine.
        """
        return max_cost_usd / self.num_nodes / (self.billed.high_s / 3600)

    def allows(self, hourly_price_usd: float, max_cost_usd: float) -> bool:
        """Whether a price per hour and node stays below a ceiling, as the cheapest one does."""
        allowed_usd = self.highest_hourly_price_usd(max_cost_usd)
        return hourly_price_usd <= max(allowed_usd, self.cheapest.hourly_price_usd)

    def agreed_price_usd(self, instance_type: str, max_cost_usd: float | None) -> float | None:
        """Return the highest price per hour and node that a kind of machine was agreed on at."""
        prices_usd = [
            one.hourly_price_usd
            for one in self.offers
            if one.instance_type == instance_type
            and (max_cost_usd is None or self.allows(one.hourly_price_usd, max_cost_usd))
        ]
        return max(prices_usd, default=None)


def quote_for(
    task: Any,
    plan: Plan,
    source: PriceSource,
    *,
    history: Sequence[PastRun] = (),
    deadline_s: float | None = None,
    clouds: Collection[str] | None = None,
    idle_minutes: int = IDLE_MINUTES,
    split: Split = ALONE,
) -> Quote:
    """Return the cost of a plan on the machines that a task asks for.

    Args:
        task: of `skymark.cloud.sky.tasks.make_task`, with its nodes.
        plan: the cells.
        source: of the prices.
        history: earlier runs.
        deadline_s: most seconds for set-up and run together.
        clouds: names of the clouds that may be used; None for every cloud with a known price.
        idle_minutes: without a job, after which the machine ends itself if nobody else does.
        split: of the plan between the machines; the one that takes longest decides the time.

    Raises:
        CatalogueError: no price is known.
    """
    prices = source.prices_for(task, clouds)
    return Quote(
        profile=plan.profile,
        num_nodes=task.num_nodes,
        deadline_s=deadline_s,
        offers=prices.offers,
        duration=billed_time(plan, set_up_time(plan), history, split, idle_minutes),
        catalogue_date=prices.catalogue_date,
        problems=prices.problems,
    )
