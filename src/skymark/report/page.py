"""Content of the HTML report: a run arranged for reading."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from skymark.machine.fitness import fitness_warnings
from skymark.model.metric import Declaration, Metric
from skymark.model.record import Cause, Record, StabilityWarning, Status
from skymark.model.sizes import count_of
from skymark.report.chart import (
    Axis,
    DistributionChart,
    PriceChart,
    distribution_charts,
    linear_axis,
    log_axis,
    price_chart,
)
from skymark.report.ranking_table import (
    Columns,
    Entry,
    Filled,
    RankedRow,
    not_ranked,
    ranked,
    why_not_ranked,
)
from skymark.report.text import Warned, noun_of, warned_in, writer
from skymark.report.verdicts import (
    ScenarioVerdict,
    comparing_command,
    decided_in,
    next_command,
    question_of,
    repeating_command,
    told_of,
    verdicts_of,
)
from skymark.rundir.reader import Run

MOST_IN_CARD = 4
"""Rows in the plot of a verdict's card: the best ones."""
MOST_CELLS = 1000
"""Cells of the largest run whose samples the page reads; more would take too long."""
WHISKER_LIMIT = 1.25
"""Longest axis relative to the largest value; a longer interval is cut."""


@dataclass(frozen=True)
class SpreadChart:
    """Three metrics on one axis, such as percentiles: the places of each row's marks."""

    heading: str
    axis: Axis
    marks: tuple[SpreadMarks | None, ...]
    """One per row; None where it has not got all three."""


@dataclass(frozen=True)
class SpreadMarks:
    """A row's marks in a chart of a spread, in per cent of the axis."""

    description: str
    """The same in words."""
    middle: float
    upper: float
    extreme: float


@dataclass(frozen=True)
class Table:
    """The adapters of one scenario, variant and set of axis values."""

    label: str
    detail: str
    """The part that tells it from the scenario's other tables: axis values, else the variant."""
    anchor: str
    rows: tuple[RankedRow, ...]
    unranked: tuple[Record, ...]
    """Records without a valid measurement."""
    stand_ins: tuple[Record, ...]
    """Records with the primary metric's stand-in only."""
    stand_in_columns: tuple[tuple[Metric, tuple[Entry, ...]], ...]
    """Their metrics."""
    why_not_ranked: str
    axis: Axis
    """Of the primary metric."""
    standing: tuple[Filled, ...]
    """Columns of the primary metric."""
    spreads: tuple[SpreadChart, ...]
    beside: tuple[Filled, ...]
    """Columns of the costs that the primary metric leaves out."""
    distributions: tuple[DistributionChart, ...]
    prices: PriceChart | None
    """None where no price is known."""
    others: tuple[Filled, ...]
    """Columns of all other metrics."""


@dataclass(frozen=True)
class Section:
    """One scenario with all its tables."""

    scenario: str
    title: str | None
    anchor: str
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class CellStanding:
    """One cell in the overview: its share of the best, or its status."""

    explanation: str
    status: Status | None = None
    share: float | None = None
    is_measured: bool = False
    """Whether it has figures that are not ranked."""
    wins: bool = False
    """Whether the rounds show it as the best."""

    @property
    def level(self) -> int:
        """How strongly to colour it, 0 to 100: logarithmic, 1 % of the best and below is 0."""
        if self.share is None or self.share <= 0:
            return 0
        return round(100 * min(1.0, max(0.0, 1 + math.log10(self.share) / 2)))


@dataclass(frozen=True)
class Absent:
    """Cells that were not measured for one reason."""

    status: Status
    adapter: str
    cause: Cause | None
    places: tuple[str, ...]
    """Scenarios, or single labels where only some of a scenario's cells are concerned."""


@dataclass(frozen=True)
class Card:
    """The verdict on one scenario, a plot of its best rows, and the next command."""

    verdict: ScenarioVerdict
    table: Table
    next_command: str | None
    """None where no command helps."""

    @property
    def rows(self) -> tuple[RankedRow, ...]:
        """The best rows."""
        return self.table.rows[:MOST_IN_CARD]


@dataclass(frozen=True)
class ReportPage:
    """The whole report."""

    run: Run
    problems: tuple[str, ...]
    """Files that could not be read, samples included, and why."""
    with_samples: bool
    """Whether samples were read for it."""
    question: str
    cards: tuple[Card, ...]
    repeating_command: str
    comparing_command: str | None
    """None for a run that is no side of a comparison."""
    noun: str
    """The word for an adapter."""
    rounds: str
    """The number of rounds of the measured cells, in a sentence."""
    decided: str | None
    """The number of decided scenarios, in words."""
    sections: tuple[Section, ...]
    overview: tuple[tuple[str, tuple[CellStanding, ...]], ...]
    """Each adapter with its cell of every table, in the order of the first table."""
    bad: tuple[Record, ...]
    absent: tuple[Absent, ...]
    warned: tuple[Warned, ...]
    fitness: tuple[StabilityWarning, ...]
    verified: tuple[Record, ...]
    counts: tuple[str, ...]
    """Names of the suite's own counts of verification."""
    conditions: tuple[str, ...]
    """Declared conditions that some record has."""
    versions: tuple[tuple[str, str], ...]
    """Adapter and the versions it was measured with."""
    own_versions: dict[str, str]
    """The version of each adapter's own library, by cell; absent where it is not known."""


def page_of(run: Run) -> ReportPage:
    """Arrange a run for reading.

    Raises:
        UnknownNameError: the run is of an old schema, and its suite is not installed.
    """
    declaration = run.declaration
    problems = list(run.problems)
    sections = tuple(_sections(run, problems))
    verified = tuple(record for record in run.records if record.verification is not None)
    tables = tuple(table for section in sections for table in section.tables)
    by_label = {table.label: table for table in tables}
    verdicts = verdicts_of(run, {table.label: table.rows for table in tables})
    return ReportPage(
        run=run,
        problems=tuple(problems),
        with_samples=len(run.records) <= MOST_CELLS,
        question=question_of(run),
        cards=tuple(
            Card(one, table, next_command(run, one, table.rows))
            for one in told_of(verdicts)
            for table in (by_label[one.label],)
        ),
        repeating_command=repeating_command(run),
        comparing_command=comparing_command(run),
        noun=noun_of(declaration),
        rounds=_rounds(run.records),
        decided=decided_in(verdicts),
        sections=sections,
        overview=tuple(_overview(run, tables)),
        bad=tuple(
            record for record in run.records if record.status.is_bad and not record.was_not_set_up
        ),
        absent=tuple(_absent(run.records)),
        warned=tuple(warned_in(run.records)),
        fitness=fitness_warnings(run.manifest.machine),
        verified=verified,
        counts=tuple(
            dict.fromkeys(
                name for one in verified if one.verification for name in one.verification.counts
            )
        ),
        conditions=tuple(
            name
            for name in declaration.conditions
            if any(name in record.conditions for record in verified)
        ),
        versions=tuple(_versions(run.records, declaration)),
        own_versions=_own_versions(run.records),
    )


def _sections(run: Run, problems: list[str]) -> Iterable[Section]:
    declaration = run.declaration
    columns = Columns(run)
    by_scenario: dict[str, list[Table]] = {}
    for label, records in run.by_label().items():
        table = _table(label, records, columns, run, problems)
        by_scenario.setdefault(records[0].cell.scenario, []).append(table)
    for scenario, tables in by_scenario.items():
        title = declaration.scenario_title(scenario)
        yield Section(scenario, title, anchor_of(scenario), tuple(tables))


def _table(
    label: str, records: Sequence[Record], columns: Columns, run: Run, problems: list[str]
) -> Table:
    declaration = columns.declaration
    cell = records[0].cell
    rows = tuple(ranked(records, declaration, run.directory))
    stand_ins = not_ranked(records, declaration)
    shown = {record.cell.id for record in (*(row.record for row in rows), *stand_ins)}
    return Table(
        label=label,
        detail=" ".join(f"{k} {v}" for k, v in sorted(cell.axes.items())) or cell.variant,
        anchor=anchor_of(f"t-{label}"),
        rows=rows,
        unranked=tuple(record for record in records if record.cell.id not in shown),
        stand_ins=tuple(stand_ins),
        stand_in_columns=tuple(columns.stand_in(stand_ins)),
        why_not_ranked=why_not_ranked(stand_ins, declaration),
        axis=_axis(rows, declaration),
        standing=tuple(columns.standing(rows)),
        spreads=tuple(_spread_charts(rows, declaration)),
        beside=tuple(columns.beside(rows)),
        distributions=tuple(
            distribution_charts(run, rows, problems) if len(run.records) <= MOST_CELLS else ()
        ),
        prices=price_chart(rows, declaration, run.manifest.hourly_price_usd),
        others=tuple(columns.others(rows)),
    )


def _axis(rows: Sequence[RankedRow], declaration: Declaration) -> Axis:
    """Return the axis of the primary metric, which shows each round and the interval."""
    metric = declaration.primary_metric
    values = [row.figure.value for row in rows]
    of_rounds = (value for row in rows for value in row.record.values(metric.name))
    highest = max(values, default=0.0) * WHISKER_LIMIT
    bounds = (min(row.figure.high or 0.0, highest) for row in rows)
    return linear_axis([*values, *of_rounds, *bounds], writer(metric))


def _spread_charts(rows: Sequence[RankedRow], declaration: Declaration) -> Iterable[SpreadChart]:
    """Yield the charts of the spreads that some row has."""
    for spread in declaration.spreads:
        writers = [writer(declaration.metric(name)) for name in spread.metrics]
        found = [
            [figure.value for name in spread.metrics if (figure := row.record.metrics.get(name))]
            for row in rows
        ]
        axis = log_axis((value for values in found for value in values), writers[0])
        marks: list[SpreadMarks | None] = []
        for values in found:
            if len(values) < len(writers):
                marks.append(None)
                continue
            words = (
                f"{label} {write(value)}"
                for label, write, value in zip(spread.labels, writers, values, strict=True)
            )
            description = f"{spread.heading}: {', '.join(words)}"
            marks.append(SpreadMarks(description, *map(axis.at, values)))
        if any(marks):
            heading = "{}: ● {}  | {}  ○ {}".format(spread.heading, *spread.labels)
            yield SpreadChart(heading, axis, tuple(marks))


def _overview(run: Run, tables: Sequence[Table]) -> Iterable[tuple[str, tuple[CellStanding, ...]]]:
    metric = run.declaration.primary_metric
    first = {row.record.cell.adapter: at for at, row in enumerate(tables[0].rows)} if tables else {}
    adapters = dict.fromkeys(record.cell.adapter for record in run.records)
    for adapter in sorted(adapters, key=lambda adapter: first.get(adapter, len(first))):
        yield adapter, tuple(_standing(table, adapter, metric) for table in tables)


def _standing(table: Table, adapter: str, metric: Metric) -> CellStanding:
    for row in table.rows:
        if row.record.cell.adapter == adapter:
            figure = f"{writer(metric)(row.figure.value)} {metric.heading}"
            return CellStanding(figure, share=row.share, wins=row.wins)
    for record in table.stand_ins:
        if record.cell.adapter == adapter:
            return CellStanding(table.why_not_ranked, is_measured=True)
    for record in table.unranked:
        if record.cell.adapter == adapter:
            message = record.cause.message if record.cause else "no cause was recorded"
            return CellStanding(message, record.status)
    return CellStanding("not in the plan, or no record yet")


def _rounds(records: Sequence[Record]) -> str:
    counts = sorted(len(record.rounds) for record in records if record.metrics)
    if not counts:
        return "No round was measured."
    least, most = counts[0], counts[-1]
    return f"{least} to {most} rounds each." if least < most else f"{count_of(most, 'round')} each."


def _absent(records: Sequence[Record]) -> Iterable[Absent]:
    groups: dict[tuple[Status, str, Cause | None], list[str]] = {}
    labels: dict[str, dict[str, None]] = {}
    for record in records:
        labels.setdefault(record.cell.scenario, {})[record.cell.label] = None
        if record.was_not_run:
            key = (record.status, record.cell.adapter, record.cause)
            groups.setdefault(key, []).append(record.cell.label)
    for (status, adapter, cause), concerned in groups.items():
        places: list[str] = []
        for scenario, all_of_it in labels.items():
            some = [label for label in all_of_it if label in concerned]
            places += [scenario] if len(some) == len(all_of_it) else some
        yield Absent(status, adapter, cause, tuple(places))


def _versions(records: Sequence[Record], declaration: Declaration) -> Iterable[tuple[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for record in records:
        found.setdefault(record.cell.adapter, {}).update(record.versions)
    for adapter, versions in found.items():
        if versions:
            yield (
                declaration.adapter_name(adapter),
                ", ".join(f"{k} {v}" for k, v in versions.items()),
            )


def _own_versions(records: Sequence[Record]) -> dict[str, str]:
    """Return the version of each adapter's library; none if adapters share one, as models do."""
    libraries = {one.cell.adapter: next(iter(one.versions)) for one in records if one.versions}
    if len(set(libraries.values())) < len(libraries):
        return {}
    return {one.cell.id: next(iter(one.versions.values())) for one in records if one.versions}


def anchor_of(text: str) -> str:
    """Return a text as a name that links can point to."""
    return re.sub(r"[^\w.-]+", "-", text)
