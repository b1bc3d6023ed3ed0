"""What a run on a rented machine costs, before anything is rented: price × time, as a range."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import date
from typing import Any

from pydantic import Field

from skymark.cloud.duration import Duration, Span, duration_of
from skymark.cloud.history import PastRun
from skymark.cloud.machine_prices import Candidate, offer_for
from skymark.cloud.order import IDLE_MINUTES
from skymark.model.base import Frozen
from skymark.model.errors import GateError
from skymark.model.plan import Plan

ROUNDING_USD = 1e-9
"""Prices are decimal and sums are binary: a figure this little above the ceiling equals it."""


class Cost(Frozen):
    """An amount in USD: at best, expected, and at worst."""

    low_usd: float
    expected_usd: float
    high_usd: float


class Estimate(Frozen):
    """The price of a plan on every machine that would do, the cheapest first."""

    profile: str
    num_nodes: int = Field(ge=1)
    deadline_s: float | None
    candidates: tuple[Candidate, ...] = Field(min_length=1)
    duration: Duration
    catalogue_date: date | None
    problems: tuple[str, ...] = ()

    @property
    def cheapest(self) -> Candidate:
        """The machine that SkyPilot tries first."""
        return self.candidates[0]

    @property
    def billed(self) -> Span:
        """How long the machines are paid for; the deadline limits it."""
        return self.duration.billed(self.deadline_s)

    @property
    def cost(self) -> Cost:
        """The cost on the cheapest machine, of all nodes."""
        return self.cost_of(self.cheapest)

    def cost_of(self, candidate: Candidate) -> Cost:
        """Return the cost on one of the machines, of all nodes."""
        hourly_usd = candidate.hourly_price_usd * self.num_nodes
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


def estimate(
    task: Any,
    plan: Plan,
    *,
    history: Sequence[PastRun] = (),
    deadline_s: float | None = None,
    clouds: Collection[str] | None = None,
    idle_minutes: int = IDLE_MINUTES,
) -> Estimate:
    """Return what a plan costs on the machines that a task asks for.

    Args:
        task: the ``sky.Task`` of `skymark.cloud.machine_kinds.make_task`, with its nodes.
        plan: what runs there.
        history: earlier runs, as `skymark.cloud.history.read_history` finds them.
        deadline_s: most seconds for set-up and run together.
        clouds: names of the clouds that may be used; None for every cloud with a catalogue here.
        idle_minutes: without a job, after which the machine ends itself if nobody else does.

    Raises:
        CatalogueError: no price is known.
    """
    offer = offer_for(task, clouds)
    return Estimate(
        profile=plan.profile,
        num_nodes=task.num_nodes,
        deadline_s=deadline_s,
        candidates=offer.candidates,
        duration=duration_of(plan, history, task.num_nodes, idle_minutes),
        catalogue_date=offer.catalogue_date,
        problems=offer.problems,
    )


def check_ceiling(estimate: Estimate, max_cost_usd: float) -> None:
    """Refuse a run that may cost more than a ceiling on the cheapest machine.

    What counts is the high figure, which a deadline limits; equal to the ceiling is allowed.

    Raises:
        GateError: it may cost more.
    """
    cost = estimate.cost
    if cost.high_usd <= max_cost_usd + ROUNDING_USD:
        return
    cheapest = estimate.cheapest
    machines = f"{estimate.num_nodes} × " if estimate.num_nodes > 1 else ""
    paid_s = max_cost_usd / (cheapest.hourly_price_usd * estimate.num_nodes) * 3600
    around_s = estimate.duration.provisioning.high_s + estimate.duration.ending.high_s
    work_minutes = int((paid_s - around_s) // 60)
    action = (
        f"give --deadline {work_minutes}m or less"
        if work_minutes >= 1
        else "give a higher --max-cost"
    )
    raise GateError(
        f"this run may cost up to {cost.high_usd:.2f} USD (expected {cost.expected_usd:.2f}) on "
        f"{machines}{cheapest.instance_type} of {cheapest.cloud}, and --max-cost is "
        f"{max_cost_usd:.2f} USD; {action}, or fewer --scenarios or --adapters"
    )
