"""Figures of a run as SVG and PNG: rates, distributions of samples, speed against price."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.model.errors import SkymarkError
from skymark.model.record import UNSAFE
from skymark.plain_files import named_by_user, write_whole
from skymark.report.chart import (
    DistributionChart,
    PriceChart,
    distribution_charts,
    price_chart,
    trimmed,
)
from skymark.report.ranking_table import Row, ranked
from skymark.report.text import plain, writer
from skymark.resources import install_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from skymark.model.metric import Declaration
    from skymark.rundir.reader import Run

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


def _rows(axes: Axes, rows: Sequence[Row], declaration: Declaration) -> None:
    """Name the rows at the left, the best on top."""
    names = [_word(declaration.adapter_name(row.record.cell.adapter)) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _rates(label: str, rows: Sequence[Row], declaration: Declaration) -> Figure:
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
    label: str, rows: Sequence[Row], chart: DistributionChart, declaration: Declaration
) -> Figure:
    import numpy as np

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


def _colour(row: Row) -> str:
    return BEST if row.leads else OTHER


def _word(text: str) -> str:
    """Return text of bounded length in one line, which makes no figure large."""
    line = " ".join(plain(text).split())
    return line if len(line) <= LONGEST_WORD else f"{line[: LONGEST_WORD - 1]}…"
