"""The quote for a run on a rented machine, before anything is rented: price × time, as a range."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from datetime import date
from decimal import Decimal

from pydantic import Field

from skymark.cloud.cost.bill import ALONE, BilledTime, billed_time, set_up_time, shared_time
from skymark.cloud.rented_run import IDLE_MINUTES
from skymark.execute.partition.split import Split
from skymark.model.base import Frozen
from skymark.model.duration import Span
from skymark.model.errors import GateError, UsageError
from skymark.model.plan import Plan
from skymark.rundir.history import PastRun
from skymark.suite.registry import suite_named


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
    """SkyPilot's price, if it differs."""
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


class Cost(Frozen):
    """An amount in USD: at best, expected, and at worst."""

    low_usd: float
    expected_usd: float
    high_usd: float


class Workers(Frozen):
    """The GPUs of a machine, and the workers that use them."""

    kind: str
    """Name of the GPUs, such as ``H100``."""
    gpus: int
    working: int
    slots: int = 1
    """Workers in all."""
    precision: str | None = None
    """Of all cells; None where the suite has none, or they differ."""

    @property
    def in_words(self) -> str:
        """The share of the GPUs that work, the workers and their precision."""
        verb = "works" if self.working == 1 else "work"
        workers = f"{self.slots} worker{'s' * (self.slots > 1)}"
        precision = "" if self.precision is None else f", in {self.precision}"
        return f"{self.working} of {self.gpus} {self.kind} {verb}, with {workers}{precision}"


class Quote(Frozen):
    """The price of a plan on every machine that would do, the cheapest first."""

    profile: str
    num_nodes: int = Field(ge=1)
    deadline_s: float | None
    offers: tuple[Offer, ...] = Field(min_length=1)
    duration: BilledTime
    catalogue_date: date | None
    problems: tuple[str, ...] = ()
    workers: Workers | None = None
    """None where a machine has no GPU, nothing runs on it, or cells differ in the GPUs they use."""
    cluster: str | None = None
    """Of a machine that is there; None where one is to be rented."""
    ceiling_ends_it: bool = False
    """Whether the ceiling limits the time, so that it holds whatever the high figure is."""

    @property
    def workers_in_words(self) -> str:
        """The GPUs that work, and the workers; empty where there is none."""
        return "" if self.workers is None else self.workers.in_words

    @property
    def cheapest(self) -> Offer:
        """The machine that SkyPilot tries first."""
        return self.offers[0]

    @property
    def billed(self) -> Span:
        """How long the machine that takes longest is paid for; the deadline limits it."""
        return self.duration.whole(self.deadline_s)

    @property
    def machine_time(self) -> Span:
        """The time that all machines together are paid for."""
        return self.duration.on_machines(self.num_nodes, self.deadline_s)

    @property
    def cost(self) -> Cost:
        """The cost on the cheapest machine, of all nodes."""
        return self.cost_of(self.cheapest)

    def cost_of(self, offer: Offer) -> Cost:
        """Return the cost of all nodes on one kind of machine."""
        hourly_usd, billed = offer.hourly_price_usd, self.machine_time
        return Cost(
            low_usd=hourly_usd * billed.low_s / 3600,
            expected_usd=hourly_usd * billed.expected_s / 3600,
            high_usd=hourly_usd * billed.high_s / 3600,
        )

    def allows(self, hourly_price_usd: float, max_cost_usd: float) -> bool:
        """Whether a price per hour and node stays below a ceiling, as the cheapest one does."""
        high_usd = hourly_price_usd * self.machine_time.high_s / 3600
        return high_usd <= max(max_cost_usd, self.cost.high_usd)

    def agreed_price_usd(self, instance_type: str, max_cost_usd: float | None) -> float | None:
        """Return the highest price per hour and node that a kind of machine was agreed on at."""
        prices_usd = [
            offer.hourly_price_usd
            for offer in self.offers
            if offer.instance_type == instance_type
            and (max_cost_usd is None or self.allows(offer.hourly_price_usd, max_cost_usd))
        ]
        return max(prices_usd, default=None)


def quote_for(
    prices: PriceList,
    plan: Plan,
    nodes: int = 1,
    *,
    history: Sequence[PastRun] = (),
    deadline_s: float | None = None,
    idle_minutes: int = IDLE_MINUTES,
    stays: bool = False,
    split: Split = ALONE,
    parts: Collection[int] | None = None,
) -> Quote:
    """Return the cost of a plan on each suitable machine.

    Args:
        prices: of the machines.
        plan: the cells.
        nodes: number of machines that share it.
        history: earlier runs.
        deadline_s: most seconds for set-up and run together.
        idle_minutes: minutes without a job after which the machine ends itself.
        stays: whether only the idle timer ends the machine.
        split: of the plan between the machines; the slowest machine decides the time.
        parts: of the split, each on a machine that ends with its part. None for all parts, on
            machines that end together.
    """
    return Quote(
        profile=plan.profile,
        num_nodes=nodes if parts is None else len(parts),
        deadline_s=deadline_s,
        offers=prices.offers,
        duration=billed_time(
            plan, set_up_time(plan), history, split, idle_minutes, stays=stays, parts=parts
        ),
        catalogue_date=prices.catalogue_date,
        problems=prices.problems,
        workers=workers_of(plan, prices.offers[0]),
    )


def workers_of(plan: Plan, machine: Offer, working: int = 1, slots: int = 1) -> Workers | None:
    """Return the workers of a plan on a machine; None where it has no GPU, or they are not alike.

    A suite whose cells need the machine for themselves has some cells for several GPUs.

    Args:
        plan: the cells.
        machine: it tells how many GPUs there are.
        working: GPUs that have a worker.
        slots: workers in all.
    """
    kind, gpus = machine.gpus
    if not gpus or not plan.runnable or plan.platform == "cpu":
        return None
    if not suite_named(plan.suite).shares_machine:
        return None
    said = {cell.cell.specification.get("precision") for cell in plan.runnable}
    precision = str(said.pop()) if len(said) == 1 and None not in said else None
    return Workers(kind=kind, gpus=gpus, working=working, slots=slots, precision=precision)


def with_slots(
    quote: Quote, plan: Plan, history: Sequence[PastRun], working: int, slots: int
) -> Quote:
    """Return the quote for workers that share the GPUs of each machine.

    Args:
        quote: of the same plan in one process.
        plan: the cells.
        history: earlier runs.
        working: GPUs that have a worker; 0 where the machine has none.
        slots: workers in all.
    """
    running = shared_time(plan, history, max(1, working))
    return quote.model_copy(
        update={
            "duration": quote.duration.model_copy(update={"running": running}),
            "workers": workers_of(plan, quote.cheapest, working, slots),
        }
    )


ROUNDING_USD = 1e-9
"""Tolerance of comparisons: prices are decimal, and sums are binary."""


def at_most(usd: float) -> str:
    """Return an upper limit in whole cents, rounded up: who pays so much has enough."""
    return f"{math.ceil((usd - ROUNDING_USD) * 100) / 100 + 0.0:.2f}"


def as_given(usd: float) -> str:
    """Return an amount with the digits that it was given with, at least two."""
    given = Decimal(repr(usd))
    return f"{given:.2f}" if given == round(given, 2) else f"{given:f}"


def check_ceiling(quote: Quote, max_cost_usd: float) -> list[Offer]:
    """Refuse a run that may cost more than a ceiling on the cheapest machine.

    The high figure counts, which a deadline limits. It may equal the ceiling, also after it is
    rounded up for display. If the ceiling limits the time, the expected figure counts.

    Returns:
        The machines that stay below it at worst, as the cheapest one does.

    Raises:
        GateError: it may cost more.
    """
    cost = quote.cost
    if quote.ceiling_ends_it:
        if cost.expected_usd > max_cost_usd + ROUNDING_USD:
            raise GateError(
                f"this run is expected to cost {at_most(cost.expected_usd)} USD until its machine "
                f"ends itself, and the ceiling is {as_given(max_cost_usd)} USD; give --max-cost "
                f"{at_most(cost.expected_usd)} or more, or choose less work"
            )
        return [one for one in quote.offers if quote.cost_of(one).expected_usd <= max_cost_usd]
    cheapest = quote.cheapest
    if cost.high_usd <= max_cost_usd + ROUNDING_USD:
        most_usd = max(max_cost_usd, cost.high_usd)
        return [one for one in quote.offers if quote.cost_of(one).high_usd <= most_usd]
    machines = f"{quote.num_nodes} × " if quote.num_nodes > 1 else ""
    paid_s = max_cost_usd / (cheapest.hourly_price_usd * quote.num_nodes) * 3600
    around_s = quote.duration.provisioning.high_s + quote.duration.ending.high_s
    work_minutes = int((paid_s - around_s) // 60)
    action = (
        f"give a higher --max-cost, --deadline {work_minutes}m or less"
        if work_minutes >= 1
        else "give a higher --max-cost"
    )
    raise GateError(
        f"this run may cost up to {at_most(cost.high_usd)} USD (expected "
        f"{cost.expected_usd:.2f}) on {machines}{cheapest.instance_type} of "
        f"{cheapest.cloud}, and --max-cost is {as_given(max_cost_usd)} USD; {action}, "
        "or choose less work"
    )
