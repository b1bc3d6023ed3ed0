"""Progress of a run: its cells by state, and each adapter's median so far."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from skymark.model.errors import UsageError
from skymark.model.manifest import Manifest
from skymark.model.metric import Declaration, Metric
from skymark.model.plan import Plan
from skymark.model.record import Cell, Status
from skymark.report.text import writer
from skymark.rundir.layout import MANIFEST
from skymark.rundir.reader import Heads, RecordHead, open_heads
from skymark.rundir.writer_locks import is_being_written

if TYPE_CHECKING:
    from skymark.suite.contract import Suite


MOST_COLUMNS = 4
"""Scenarios beside one another; of more, only the one that is being measured is shown."""


class LiveStanding:
    """Values of the rounds so far, by scenario and adapter.

    Args:
        declaration: names the metrics and the adapters.
    """

    def __init__(self, declaration: Declaration) -> None:
        self._declaration = declaration
        self._values: dict[str, dict[str, list[float]]] = {}
        self._metrics: dict[str, Metric] = {}
        self._latest = ""

    def add(self, cell: Cell, metrics: Mapping[str, float]) -> str | None:
        """Add a round's figures and return the sentence that tells where the adapter stands.

        Returns:
            Such as ``CV-1:small, Google Grain: 412 rows/s, median of 2 rounds 405; best so far
            NVIDIA DALI with 650``; None where the round has no rate.
        """
        metric = self._metric(metrics)
        if metric is None:
            return None
        self._latest = cell.label
        self._metrics[cell.label] = metric
        of_label = self._values.setdefault(cell.label, {})
        values = of_label.setdefault(cell.adapter, [])
        values.append(metrics[metric.name])
        write = writer(metric)
        said = f"{cell.label}, {self._name(cell.adapter)}: {write(values[-1])} {metric.heading}"
        if len(values) > 1:
            said += f", median of {len(values)} rounds {write(median(values))}"
        best = self._best(of_label, metric)
        if len(of_label) > 1 and best != cell.adapter:
            said += f"; best so far {self._name(best)} with {write(median(of_label[best]))}"
        return said

    def headings(self) -> tuple[str, ...]:
        """Return the headings of the table: a column of medians for each scenario shown."""
        each = (f"{label}, {self._metrics[label].heading} (rounds)" for label in self._shown())
        return ("median so far", *each)

    def rows(self) -> Iterator[tuple[str, ...]]:
        """Yield a row for each adapter, in the order of their first rounds."""
        shown = self._shown()
        write = {label: writer(self._metrics[label]) for label in shown}
        for adapter in dict.fromkeys(one for label in shown for one in self._values[label]):
            each = ((write[one], self._values[one].get(adapter)) for one in shown)
            told = (
                f"{text(median(found))} ({len(found)})" if found else "" for text, found in each
            )
            yield (self._name(adapter), *told)

    def _shown(self) -> tuple[str, ...]:
        labels = tuple(self._values)
        return labels if len(labels) <= MOST_COLUMNS else (self._latest,)

    def _metric(self, metrics: Mapping[str, float]) -> Metric | None:
        """Return the primary metric, or its stand-in where a round has only that."""
        declared = (self._declaration.primary_metric, self._declaration.stand_in_metric)
        return next((one for one in declared if one is not None and one.name in metrics), None)

    def _name(self, adapter: str) -> str:
        return self._declaration.adapter_name(adapter)

    @staticmethod
    def _best(of_label: Mapping[str, list[float]], metric: Metric) -> str:
        choose = min if metric.better == "lower" else max
        return choose(of_label, key=lambda adapter: median(of_label[adapter]))


Announce = Callable[[str], None]


class CellPhase(StrEnum):
    """States of a planned cell, in the order of tables."""

    DONE = "done"
    RUNNING = "running"
    FAILED = "failed"
    LEFT_OUT = "left out"
    PENDING = "pending"


OF_STATUS = {
    Status.OK: CellPhase.DONE,
    Status.INVALID: CellPhase.FAILED,
    Status.FAILED: CellPhase.FAILED,
    Status.TIMEOUT: CellPhase.FAILED,
    Status.SKIPPED: CellPhase.LEFT_OUT,
    Status.UNSUPPORTED: CellPhase.LEFT_OUT,
}


@dataclass(frozen=True)
class CellState:
    """A planned cell with its state, and its message after a failure or a refusal."""

    cell: Cell
    state: CellPhase
    message: str = ""


def states_of(
    cells: Mapping[str, Cell], records: Mapping[str, RecordHead], running: Collection[str] = ()
) -> list[CellState]:
    """Return the state of each planned cell; a cell without a record is pending.

    Args:
        cells: of the plan, in its order, by hash; by id where they are of one run.
        records: those that there are, on disk or in a store, by the same of their cell.
        running: ids of cells that are being measured.
    """
    return [_state(cell, records.get(key), running) for key, cell in cells.items()]


def _state(cell: Cell, record: RecordHead | None, running: Collection[str]) -> CellState:
    if record is None:
        return CellState(cell, CellPhase.RUNNING if cell.id in running else CellPhase.PENDING)
    message = "" if record.cause is None else f"{record.status.value}: {record.cause.message}"
    return CellState(cell, OF_STATUS[record.status], message)


def counted(
    states: Iterable[CellState], key: Callable[[Cell], str]
) -> dict[str, Counter[CellPhase]]:
    """Return the numbers of cells by state, for each value of a key in the plan's order."""
    found: dict[str, Counter[CellPhase]] = {}
    for one in states:
        found.setdefault(key(one.cell), Counter())[one.state] += 1
    return found


def states_at(
    places: Sequence[str], suite: Suite, plan: Plan | None, announce: Announce
) -> list[CellState]:
    """Return the state of each planned cell over all runs.

    Args:
        places: directories of runs, or addresses of stored ones; together they are one run.
        suite: of all of them.
        plan: the cells that count, wherever their records are; None for the runs' own.
        announce: told of files that cannot be read.

    Raises:
        UsageError: a place is no run of the suite's, or the plan is another suite's.
    """
    alone = len(places) == 1 and plan is None
    planned: dict[str, Cell] = {}
    if plan is not None:
        if plan.suite != suite.name:
            raise UsageError(f"the plan is of the suite {plan.suite}")
        planned = {one.cell.hash: one.cell for one in plan.cells}
    records: dict[str, RecordHead] = {}
    running: set[str] = set()
    for place in places:
        with directory_of(place) as directory:
            run = open_heads(directory)
            require_suite(run.manifest, directory, suite)
            for problem in run.problems:
                announce(problem)
            if alone:  # ids tell its cells apart, and hashes of ten thousand take their time
                return states_of(run.manifest.cells, run.by_id, running_in(run))
            if plan is None:
                planned |= {cell.hash: cell for cell in run.manifest.cells.values()}
            heads = {head.cell_hash: head for head in run.by_id.values()}
            records |= {key: one for key, one in heads.items() if is_better(one, records.get(key))}
            running |= running_in(run)
    return states_of(planned, records, running)


def is_better(record: RecordHead, other: RecordHead | None) -> bool:
    """Whether a record tells more than another of the same pair: a good one, or the later one."""
    if other is None or record.status is Status.OK:
        return True
    return other.status is not Status.OK and record.ended_at > other.ended_at


@contextmanager
def directory_of(place: str) -> Iterator[Path]:
    """Yield the directory of a run; of a stored one, with only its manifest and its records.

    Raises:
        UsageError: there is no run.
        StoreError: the store cannot be read.
    """
    from skymark.store.fetching import fetch
    from skymark.store.kinds import is_address, open_source

    if not is_address(place):
        yield Path(place)
        return
    with closing(open_source(place)) as source, TemporaryDirectory() as directory:
        try:
            fetch(
                source,
                Path(directory),
                only=lambda path: path == MANIFEST or path.startswith("records/"),
            )
        except FileNotFoundError as error:
            raise UsageError(str(error)) from error
        yield Path(directory)


def require_suite(manifest: Manifest, directory: Path, suite: Suite) -> None:
    """Refuse a run of another suite.

    Raises:
        UsageError: it is one.
    """
    if (other := manifest.plan.suite) != suite.name:
        raise UsageError(
            f"{directory} is a run of the suite {other}; `skymark report {directory}` shows it"
        )


def running_in(run: Heads) -> set[str]:
    """Return the cell that this machine measures: of those without a record, the newest log's."""
    if not is_being_written(run.directory):
        return set()
    logs = {
        cell.id: log.stat().st_mtime_ns
        for cell in run.missing
        if (log := run.directory / "logs" / f"{cell.id}.log").is_file()
    }
    return {max(logs, key=lambda cell: logs[cell])} if logs else set()
