"""Distributions of raw samples: one shape per row of a table, on one logarithmic axis."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from skymark.model.metric import Distribution
from skymark.report.chart import Axis, log_axis
from skymark.report.ranking import Row
from skymark.report.text import writer_as
from skymark.run.reader import Run
from skymark.run.samples import read_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

BINS = 60
"""Parts of the axis that samples are counted in."""


@dataclass(frozen=True)
class Shape:
    """The samples of one row: heights over the parts of an axis, the tallest 1."""

    heights: tuple[float, ...]
    description: str
    """The same in words."""

    @property
    def outline(self) -> str:
        """The path of an SVG of 100 by 20: steps above a base line."""
        width = 100 / len(self.heights)
        steps = (
            f"V{20 - 18 * height:.3g}H{width * (place + 1):.4g}"
            for place, height in enumerate(self.heights)
        )
        return f"M0 20{''.join(steps)}V20Z"


@dataclass(frozen=True)
class DistributionChart:
    """The distributions of a table's rows on one axis."""

    distribution: Distribution
    axis: Axis
    shapes: tuple[Shape | None, ...]
    """One per row; None where no samples were kept."""


def distribution_charts(
    run: Run, rows: Sequence[Row], problems: list[str]
) -> Iterable[DistributionChart]:
    """Yield the declared distributions that some row has samples for.

    Args:
        run: the rows' own.
        rows: of one table.
        problems: gets what could not be read, and why.
    """
    for one in run.declaration.distributions:
        samples = [_samples(run, row, one, problems) for row in rows]
        found = [values for values in samples if values is not None]
        if not found:
            continue
        write = writer_as(one.shown)
        ends = (float(end) for values in found for end in (values.min(), values.max()))
        axis = log_axis(ends, write)
        shapes = (None if values is None else _shape(values, axis, one) for values in samples)
        yield DistributionChart(one, axis, tuple(shapes))


def _samples(
    run: Run, row: Row, distribution: Distribution, problems: list[str]
) -> NDArray[Any] | None:
    """Return the positive samples of a row, which a logarithmic axis can show."""
    wanted = [name for name in (distribution.column, distribution.only) if name]
    record = row.record
    try:
        columns = read_samples(run.directory, record, wanted)
    except (OSError, ValueError) as error:
        problems.append(f"samples/{record.cell.id}.parquet: {error}")
        return None
    if columns is None:
        return None
    values = columns[distribution.column]
    if distribution.only:
        values = values[columns[distribution.only] > 0]
    values = values[np.isfinite(values) & (values > 0)]
    return values if len(values) else None


def _shape(values: NDArray[Any], axis: Axis, distribution: Distribution) -> Shape:
    counts, _ = np.histogram(np.log(values), BINS, (np.log(axis.low), np.log(axis.high)))
    write = writer_as(distribution.shown)
    quarters = np.quantile(values, [0.25, 0.5, 0.75])
    described = (
        f"{len(values):,} {distribution.heading}: half of them from "
        f"{write(float(quarters[0]))} to {write(float(quarters[2]))}, "
        f"median {write(float(quarters[1]))}"
    )
    return Shape(tuple((counts / max(counts.max(), 1)).tolist()), described)
