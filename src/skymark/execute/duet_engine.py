"""The engine of a comparison in pairs: a round of each side in turn, cell by cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain

from skymark.execute.measurer import Measurer
from skymark.execute.observer import Observer
from skymark.execute.process import MeasuredRound, WorkerError, WorkerProcess
from skymark.model.effort import Effort
from skymark.model.errors import UsageError
from skymark.model.metric import Metric
from skymark.model.record import Cell, Record, Round, RoundResult, Status, Stop
from skymark.statistics.difference import enough_pairs


class DuetSide(Measurer):
    """The candidate's side. Cells that go well end when the other side's do."""

    forks = False
    """Workers of an earlier revision may not, and both sides are to be alike."""

    def found(self, cell: Cell) -> Record | None:
        """Return the record that a cell has on disk."""
        return self._run.record(cell)

    def is_open(self, cell: Cell) -> bool:
        """Whether a cell has no record yet."""
        return cell.id in self._unfinished

    def is_ok(self, cell: Cell) -> bool:
        """Whether a cell has a record that ended well."""
        record = self.records.get(cell.id)
        return record is not None and record.status is Status.OK

    def rounds(self, cell: Cell) -> Sequence[Round]:
        """Return the rounds of a cell so far."""
        open_cell = self._unfinished.get(cell.id)
        return self.records[cell.id].rounds if open_cell is None else open_cell.rounds

    def has_enough(self, cell: Cell) -> bool:
        """Whether an open cell has its rounds by the suite's own rule, without another side."""
        rounds = self._unfinished[cell.id].rounds
        return bool(rounds) and self._suite.is_enough(cell, rounds, self._effort)

    def next_number(self, cell: Cell) -> int:
        """Return the number after those of all rounds that a cell has, an old record's included."""
        open_cell, record = self._unfinished.get(cell.id), self.found(cell)
        recorded = () if record is None else (one.round + 1 for one in record.rounds)
        return max(chain(recorded, [0 if open_cell is None else open_cell.next_round]))

    def measure_round(self, cell: Cell, number: int) -> None:
        """Measure a round of a cell in a process of its own; a bad one ends the cell."""
        unfinished = self._unfinished[cell.id]
        unfinished.next_round = number
        self._with_worker(unfinished.planned.group, [cell], self._measure)

    def end(self, cell: Cell, stop: Stop) -> None:
        """Write the record of a cell that went well."""
        self._end(self._unfinished[cell.id], Status.OK, None, stop)

    def _is_enough(self, cell: Cell, rounds: Sequence[RoundResult]) -> bool:
        del cell, rounds
        return False


class BaselineSide(DuetSide):
    """The baseline's side, whose workers run the code of another revision."""

    def _prepare(self) -> None:
        self._require_answer()
        super()._prepare()

    def _judged(self, worker: WorkerProcess, cell: Cell, measured: MeasuredRound) -> RoundResult:
        """Return a round with its verdict: that of the worker, where its revision has no judge."""
        if measured.told.evidence is None:
            return measured.told.result
        return super()._judged(worker, cell, measured)

    def _unprepared(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return all cells: only that revision's own code tells what it lacks."""
        return cells

    def _require_answer(self) -> None:
        """Have a worker of the revision start, of any adapter, and end it.

        Raises:
            UsageError: none answers as a worker of this skymark does.
        """
        faults = []
        for group, cells in self._groups().items():
            fault = self._fault_at_start(group, cells)
            if fault is None:
                return
            faults.append(f"{fault} ({self._run.log_path(cells[0])})")
        if faults:
            raise UsageError(
                "the baseline does not speak this skymark's protocol between engine and worker: "
                f"{faults[0]}. It is too old, or cannot be imported; choose a later revision"
            )

    def _fault_at_start(self, group: str, cells: Sequence[Cell]) -> str | None:
        """Return why a worker does not answer; None for one that does, if of a fault of its own."""
        try:
            worker = self._worker(group, cells)
        except WorkerError as error:
            return error.cause.message
        try:
            worker.await_ready(self._effort.cell_timeout_s)
        except WorkerError as error:
            return None if error.alive else error.cause.message
        finally:
            worker.end()
        return None


class DuetEngine:
    """Measures the cells of a plan on two sides.

    A pair is a round of each side, one right after the other, each in a process of its own. Which
    side is first changes from pair to pair and from cell to cell, so a machine that gets steadily
    slower harms both alike. A cell that ended badly on one side is measured by itself on the other.
    """

    def __init__(
        self,
        baseline: BaselineSide,
        candidate: DuetSide,
        cells: Sequence[Cell],
        metric: Metric,
        effort: Effort,
        observer: Observer,
    ) -> None:
        """Get ready; nothing runs yet.

        Args:
            baseline: the side that is compared with.
            candidate: the side in question.
            cells: those of the plan.
            metric: the primary one, by whose ratio there are enough pairs.
            effort: bounds of the pairs of a cell.
            observer: told how it goes.
        """
        self._sides: tuple[DuetSide, DuetSide] = (baseline, candidate)
        self._cells = cells
        self._metric = metric
        self._effort = effort
        self._observer = observer
        self._next_numbers: dict[str, int] = {}

    def run(self, retry: Collection[Status] = ()) -> tuple[list[Record], list[Record]]:
        """Measure every cell that lacks a record; return all records of baseline and candidate.

        Args:
            retry: statuses of earlier records whose cells are to be run again, on both sides.
        """
        baseline, candidate = self._sides
        again = self._ids_again(retry)
        try:
            # The candidate makes the data: both sides read the same.
            for side in (candidate, baseline):
                side.begin(lambda record: record.cell.id in again)
            for cell in self._cells:
                self._next_numbers[cell.id] = max(side.next_number(cell) for side in self._sides)
                self._end_if_enough(cell)
            waiting = self._waiting()
            self._observer.planned(sum(self._left(side, cell) for side, cell in waiting))
            by_id, turn = {cell.id: cell for cell in self._cells}, 0
            while cells := list(dict.fromkeys(cell.id for _, cell in self._waiting())):
                first = turn % len(cells)
                for id in cells[first:] + cells[:first]:
                    self._measure_pair(by_id[id])
                turn += 1
        finally:
            for side in self._sides:
                side.close()
        return baseline.ended(), candidate.ended()

    def _ids_again(self, retry: Collection[Status]) -> set[str]:
        """Return the cells of which a side has a record that is not to stand."""
        return {
            cell.id
            for cell in self._cells
            for side in self._sides
            if (record := side.found(cell)) is not None
            and (record.was_not_set_up or record.status in retry)
        }

    def _waiting(self) -> list[tuple[DuetSide, Cell]]:
        """Return the cells that lack their record, with the side."""
        return [(side, cell) for cell in self._cells for side in self._sides if side.is_open(cell)]

    def _left(self, side: DuetSide, cell: Cell) -> int:
        return max(0, self._effort.min_rounds - len(side.rounds(cell)))

    def _measure_pair(self, cell: Cell) -> None:
        """Measure a round of a cell on each side that waits for it."""
        number = self._next_numbers[cell.id]
        self._next_numbers[cell.id] = number + 1
        for side in self._order(cell, number):
            if side.is_open(cell):
                side.measure_round(cell, number)
        self._end_if_enough(cell)

    def _order(self, cell: Cell, number: int) -> tuple[DuetSide, ...]:
        """Return the sides in the order of a pair: baseline first in every other one."""
        is_turned = (self._cells.index(cell) + number) % 2 == 1
        return self._sides[::-1] if is_turned else self._sides

    def _end_if_enough(self, cell: Cell) -> None:
        """End a cell that has its pairs, or whose other side has its record."""
        waiting = [side for side in self._sides if side.is_open(cell)]
        if len(waiting) == len(self._sides):
            stop = self._enough(cell)
        elif waiting:
            stop = self._enough(cell) if self._is_ok_elsewhere(cell) else None
            if stop is None and waiting[0].has_enough(cell):
                stop = Stop.ROUNDS
        else:
            return
        if stop is not None:
            for side in waiting:
                side.end(cell, stop)

    def _is_ok_elsewhere(self, cell: Cell) -> bool:
        return any(side.is_ok(cell) for side in self._sides)

    def _enough(self, cell: Cell) -> Stop | None:
        baseline, candidate = (side.rounds(cell) for side in self._sides)
        return enough_pairs(candidate, baseline, self._metric, self._effort)
