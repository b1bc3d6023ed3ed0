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
    MachineLimits,
    Record,
    RoundResult,
    Setting,
    StabilityWarning,
    Status,
    Stop,
    Verification,
    undisturbed,
)
from skymark.rundir.directory import RunDirectory
from skymark.statistics.borrowing import borrowed_variances, lenders
from skymark.statistics.stability import disturbance
from skymark.suite.contract import Suite

DOUBTFUL_ROUND = "doubtful-round"


@dataclass
class UnfinishedCell:
    """A cell without a record yet, with its measured rounds."""

    planned: PlannedCell
    started_at: datetime
    rounds: list[RoundResult] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, StabilityWarning] = field(default_factory=dict)
    """Warnings about the rounds, by kind."""
    accelerator: str | None = None
    """The accelerator that its library sees; None on a platform without one."""
    next_round: int = 0
    """Number of the next round; excluded rounds have numbers too."""
    doubtful_rounds: list[int] = field(default_factory=list)
    """Numbers of rounds with a fault that the machine may explain."""

    def warn(self, *, kind: str, message: str, action: str) -> None:
        """Add a warning about the rounds; a later warning of its kind replaces it."""
        self.warnings[kind] = StabilityWarning(kind=kind, message=message, action=action)

    def set_aside(self, result: RoundResult, doubtful: Collection[str]) -> bool:
        """Exclude a round whose fault the machine may explain.

        A cheat has the fault in nearly all rounds, so two rounds, and half of all, are a verdict.

        Args:
            result: result of the round.
            doubtful: kinds of causes that prove nothing in a single round.

        Returns:
            Whether the round was excluded and must be repeated.
        """
        cause = result.verification.cause
        if cause is None or cause.kind not in doubtful:
            return False
        self.doubtful_rounds.append(result.round)
        if len(self.doubtful_rounds) >= max(2, len(self.rounds)):
            return False
        numbers = ", ".join(str(number + 1) for number in self.doubtful_rounds)
        excluded = (
            f"round {numbers} was" if len(self.doubtful_rounds) == 1 else f"rounds {numbers} were"
        )
        self.warn(
            kind=DOUBTFUL_ROUND,
            message=f"{excluded} excluded and repeated: {cause.message}",
            action="if the machine was busy, measure again while nothing else runs",
        )
        return True

    def add(self, result: RoundResult, versions: dict[str, str]) -> None:
        """Count a round, and drop earlier rounds with other library versions."""
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
        """Return the record of the cell, with figures only if it ended `ok`."""
        rounds = self.rounds
        is_ok = bool(rounds) and status is Status.OK
        counted = undisturbed(rounds)
        is_disturbed = is_ok and len(counted) < min(len(rounds), max(1, effort.min_rounds))
        if is_disturbed:
            counted = rounds
        warnings = suite.warnings(counted, effort) if is_ok else ()
        self._warn_of_disturbance(is_disturbed=is_disturbed)
        return Record(
            cell=self.planned.cell,
            cell_hash=self.planned.cell.hash,
            data=self.planned.data,
            status=status,
            cause=cause,
            rounds=tuple(result.summary for result in rounds),
            disturbed=is_disturbed,
            stopped_by=stop,
            metrics=suite.figures(counted) if is_ok else {},
            verification=all_verified(rounds) if rounds else None,
            conditions=self._conditions() if rounds else {},
            warnings=(*warnings, *use_warnings(rounds), *self.warnings.values()),
            versions=self.versions,
            started_at=self.started_at,
            ended_at=ended_at,
        )

    def _warn_of_disturbance(self, *, is_disturbed: bool) -> None:
        """Warn of rounds that others disturbed.

        Args:
            is_disturbed: whether too few other rounds are left.
        """
        found = disturbance(self.rounds)
        if found is None:
            return
        if is_disturbed:
            message = (
                f"{found.message}; too few rounds are undisturbed, so the figures are not ranked"
            )
            self.warn(kind="disturbed", message=message, action=found.remedy)
        else:
            message = f"{found.message}; the figures leave them out"
            self.warn(kind="rounds-set-aside", message=message, action=found.remedy)

    def _conditions(self) -> dict[str, Setting]:
        seen = {} if self.accelerator is None else {"accelerator": self.accelerator}
        return {**self.rounds[-1].conditions, **seen}


class OpenCells:
    """The open cells of a run, which have no record yet, and the records of finished cells."""

    def __init__(
        self,
        planned: Sequence[PlannedCell],
        suite: Suite,
        effort: Effort,
        run: RunDirectory,
    ) -> None:
        """Set up without cells; `take_up` adds them.

        Args:
            planned: the cells to run here, in order.
            suite: the suite that planned them.
            effort: bounds of their rounds.
            run: directory for the records; cells with a record there are finished.
        """
        self._planned = planned
        self._suite = suite
        self._effort = effort
        self._run = run
        self.limits: dict[str, MachineLimits] = {}
        """What the machine itself can do, by the label of cells."""
        self.by_id: dict[str, UnfinishedCell] = {}
        self.records: dict[str, Record] = {}

    def __contains__(self, cell: Cell) -> bool:
        return cell.id in self.by_id

    def __getitem__(self, cell: Cell) -> UnfinishedCell:
        return self.by_id[cell.id]

    def take_up(self, is_to_run_again: Callable[[Record], bool]) -> None:
        """Read the results of an earlier, interrupted run.

        Args:
            is_to_run_again: whether to measure a cell with an earlier record again. A cell whose
                set-up failed always is.
        """
        for planned in self._planned:
            cell = planned.cell
            record = self._run.record(cell)
            if record is not None and not (record.was_not_set_up or is_to_run_again(record)):
                self.records[cell.id] = record
                continue
            unfinished = UnfinishedCell(planned, datetime.now(UTC))
            if planned.refusal is None:
                for result, versions in self._run.rounds(cell):
                    unfinished.add(result, versions)
            self.by_id[cell.id] = unfinished

    def end(self, cell: Cell, status: Status, cause: Cause | None, stop: Stop | None) -> Record:
        """Write a cell's record and return it; the cell is not open any more."""
        unfinished = self.by_id[cell.id]
        ended_at = datetime.now(UTC)
        record = unfinished.record(self._suite, self._effort, status, cause, stop, ended_at)
        if unfinished.rounds:
            record = record.model_copy(update={"limits": self.limits.get(cell.label)})
        self.records[cell.id] = self._run.write_record(record, unfinished.rounds)
        del self.by_id[cell.id]
        return self.records[cell.id]

    def borrowed(self) -> dict[str, dict[str, float]]:
        """Return the variances that cells borrow from each other now: by cell id, then metric."""
        here = (
            record
            for record in self.records.values()
            if record.hardware_key == self._run.hardware_key
        )
        begun = {id: undisturbed(cell.rounds) for id, cell in self.by_id.items()}
        return borrowed_variances({**lenders(here), **begun}, self._suite.declaration.metrics)

    def ended(self) -> list[Record]:
        """Return the records of all cells, in order; each has one when measuring has ended."""
        return [self.records[planned.cell.id] for planned in self._planned]

    def groups(self, ids: Collection[str] | None = None) -> dict[str, list[Cell]]:
        """Return the open cells by group, in order: with these ids, or all."""
        groups: dict[str, list[Cell]] = {}
        for id, unfinished in self.by_id.items():
            if ids is None or id in ids:
                groups.setdefault(unfinished.planned.group, []).append(unfinished.planned.cell)
        return groups


def all_verified(rounds: Sequence[RoundResult]) -> Verification:
    """Return the sums of all rounds' checks, with the verdict of the last round.

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
