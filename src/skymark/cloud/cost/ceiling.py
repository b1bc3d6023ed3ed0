"""The ceiling of a run's cost."""

from __future__ import annotations

from skymark.cloud.cost.quote import Quote
from skymark.model.errors import GateError

ROUNDING_USD = 1e-9
"""Prices are decimal and sums are binary: a figure this little above the ceiling equals it."""


def check_ceiling(quote: Quote, max_cost_usd: float) -> None:
    """Refuse a run that may cost more than a ceiling on the cheapest machine.

    What counts is the high figure, which a deadline limits; equal to the ceiling is allowed.

    Raises:
        GateError: it may cost more.
    """
    cost = quote.cost
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
        f"this run may cost up to {cost.high_usd:.2f} USD (expected {cost.expected_usd:.2f}) on "
        f"{machines}{cheapest.instance_type} of {cheapest.cloud}, and --max-cost is "
        f"{max_cost_usd:.2f} USD; {action}, or fewer --scenarios or --adapters"
    )
