"""Cells of a run between their first round and their record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from skymark.machine.gpu_fitness import use_warnings
from skymark.model.effort import Effort
from skymark.model.plan import PlannedCell
from skymark.model.record import (
    Cause,
    Cell,
    Record,
    RoundResult,
    Setting,
    StabilityWarning,
    Status,
    Stop,
    Verification,
)
from skymark.rundir.directory import RunDirectory
from skymark.suite.contract import Suite

DOUBTFUL_ROUND = "doubtful-round"


@dataclass
class UnfinishedCell:
    """A cell that has no record yet, with the rounds it has."""

    planned: PlannedCell
    started_at: datetime
    rounds: list[RoundResult] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, StabilityWarning] = field(default_factory=dict)
    """Warnings about the rounds, by kind."""
    accelerator: str | None = None
    """The accelerator that its library sees; None where the platform has none."""
    next_round: int = 0
    """Number of the round to measure next; rounds that did not count have numbers too."""

    def warn(self, *, kind: str, message: str, action: str) -> None:
        """Note what made the rounds less trustworthy; the last of a kind stays."""
        self.warnings[kind] = StabilityWarning(kind=kind, message=message, action=action)

    def set_aside(self, result: RoundResult, doubtful: Collection[str]) -> bool:
        """Leave out a round in which the machine may have stood still; once in a cell.

        Args:
            result: of the round.
            doubtful: kinds of causes that are no proof the first time.

        Returns:
            Whether it was left out, and another one is needed.
        """
        cause = result.verification.cause
        if cause is None or cause.kind not in doubtful or DOUBTFUL_ROUND in self.warnings:
            return False
        self.warn(
            kind=DOUBTFUL_ROUND,
            message=f"round {result.round + 1} did not count, and another did: {cause.message}",
            action="measure where nothing else runs, if the machine stood still for so long",
        )
        return True

    def add(self, result: RoundResult, versions: dict[str, str]) -> None:
        """Count a round. Rounds with other versions are never put together: the older ones go."""
        if versions != self.versions:
            self.rounds.clear()
        self.versions = versions
        self.rounds.append(result)
        self.next_round = result.round + 1

    def record(
        self,
        suite: Suite,
        effort: Effort,
        status: Status,
        cause: Cause | None,
        stop: Stop | None,
        ended_at: datetime,
    ) -> Record:
        """Return the record of the cell; figures only where it ended `ok`."""
        rounds = self.rounds
        is_ok = bool(rounds) and status is Status.OK
        warnings = suite.warnings(rounds, effort) if is_ok else ()
        return Record(
            cell=self.planned.cell,
            cell_hash=self.planned.cell.hash,
            data=self.planned.data,
            status=status,
            cause=cause,
            rounds=tuple(result.summary for result in rounds),
            stopped_by=stop,
            metrics=suite.figures(rounds) if is_ok else {},
            verification=all_verified(rounds) if rounds else None,
            conditions=self._conditions() if rounds else {},
            warnings=(*warnings, *use_warnings(rounds), *self.warnings.values()),
            versions=self.versions,
            started_at=self.started_at,
            ended_at=ended_at,
        )

    def _conditions(self) -> dict[str, Setting]:
        seen = {} if self.accelerator is None else {"accelerator": self.accelerator}
        return {**self.rounds[-1].conditions, **seen}


class OpenCells:
    """The cells of a run that have no record yet, and the records of the others."""

    def __init__(
        self,
        planned: Sequence[PlannedCell],
        suite: Suite,
        effort: Effort,
        run: RunDirectory,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Get ready; `take_up` fills it.

        Args:
            planned: the cells that are run here, in order.
            suite: the suite that planned them.
            effort: bounds of their rounds.
            run: gets the records; finished cells found there are not run again.
            now: the wall clock, UTC.
        """
        self._planned = planned
        self._suite = suite
        self._effort = effort
        self._run = run
        self._now = now
        self.by_id: dict[str, UnfinishedCell] = {}
        self.records: dict[str, Record] = {}

    def __contains__(self, cell: Cell) -> bool:
        return cell.id in self.by_id

    def __getitem__(self, cell: Cell) -> UnfinishedCell:
        return self.by_id[cell.id]

    def take_up(self, is_to_run_again: Callable[[Record], bool]) -> None:
        """Read the results of an earlier, interrupted run.

        Args:
            is_to_run_again: whether a cell with an earlier record is measured again. A cell that
                could not be set up always is.
        """
        for planned in self._planned:
            cell = planned.cell
            record = self._run.record(cell)
            if record is not None and not (record.was_not_set_up or is_to_run_again(record)):
                self.records[cell.id] = record
                continue
            unfinished = UnfinishedCell(planned, self._now())
            if planned.refusal is None:
                for result, versions in self._run.rounds(cell):
                    unfinished.add(result, versions)
            self.by_id[cell.id] = unfinished

    def end(self, cell: Cell, status: Status, cause: Cause | None, stop: Stop | None) -> Record:
        """Write a cell's record and return it; the cell is not open any more."""
        unfinished = self.by_id[cell.id]
        record = unfinished.record(self._suite, self._effort, status, cause, stop, self._now())
        self.records[cell.id] = self._run.write_record(record, unfinished.rounds)
        del self.by_id[cell.id]
        return self.records[cell.id]

    def ended(self) -> list[Record]:
        """Return the records of all cells, in order; each has one when measuring has ended."""
        return [self.records[planned.cell.id] for planned in self._planned]

    def groups(self, ids: Collection[str] | None = None) -> dict[str, list[Cell]]:
        """Return the open cells by group, in order; of some ids alone, or of all."""
        groups: dict[str, list[Cell]] = {}
        for id, unfinished in self.by_id.items():
            if ids is None or id in ids:
                groups.setdefault(unfinished.planned.group, []).append(unfinished.planned.cell)
        return groups


def all_verified(rounds: Sequence[RoundResult]) -> Verification:
    """Return what was checked over all rounds, with the verdict of the last.

    A round that fails ends its cell, so only the last can have failed.
    """
    each = [result.verification for result in rounds]
    differences = [one.max_difference for one in each if one.max_difference is not None]
    counted = dict.fromkeys(name for one in each for name in one.counts)
    return each[-1].model_copy(
        update={
            "verified_elements": sum(one.verified_elements for one in each),
            "compared_elements": sum(one.compared_elements for one in each),
            "counts": {name: sum(one.counts.get(name, 0) for one in each) for name in counted},
            "max_difference": max(differences, default=None),
        }
    )
