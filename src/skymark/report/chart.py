"""Charts of the report, in its pages and as SVG and PNG files."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skymark.model.errors import SkymarkError
from skymark.model.metric import Declaration, Distribution
from skymark.model.record import UNSAFE
from skymark.plain_files import named_by_user, write_whole
from skymark.report.ranking_table import RankedRow, price_column, ranked
from skymark.report.text import plain, significant, writer, writer_as
from skymark.resources import install_line
from skymark.rundir.reader import Run
from skymark.rundir.row import read_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray


LEAST_APART = 20
"""Least distance of the ticks of a logarithmic axis in per cent; labels nearer touch."""
ROOM = 1.04
"""Length of a linear axis relative to its largest value."""


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis."""

    place: float
    label: str


@dataclass(frozen=True)
class Axis:
    """An axis from `low` to `high`, linear or logarithmic."""

    low: float
    high: float
    logarithmic: bool
    ticks: tuple[Tick, ...] = ()

    def value_at(self, place: float) -> float:
        """Return the value that lies at a place."""
        part = place / 100
        if self.logarithmic:
            return self.low * math.exp(part * math.log(self.high / self.low))
        return self.low + (self.high - self.low) * part

    def at(self, value: float | None) -> float:
        """Return where a value lies, 0 to 100; what is beyond an end lies at that end."""
        if value is None or value <= self.low:
            return 0.0
        if self.logarithmic:
            place = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            place = (value - self.low) / (self.high - self.low)
        return round(100 * min(place, 1.0), 2)


def linear_axis(values: Iterable[float], label: Callable[[float], str]) -> Axis:
    """Return an axis from 0 to a little beyond the largest value, with about four ticks."""
    high = max(values, default=0.0) * ROOM or 1.0
    step = _round_step(high / 4)
    numbers = [step * k for k in range(math.floor(high / step) + 1)]
    axis = Axis(0.0, high, logarithmic=False)
    return _with_ticks(axis, numbers, label)


def log_axis(values: Iterable[float | None], label: Callable[[float], str] = significant) -> Axis:
    """Return a logarithmic axis around all positive values, with at most four ticks."""
    positive = [value for value in values if value is not None and value > 0]
    low, high = min(positive, default=1.0) / 1.3, max(positive, default=10.0) * 1.3
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers: list[float] = []
    for factors in ((1, 1.5, 2, 3, 5, 7), (1, 2, 5), (1, 3), (1,)):
        numbers = [f * 10.0**k for k in decades for f in factors if low <= f * 10.0**k <= high]
        if len(numbers) <= 4:
            break
    stride = -(-len(numbers) // 4) or 1
    axis = Axis(low, high, logarithmic=True)
    apart: list[float] = []
    for number in numbers[::stride]:
        if not apart or axis.at(number) - axis.at(apart[-1]) >= LEAST_APART:
            apart.append(number)
    return _with_ticks(axis, apart, label)


def _with_ticks(axis: Axis, numbers: Iterable[float], label: Callable[[float], str]) -> Axis:
    ticks = tuple(Tick(axis.at(number), trimmed(label(number))) for number in numbers)
    return Axis(axis.low, axis.high, axis.logarithmic, ticks)


def _round_step(step: float) -> float:
    """Return the next of 1, 2, 2.5, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= step * 0.999)


def trimmed(number: str) -> str:
    """Return a number without zeros that say nothing: ``5.00 k`` is ``5 k``."""
    digits, space, unit = number.partition(" ")
    digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
    return f"{digits}{space}{unit}"


@dataclass(frozen=True)
class Point:
    """A row with its price."""

    row: RankedRow
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
    rows: Sequence[RankedRow], declaration: Declaration, hourly_price_usd: float | None
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
    run: Run, rows: Sequence[RankedRow], problems: list[str]
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
    run: Run, row: RankedRow, distribution: Distribution, problems: list[str]
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


FORMATS = ("svg", "png")
DOTS_PER_INCH = 150
WIDTH, HEAD, LINE = 8.0, 1.4, 0.32
"""Inches of a figure, of its head and foot, and of each row."""
MOST_ROWS = 100
"""Rows of a figure; the best are shown."""
LONGEST_WORD = 60
BEST, OTHER, INK = "#1f6feb", "#9db3cc", "#16202c"
STYLE: Mapping[Any, Any] = {
    "text.parse_math": False,
    "svg.hashsalt": "skymark",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "font.size": 9,
}
"""Text stays plain, and a file depends on the run alone."""


def write_figures(run: Run, directory: Path) -> list[Path]:
    """Write the figures of each scenario of a run, each as SVG and as PNG.

    Args:
        run: whose samples are read from its directory.
        directory: of the figures; made if absent.

    Returns:
        The files, in the order of the run's tables.

    Raises:
        SkymarkError: matplotlib is not installed.
        UsageError: the directory cannot be written.
    """
    try:
        from matplotlib import rc_context
    except ModuleNotFoundError as error:
        raise SkymarkError(f"figures need matplotlib; run: {install_line('figures')}") from error
    written: dict[str, Path] = {}
    # A sign that no font has is shown as a box, which needs no warning.
    with rc_context(dict(STYLE)), warnings.catch_warnings(action="ignore"):
        for name, figure in _figures(run):
            stem = _free_name(UNSAFE.sub("_", name)[:150], written)
            for format in FORMATS:
                path = directory / f"{stem}.{format}"
                with named_by_user(path, "a directory"):
                    write_whole(path, _drawn(figure, format), durable=False)
                written[f"{stem}.{format}"] = path
    return list(written.values())


def _free_name(stem: str, taken: dict[str, Path]) -> str:
    """Return a name that no figure has yet: two scenarios may differ in unsafe signs alone."""
    number, name = 1, stem
    while f"{name}.{FORMATS[0]}" in taken:
        number += 1
        name = f"{stem}-{number}"
    return name


def _figures(run: Run) -> Iterator[tuple[str, Figure]]:
    """Yield the figures with their names, a scenario's one after another."""
    declaration = run.declaration
    for label, records in run.by_label().items():
        rows = ranked(records, declaration, run.directory)[:MOST_ROWS]
        if not rows:
            continue
        yield f"{label}-{declaration.primary}", _rates(label, rows, declaration)
        for one in distribution_charts(run, rows, []):
            name = f"{label}-{one.distribution.column}"
            yield name, _distribution(label, rows, one, declaration)
        if chart := price_chart(rows, declaration, run.manifest.hourly_price_usd):
            yield f"{label}-price", _prices(label, chart, declaration)


def _drawn(figure: Figure, format: str) -> bytes:
    file = io.BytesIO()
    metadata = {"Date": None} if format == "svg" else {"Software": None}
    figure.savefig(file, format=format, dpi=DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()


def _axes(label: str, heading: str, height: float) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    axes = figure.subplots()
    axes.set_title(_word(label), loc="left", fontweight="bold")
    axes.set_xlabel(_word(heading))
    axes.grid(axis="x", color="#dfe3e8")
    return figure, axes


def _rows(axes: Axes, rows: Sequence[RankedRow], declaration: Declaration) -> None:
    """Name the rows at the left, the best on top."""
    names = [_word(declaration.adapter_name(row.record.cell.adapter)) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _rates(label: str, rows: Sequence[RankedRow], declaration: Declaration) -> Figure:
    metric = declaration.primary_metric
    figure, axes = _axes(label, f"{metric.heading}, 95 % interval", HEAD + LINE * len(rows))
    for place, row in enumerate(rows):
        own = row.figure
        axes.barh(place, own.value, 0.65, color=_colour(row))
        if own.low is not None and own.high is not None:
            axes.plot([own.low, own.high], [place, place], color=INK, linewidth=1.5)
        if metric.scale != "exact":
            values = row.record.values(metric.name)
            axes.plot(values, [place] * len(values), "o", color=INK, mfc="white", markersize=3.5)
    axes.xaxis.set_major_formatter(lambda value, _: trimmed(writer(metric)(value)))
    _rows(axes, rows, declaration)
    return figure


def _distribution(
    label: str, rows: Sequence[RankedRow], chart: DistributionChart, declaration: Declaration
) -> Figure:
    shown = [(row, one) for row, one in zip(rows, chart.shapes, strict=True) if one is not None]
    figure, axes = _axes(label, chart.distribution.heading, HEAD + LINE * len(shown))
    axes.set_xscale("log")
    axes.set_xlim(chart.axis.low, chart.axis.high)
    for place, (row, shape) in enumerate(shown):
        edges = np.geomspace(chart.axis.low, chart.axis.high, len(shape.heights) + 1)
        top = [place + 0.35 - 0.8 * height for height in shape.heights]
        axes.stairs(top, edges, baseline=place + 0.35, fill=True, color=_colour(row))
    ticks = chart.axis.ticks
    axes.set_xticks([chart.axis.value_at(one.place) for one in ticks], [one.label for one in ticks])
    axes.minorticks_off()
    _rows(axes, [row for row, _ in shown], declaration)
    return figure


def _prices(label: str, chart: PriceChart, declaration: Declaration) -> Figure:
    metric = declaration.primary_metric
    figure, axes = _axes(label, chart.heading, 5.0)
    axes.set_ylabel(_word(metric.heading))
    axes.grid(axis="y", color="#dfe3e8")
    for number, point in enumerate(chart.points):
        place = (point.price_usd, point.row.figure.value)
        axes.plot(*place, "o", color=_colour(point.row), mec=INK, mew=0.5)
        name = _word(declaration.adapter_name(point.row.record.cell.adapter))
        beside = (6, -10 if number % 2 else 3)  # neighbours' names lie apart
        axes.annotate(name, place, beside, textcoords="offset points")
    axes.margins(0.15)
    axes.yaxis.set_major_formatter(lambda value, _: trimmed(writer(metric)(value)))
    return figure


def _colour(row: RankedRow) -> str:
    return BEST if row.leads else OTHER


def _word(text: str) -> str:
    """Return text of bounded length in one line, which makes no figure large."""
    line = " ".join(plain(text).split())
    return line if len(line) <= LONGEST_WORD else f"{line[: LONGEST_WORD - 1]}…"
