"""The limits of a run on rented machines, in time and cost, and amounts of USD."""

from __future__ import annotations

import math
from decimal import Decimal

from skymark.cloud.cost.quote import Quote
from skymark.model.base import Frozen
from skymark.model.duration import seconds_of
from skymark.model.errors import GateError, UsageError
from skymark.model.plan import Plan, Profile


class Limits(Frozen):
    """The most time and money of a run; None for no limit."""

    deadline_s: int | None
    """Of set-up and run together."""
    max_cost_usd: float | None
    """Of all machines together."""


def require_time_before(plan: Plan, deadline_s: float | None) -> None:
    """Refuse a plan whose rounds may take longer than its machine may live.

    Args:
        plan: with the time of its rounds, if it has one.
        deadline_s: of set-up and run together; None where nothing ends them.

    Raises:
        UsageError: cells would be left over when the machine ends.
    """
    if plan.allotment is None or deadline_s is None or plan.allotment.time_s < deadline_s:
        return
    raise UsageError(
        f"--time {plan.allotment.time_s:g}s does not end before the deadline of {deadline_s:g} s, "
        "which is for set-up and run together; give a longer --deadline or a shorter --time"
    )


def limits_for(
    profile: Profile,
    deadline: str | None = None,
    max_cost_usd: float | None = None,
    num_nodes: int = 1,
) -> Limits:
    """Return the limits of a run.

    Args:
        profile: its own limits count where nothing else is given.
        deadline: such as ``90m``.
        max_cost_usd: of all machines together; a profile's is for each of them.
        num_nodes: how many there are.

    Raises:
        UsageError: the deadline is no duration.
    """
    deadline_s = None if deadline is None else seconds_of(deadline)
    if deadline_s is None and profile.deadline_minutes is not None:
        deadline_s = 60 * profile.deadline_minutes
    if max_cost_usd is None and profile.max_cost_usd is not None:
        max_cost_usd = num_nodes * profile.max_cost_usd
    return Limits(deadline_s=deadline_s, max_cost_usd=max_cost_usd)


ROUNDING_USD = 1e-9
"""Prices are decimal and sums are binary: a figure this little above another one equals it."""


def at_most(usd: float) -> str:
    """Return an upper limit in whole cents, rounded up: who pays so much has enough."""
    return f"{math.ceil((usd - ROUNDING_USD) * 100) / 100 + 0.0:.2f}"


def as_given(usd: float) -> str:
    """Return an amount with the digits that it was given with, at least two."""
    given = Decimal(repr(usd))
    return f"{given:.2f}" if given == round(given, 2) else f"{given:f}"


def check_ceiling(quote: Quote, max_cost_usd: float) -> None:
    """Refuse a run that may cost more than a ceiling on the cheapest machine.

    What counts is the high figure, which a deadline limits; equal to the ceiling is allowed, and
    so is a ceiling that is equal to the figure as it is shown, which is rounded up. Where the
    ceiling limits the time, the expected figure counts.

    Raises:
        GateError: it may cost more.
    """
    cost = quote.cost
    if quote.ceiling_ends_it:
        if cost.expected_usd > max_cost_usd + ROUNDING_USD:
            raise GateError(
                f"this run is expected to cost {at_most(cost.expected_usd)} USD until its machine "
                f"ends itself, and the ceiling is {as_given(max_cost_usd)} USD; give --max-cost "
                f"{at_most(cost.expected_usd)} or more, or fewer --scenarios or --adapters"
            )
        return
    if cost.high_usd <= max_cost_usd + ROUNDING_USD:
        return
    cheapest = quote.cheapest
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
        "or fewer --scenarios or --adapters"
    )
