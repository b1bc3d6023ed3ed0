"""Price of a million samples: a machine's hourly price over the rate that a record has."""

from __future__ import annotations

from skymark.model.metric import Declaration, Metric
from skymark.model.record import Record

PER_SECOND = "1/s"
"""The unit of rates."""
MILLION = 1e6
HOUR_S = 3600


def rate_of(declaration: Declaration) -> Metric | None:
    """Return the metric that counts what is done per second: the primary one, else the first."""
    primary = declaration.primary_metric
    return next(
        (one for one in (primary, *declaration.shared) if one.unit == PER_SECOND),
        None,
    )


def price_per_million_usd(
    record: Record, declaration: Declaration, hourly_price_usd: float | None
) -> float | None:
    """Return what the machine costs while a million samples are made at the record's rate.

    Args:
        record: of any status.
        declaration: names the rate.
        hourly_price_usd: of the machines that measured, together.

    Returns:
        US dollars; None where the price is not known or the record has no rate.
    """
    rate = rate_of(declaration)
    figure = None if rate is None else record.metrics.get(rate.name)
    if hourly_price_usd is None or figure is None or figure.value <= 0:
        return None
    return MILLION / figure.value / HOUR_S * hourly_price_usd
