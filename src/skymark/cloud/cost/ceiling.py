"""The ceiling of a run's cost."""

from __future__ import annotations

from skymark.cloud.cost.amounts import ROUNDING_USD, as_given, at_most
from skymark.cloud.cost.quote import Quote
from skymark.model.errors import GateError


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
