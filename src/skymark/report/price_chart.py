"""The primary metric of a table's rows against the price of a million samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from skymark.model.metric import Declaration
from skymark.report.chart import Axis, linear_axis
from skymark.report.columns import price_column
from skymark.report.ranking import Row
from skymark.report.text import significant, writer


@dataclass(frozen=True)
class Point:
    """A row with its price."""

    row: Row
    price_usd: float
    price: str
    """The same in words."""


@dataclass(frozen=True)
class PriceChart:
    """The rows whose price is known, on two linear axes."""

    heading: str
    across: Axis
    """Of prices."""
    up: Axis
    """Of the primary metric."""
    points: tuple[Point, ...]


def price_chart(
    rows: Sequence[Row], declaration: Declaration, hourly_price_usd: float | None
) -> PriceChart | None:
    """Return the chart of a table's rows; None where fewer than two have a price.

    Args:
        rows: of one table.
        declaration: names the rate that a price follows from.
        hourly_price_usd: of the machine.
    """
    column = price_column(declaration, hourly_price_usd)
    if column is None:
        return None
    points = []
    for row in rows:
        price_usd, text = column.entry(row)
        if price_usd is not None:
            points.append(Point(row, price_usd, text))
    if len(points) < 2:
        return None
    metric = declaration.primary_metric
    return PriceChart(
        heading=column.heading,
        across=linear_axis((one.price_usd for one in points), significant),
        up=linear_axis((one.row.figure.value for one in points), writer(metric)),
        points=tuple(points),
    )
