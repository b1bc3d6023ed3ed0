"""The ranking of adapters by the primary metric, and the columns of its table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from skymark.model.metric import Declaration, Figure, Metric
from skymark.model.record import Record, Status, Stop
from skymark.report.text import MISSING, margin, share, significant, writer
from skymark.rundir.row import price_per_million_usd, rate_of, read_outcomes
from skymark.statistics.difference import (
    PAIRED_PRACTICAL,
    Difference,
    PlaceRange,
    difference,
    is_shown,
    places_of,
)
from skymark.statistics.outcomes import apart, difference_in_outcomes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from skymark.rundir.reader import Run


@dataclass(frozen=True)
class RankedRow:
    """An `ok` record with its order in the table."""

    record: Record
    figure: Figure
    """The primary metric."""
    to_best: Difference
    to_baseline: Difference | None
    """None where the baseline was not measured."""
    share: float | None
    """Ratio to the best, turned so that below 1 is worse."""
    multiple: float | None
    """Ratio to the baseline, turned so that above 1 is better."""
    place: PlaceRange
    tied: bool
    """Whether its group has others, so that some pair's order is not shown."""
    wins: bool
    """Whether the rounds show it as the best: tables set it in bold."""

    @property
    def leads(self) -> bool:
        """Whether no row beats it."""
        return self.place.first == 1


MOST_PAIRED = 30
"""Records that are ranked by the outcomes of elements; of more, by their intervals, which is
quick."""


def ranked(
    records: Sequence[Record], declaration: Declaration, directory: Path | None = None
) -> list[RankedRow]:
    """Return the `ok` records of one scenario that have the primary metric, the best first.

    Records of disturbed rounds are left out, because a slow round may be the machine's doing.

    Args:
        records: of one scenario.
        declaration: of their metrics.
        directory: of their run, with the outcomes of single elements; without it, comparisons by
            elements take the records' intervals, and show less.
    """
    metric = declaration.primary_metric
    good = [
        (record, record.metrics[metric.name])
        for record in records
        if record.status is Status.OK and metric.name in record.metrics
        if not _is_disturbed(record, metric)
    ]
    good.sort(key=lambda pair: pair[1].value, reverse=metric.better == "higher")
    if not good:
        return []
    values = [values_of(record, metric) for record, _ in good]
    by_element = None
    if metric.outcome is not None:
        paired = directory if len(good) <= MOST_PAIRED else None
        by_element = ByElement(declaration, paired, paired, practical=0.0)

    def compared(one: int, other: int) -> Difference:
        if by_element is None:
            return difference(values[one], values[other], metric)
        return by_element.difference(good[one][0], good[other][0], metric)

    def shown(one: int, other: int) -> bool:
        if by_element is None:
            return is_shown(values[one], values[other], metric)
        return by_element.difference(good[one][0], good[other][0], metric).is_real

    places = places_of(len(good), shown)
    adapters = [one.cell.adapter for one, _ in good]
    baseline = adapters.index(declaration.baseline) if declaration.baseline in adapters else None
    sizes = Counter(place.group for place in places)
    is_decided = len(good) > 1 and sum(place.first == 1 for place in places) == 1
    rows = []
    for number, ((record, figure), place) in enumerate(zip(good, places, strict=True)):
        to_best = compared(number, 0)
        to_baseline = None if baseline is None else compared(number, baseline)
        rows.append(
            RankedRow(
                record=record,
                figure=figure,
                to_best=to_best,
                to_baseline=to_baseline,
                share=times_as_good(to_best, metric),
                multiple=None if to_baseline is None else times_as_good(to_baseline, metric),
                place=place,
                tied=sizes[place.group] > 1,
                wins=is_decided and place.first == 1,
            )
        )
    return rows


def rankings_of(run: Run) -> dict[str, list[RankedRow]]:
    """Return the ranked rows of each scenario of a run, by label."""
    return {
        label: ranked(records, run.declaration, run.directory)
        for label, records in run.by_label().items()
    }


class ByElement:
    """Comparisons of two runs' records by the elements that both scored."""

    def __init__(
        self,
        declaration: Declaration,
        before: Path | None,
        after: Path | None,
        practical: float = PAIRED_PRACTICAL,
    ) -> None:
        """Take the runs' directories, and the smallest relative difference that counts."""
        self._declaration = declaration
        self._practical = practical
        self._before, self._after = before, after
        self._read: dict[tuple[Path, str, str], NDArray[Any] | None] = {}

    def difference(self, after: Record, before: Record, metric: Metric) -> Difference:
        """Compare a metric of two records, in pairs of elements if both have the same ones.

        Args:
            after: the candidate.
            before: the reference.
            metric: with an outcome.
        """
        practical = self._practical
        ours, theirs = self._of(self._after, after, metric), self._of(self._before, before, metric)
        same = all(
            before.conditions.get(name) == after.conditions.get(name)
            for name in self._declaration.elements
        )
        if ours is None or theirs is None or not same or len(ours) != len(theirs) or len(ours) < 2:
            return apart(after.metrics[metric.name], before.metrics[metric.name], metric, practical)
        return difference_in_outcomes(ours, theirs, metric, practical)

    def _of(self, directory: Path | None, record: Record, metric: Metric) -> NDArray[Any] | None:
        if directory is None:
            return None
        key = (directory, record.cell.id, metric.name)
        if key not in self._read:
            try:
                self._read[key] = read_outcomes(directory, record, metric)
            except (OSError, ValueError):  # the page names damaged files
                self._read[key] = None
        return self._read[key]


def not_ranked(records: Sequence[Record], declaration: Declaration) -> list[Record]:
    """Return the `ok` records of one scenario that are not ranked.

    They rest on disturbed rounds, or have the stand-in of the primary metric only.
    """
    return [
        record
        for record in records
        if record.status is Status.OK
        and (
            declaration.stand_in in record.metrics
            if declaration.primary not in record.metrics
            else _is_disturbed(record, declaration.primary_metric)
        )
    ]


def _is_disturbed(record: Record, metric: Metric) -> bool:
    """Whether others may have changed a record's figure; a figure that is exact does not vary."""
    return record.disturbed and metric.scale != "exact"


def why_not_ranked(records: Sequence[Record], declaration: Declaration) -> str:
    """Return why records are not ranked, each reason once."""
    name = declaration.stand_in_reason or ""
    return "; ".join(
        dict.fromkeys(
            str(record.conditions.get(name, ""))
            if declaration.primary not in record.metrics
            else "too few rounds were undisturbed by other programs"
            for record in records
        )
    )


def values_of(record: Record, metric: Metric) -> list[float]:
    """Return the values of a metric that a record has, which are compared with another's.

    There is one per round. A pooled or exact metric has a single value.
    """
    of_rounds = [] if metric.pooled or metric.scale == "exact" else record.values(metric.name)
    return of_rounds or [record.metrics[metric.name].value]


def times_as_good(found: Difference, metric: Metric) -> float | None:
    """Return a ratio turned so that above 1 is better; None where a zero forbids it."""
    if found.ratio is None:
        return None
    ratio = found.ratio.value
    if metric.better == "higher":
        return ratio
    return 1 / ratio if ratio else None


def share_of_limit(row: RankedRow) -> float | None:
    """Return a rate's share of the lowest ceiling of the machine itself; None without one."""
    limits = row.record.limits
    lowest = None if limits is None else limits.lowest
    return None if lowest is None else row.figure.value / lowest.rate


UNSURE = "≈"
"""Stands before a ratio whose distance from 1 is not shown to be real."""

WIDE_ONLY = 7
"""Columns that give way this soon are in wide tables only."""
BASELINE_GIVES_WAY = 7
PLACE = "order"
PLACE_GIVES_WAY = 1
LIMIT_GIVES_WAY = 6
PRICE_GIVES_WAY = 1


class Entry(NamedTuple):
    """A row's entry in a column: the number to sort by, and its text."""

    value: float | None
    text: str


@dataclass(frozen=True)
class TableColumn:
    """A column: its heading, how a row shows in it, and how soon it gives way (0 never)."""

    heading: str
    title: str
    """Its meaning in a few words."""
    entry: Callable[[RankedRow], Entry]
    gives_way: int = 0
    first: Literal["ascending", "descending"] = "descending"
    """The order that one wants first when sorting by it: the best on top."""
    is_primary: bool = False

    @property
    def is_wide_only(self) -> bool:
        """Whether only wide tables show it."""
        return self.gives_way >= WIDE_ONLY


RULES = tuple(Stop)


def _stopped_by(row: RankedRow) -> Entry:
    stop = row.record.stopped_by
    return Entry(None, MISSING) if stop is None else Entry(RULES.index(stop), stop.value)


STOPPED_BY = TableColumn(
    "stopped by",
    "the rule that ended its rounds: interval (narrow enough, and its rank known), decided (left "
    "alone), rounds (the most), or time",
    _stopped_by,
    gives_way=WIDE_ONLY,
    first="ascending",
)
GROUP_MARKS = ("┐", "│", "┘")
"""The first, the middle and the last line of adapters whose order is not shown."""


def group_marks(rows: Sequence[RankedRow]) -> list[str]:
    """Return what follows each place in text: a part of a bracket, spaces, or nothing at all."""
    if not any(row.tied for row in rows):
        return [""] * len(rows)
    groups = [row.place.group for row in rows]
    marks = []
    for before, own, after in zip([-1, *groups], groups, [*groups[1:], -1], strict=False):
        top, bottom = before != own, after != own
        first, middle, last = GROUP_MARKS
        marks.append(" " if top and bottom else first if top else last if bottom else middle)
    return [f" {mark}" for mark in marks]


class Filled(NamedTuple):
    """A column with its entries, one per row."""

    column: TableColumn
    entries: tuple[Entry, ...]


class Columns:
    """The columns of a run's tables, from its declaration; a scenario's own metrics are added."""

    def __init__(self, run: Run) -> None:
        """Derive the columns that all tables of a run have.

        The price is among them where it is known, and the rule that ended the rounds where their
        time was limited.
        """
        self.declaration = declaration = run.declaration
        self._known = {one.name for one in declaration.shared}
        price = price_column(declaration, run.manifest.hourly_price_usd)
        self._standing = (
            *_standing(declaration),
            *([] if price is None else [price]),
            *([] if run.manifest.plan.allotment is None else [STOPPED_BY]),
        )
        self._beside = tuple(
            _metric_column(declaration.metric(one), with_margin=one == declaration.cost)
            for one in declaration.beside
        )
        elsewhere = {declaration.primary, *declaration.beside}
        self._shared = tuple(
            _metric_column(one)
            for one in declaration.shared
            if one.shown is not None and one.name not in elsewhere
        )

    def all(self, rows: Sequence[RankedRow]) -> list[Filled]:
        """Return all columns that have something to show."""
        return [*self.standing(rows), *self.beside(rows), *self.others(rows)]

    def standing(self, rows: Sequence[RankedRow]) -> list[Filled]:
        """Return the columns of the primary metric, those left out that have nothing to show."""
        return _filled(self._standing, rows)

    def beside(self, rows: Sequence[RankedRow]) -> list[Filled]:
        """Return the columns of the costs that the primary metric leaves out."""
        return _filled(self._beside, rows)

    def stand_in(self, records: Sequence[Record]) -> list[tuple[Metric, tuple[Entry, ...]]]:
        """Return the metrics of records that are not ranked, the primary one's stand-in first."""
        declaration = self.declaration
        first = declaration.stand_in_metric
        if not records:
            return []
        if first is None or any(declaration.primary in one.metrics for one in records):
            first = declaration.primary_metric
        names = dict.fromkeys(name for one in records for name in one.metrics)
        shared = [one for one in declaration.shared if one.name in names]
        own = [declaration.metric(name) for name in names if name not in self._known]
        shown = [one for one in (*shared, *own) if one.shown is not None and one != first]
        return [(one, tuple(_entry(record, one) for record in records)) for one in (first, *shown)]

    def others(self, rows: Sequence[RankedRow]) -> list[Filled]:
        """Return the columns of all other metrics that some row has; own metrics come last."""
        names = (name for row in rows for name in row.record.metrics if name not in self._known)
        own = (self.declaration.metric(name) for name in dict.fromkeys(names))
        own_columns = [_metric_column(one) for one in own if one.shown is not None]
        return _filled((*self._shared, *own_columns), rows)


def _filled(columns: Sequence[TableColumn], rows: Sequence[RankedRow]) -> list[Filled]:
    filled = [Filled(column, tuple(column.entry(row) for row in rows)) for column in columns]
    return [one for one in filled if any(entry.value is not None for entry in one.entries)]


def _standing(declaration: Declaration) -> list[TableColumn]:
    metric = declaration.primary_metric
    write, higher = writer(metric), metric.better == "higher"
    of_best = f"share of the {metric.words.best}" if higher else f"{metric.words.best} over own"
    columns = [
        TableColumn(
            metric.heading,
            metric.description,
            lambda row: Entry(_number(row.figure.value, metric), write(row.figure.value)),
            first="descending" if higher else "ascending",
            is_primary=True,
        ),
        TableColumn(
            "±",
            "half the 95 % interval over rounds, relative",
            lambda row: Entry(row.figure.relative_half_width, margin(row.figure)),
            first="ascending",
        ),
        TableColumn(
            "vs best",
            f"{of_best}; {UNSURE} marks a difference that the rounds do not show",
            lambda row: Entry(row.share, _ratio(row.share, row.to_best, share)),
        ),
        TableColumn(
            PLACE,
            "the positions it may have, by comparison in pairs",
            lambda row: Entry(row.place.first, _place(row.place)),
            gives_way=PLACE_GIVES_WAY,
            first="ascending",
        ),
    ]
    if higher:
        columns.append(
            TableColumn(
                "of limit",
                "share of what this machine does alone, such as decoding",
                lambda row: Entry(share_of_limit(row), share(share_of_limit(row))),
                gives_way=LIMIT_GIVES_WAY,
            )
        )
    if (baseline := declaration.baseline) is not None:
        name = declaration.adapter_name(baseline)
        columns.append(
            TableColumn(
                f"× {baseline}",
                f"own {metric.heading} over that of {name}"
                if higher
                else f"{metric.heading} of {name} over own",
                lambda row: Entry(
                    row.multiple,
                    _ratio(row.multiple, row.to_baseline, partial(significant, digits=2)),
                ),
                gives_way=BASELINE_GIVES_WAY,
            )
        )
    return columns


def price_column(declaration: Declaration, hourly_price_usd: float | None) -> TableColumn | None:
    """Return the column of the price of a million samples; None where no price is known."""
    rate = rate_of(declaration)
    if rate is None or hourly_price_usd is None:
        return None

    def entry(row: RankedRow) -> Entry:
        value = price_per_million_usd(row.record, declaration, hourly_price_usd)
        return Entry(value, MISSING if value is None else significant(value))

    return TableColumn(
        f"$ per 1M {rate.heading.removesuffix('/s')}",
        f"the machine's {hourly_price_usd:g} USD per hour over {rate.heading}",
        entry,
        gives_way=PRICE_GIVES_WAY,
        first="ascending",
    )


def _place(place: PlaceRange) -> str:
    return f"{place.first}" if place.first == place.last else f"{place.first}–{place.last}"


def _metric_column(metric: Metric, *, with_margin: bool = False) -> TableColumn:
    return TableColumn(
        metric.heading,
        f"{metric.description}, with half the 95 % interval" if with_margin else metric.description,
        lambda row: _entry(row.record, metric, with_margin=with_margin),
        gives_way=metric.shown.gives_way if metric.shown else 0,
        first="ascending" if metric.better == "lower" else "descending",
    )


def _entry(record: Record, metric: Metric, *, with_margin: bool = False) -> Entry:
    figure = record.metrics.get(metric.name)
    if figure is None:
        return Entry(None, MISSING)
    text = writer(metric)(figure.value)
    if with_margin and figure.relative_half_width is not None:
        text = f"{text} {margin(figure)}"
    return Entry(_number(figure.value, metric), text)


def _number(value: float, metric: Metric) -> float:
    return int(value) if metric.integer else value


def _ratio(value: float | None, found: Difference | None, write: Callable[[float], str]) -> str:
    if value is None or found is None:
        return MISSING
    return f"{'' if found.is_real or value == 1 else UNSURE}{write(value)}"
