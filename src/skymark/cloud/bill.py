"""What a machine really cost: its price per hour × the time from the order to its end."""

from __future__ import annotations

from typing import Any

from skymark.cloud.skypilot import ask
from skymark.model.base import Frozen


class Bill(Frozen):
    """The cost of a cluster's life, as SkyPilot's cost report has it."""

    hourly_price_usd: float
    """Of all its machines together."""
    seconds: float
    price_usd: float


def actual_bill(cluster: str) -> Bill | None:
    """Return what a cluster cost so far; None where SkyPilot knows nothing of it.

    Args:
        cluster: its name; of several that had it, the last counts.
    """
    return _sum(sorted(_reported(cluster), key=lambda one: one["launched_at"] or 0)[-1:])


def bill_of_all(cluster: str) -> Bill | None:
    """Return what all clusters cost that had a name one after another; None if none had it."""
    return _sum(_reported(cluster))


def _reported(cluster: str) -> list[Any]:
    return [
        one
        for one in ask(lambda sky: sky.cost_report())
        if one["name"] == cluster and one["duration"]
    ]


def _sum(reported: list[Any]) -> Bill | None:
    if not reported:
        return None
    seconds = sum(float(one["duration"]) for one in reported)
    cost_usd = sum(float(one["total_cost"]) for one in reported)
    hourly_usd = round(cost_usd / seconds * 3600, 6)
    return Bill(hourly_price_usd=hourly_usd, seconds=seconds, price_usd=cost_usd)
