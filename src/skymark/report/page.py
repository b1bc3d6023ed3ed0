"""What the HTML report shows: a run arranged for reading."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from skymark.machine.fitness import fitness_warnings
from skymark.model.record import Cause, Record, StabilityWarning, Status
from skymark.report.chart import Axis, linear_axis, log_axis
from skymark.report.names import adapter_name, scenario_title
from skymark.report.ranking import Row, ranked
from skymark.report.text import count, milliseconds
from skymark.run.reader import Run

WHISKER_LIMIT = 1.25
"""An interval may lengthen the axis to so many times the largest rate; beyond it is cut."""


@dataclass(frozen=True)
class Table:
    """The adapters of one scenario, variant and set of axis values."""

    label: str
    detail: str
    """What tells it from the scenario's other tables: its axis values, else its variant."""
    anchor: str
    rows: tuple[Row, ...]
    others: tuple[Record, ...]
    """Those that were not measured, or refused."""
    rate_axis: Axis
    wait_axis: Axis
    extras: tuple[str, ...]
    """Names of the figures that only this scenario has."""

    @property
    def has_utilisation(self) -> bool:
        """Whether batches had a think time."""
        return any(row.figures.utilisation is not None for row in self.rows)

    @property
    def has_baseline(self) -> bool:
        """Whether the plain loop was measured and others can be compared with it."""
        return len(self.rows) > 1 and any(row.to_baseline is not None for row in self.rows)


@dataclass(frozen=True)
class Section:
    """One scenario with all its tables."""

    scenario: str
    title: str | None
    anchor: str
    tables: tuple[Table, ...]


@dataclass(frozen=True)
class Entry:
    """One cell in the overview: its share of the best rate, or what became of it."""

    share: float | None
    leads: bool
    status: Status | None
    explanation: str

    @property
    def level(self) -> int:
        """How strongly to colour it, 0 to 100: logarithmic, 1 % of the best and below is 0."""
        if self.share is None or self.share <= 0:
            return 0
        return round(100 * min(1.0, max(0.0, 1 + math.log10(self.share) / 2)))


@dataclass(frozen=True)
class Overview:
    """Adapters by scenario, the best first."""

    tables: tuple[Table, ...]
    lines: tuple[tuple[str, tuple[Entry, ...]], ...]


@dataclass(frozen=True)
class Absent:
    """Cells that were not measured for one reason."""

    status: Status
    adapter: str
    cause: Cause | None
    places: tuple[str, ...]
    """Scenarios, or single labels where only some of a scenario's cells are concerned."""


@dataclass(frozen=True)
class Page:
    """The whole report."""

    run: Run
    sections: tuple[Section, ...]
    overview: Overview
    bad: tuple[Record, ...]
    absent: tuple[Absent, ...]
    warned: tuple[tuple[StabilityWarning, tuple[Record, ...]], ...]
    fitness: tuple[StabilityWarning, ...]
    verified: tuple[Record, ...]
    versions: tuple[tuple[str, str], ...]
    """Adapter and the versions it was measured with."""


def page_of(run: Run) -> Page:
    """Arrange a run for reading."""
    sections = tuple(_sections(run))
    tables = tuple(table for section in sections for table in section.tables)
    return Page(
        run=run,
        sections=sections,
        overview=_overview(run, tables),
        bad=tuple(record for record in run.records if record.status.is_bad),
        absent=tuple(_absent(run.records)),
        warned=tuple(_warned(run.records)),
        fitness=fitness_warnings(run.manifest.machine),
        verified=tuple(record for record in run.records if record.verification is not None),
        versions=tuple(_versions(run.records)),
    )


def _sections(run: Run) -> Iterable[Section]:
    by_scenario: dict[str, list[Table]] = {}
    for label, records in run.by_label().items():
        by_scenario.setdefault(records[0].cell.scenario, []).append(_table(label, records))
    for scenario, tables in by_scenario.items():
        yield Section(scenario, scenario_title(scenario), anchor_of(scenario), tuple(tables))


def _table(label: str, records: Sequence[Record]) -> Table:
    cell = records[0].cell
    rows = tuple(ranked(records))
    shown = {row.record.cell.id for row in rows}
    rates = [one.samples_per_s for row in rows for one in row.record.rounds]
    highest = max((row.figures.samples_per_s.value for row in rows), default=0.0)
    bounds = (row.figures.samples_per_s.high or 0.0 for row in rows)
    waits = [
        wait
        for row in rows
        for wait in (row.figures.wait_p50_ns, row.figures.wait_p95_ns, row.figures.wait_p99_ns)
    ]
    return Table(
        label=label,
        detail=" ".join(f"{k} {v}" for k, v in sorted(cell.axes.items())) or cell.variant,
        anchor=anchor_of(f"t-{label}"),
        rows=rows,
        others=tuple(record for record in records if record.cell.id not in shown),
        rate_axis=linear_axis(
            [*rates, *(min(bound, highest * WHISKER_LIMIT) for bound in bounds)], count
        ),
        wait_axis=log_axis(waits, milliseconds),
        extras=tuple(dict.fromkeys(name for row in rows for name in row.figures.extra)),
    )


def _overview(run: Run, tables: Sequence[Table]) -> Overview:
    lines: dict[str, list[Entry]] = {}
    for adapter in dict.fromkeys(record.cell.adapter for record in run.records):
        lines[adapter] = [_entry(table, adapter) for table in tables]

    def standing(entries: list[Entry]) -> float:
        shares = [entry.share for entry in entries if entry.share]
        return fmean(map(math.log, shares)) if shares else -math.inf

    ordered = sorted(lines.items(), key=lambda line: standing(line[1]), reverse=True)
    return Overview(tuple(tables), tuple((name, tuple(entries)) for name, entries in ordered))


def _entry(table: Table, adapter: str) -> Entry:
    for row in table.rows:
        if row.record.cell.adapter == adapter:
            rate = f"{count(row.figures.samples_per_s.value)} samples/s"
            return Entry(row.to_best.ratio.value, row.leads, None, rate)
    for record in table.others:
        if record.cell.adapter == adapter:
            message = record.cause.message if record.cause else "no cause was recorded"
            return Entry(None, leads=False, status=record.status, explanation=message)
    return Entry(None, leads=False, status=None, explanation="not in the plan, or no record yet")


def _absent(records: Sequence[Record]) -> Iterable[Absent]:
    groups: dict[tuple[Status, str, Cause | None], list[str]] = {}
    labels: dict[str, dict[str, None]] = {}
    for record in records:
        labels.setdefault(record.cell.scenario, {})[record.cell.label] = None
        if record.status in {Status.SKIPPED, Status.UNSUPPORTED}:
            key = (record.status, record.cell.adapter, record.cause)
            groups.setdefault(key, []).append(record.cell.label)
    for (status, adapter, cause), concerned in groups.items():
        places: list[str] = []
        for scenario, all_of_it in labels.items():
            some = [label for label in all_of_it if label in concerned]
            places += [scenario] if len(some) == len(all_of_it) else some
        yield Absent(status, adapter, cause, tuple(places))


def _warned(
    records: Sequence[Record],
) -> Iterable[tuple[StabilityWarning, tuple[Record, ...]]]:
    """Yield each kind of warning by its first case, with every cell that has it."""
    first: dict[str, StabilityWarning] = {}
    cells: dict[str, list[Record]] = {}
    for record in records:
        for warning in record.warnings:
            first.setdefault(warning.kind, warning)
            cells.setdefault(warning.kind, []).append(record)
    for kind, warning in first.items():
        yield warning, tuple(cells[kind])


def _versions(records: Sequence[Record]) -> Iterable[tuple[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for record in records:
        found.setdefault(record.cell.adapter, {}).update(record.versions)
    for adapter, versions in found.items():
        if versions:
            yield adapter_name(adapter), ", ".join(f"{k} {v}" for k, v in versions.items())


def anchor_of(text: str) -> str:
    """Return a text as a name that links can point to."""
    return re.sub(r"[^\w.-]+", "-", text)
