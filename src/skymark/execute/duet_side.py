"""One side of a comparison in pairs: measures a round of a cell when it is told to."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from skymark.execute.measurer import Measurer
from skymark.execute.process import MeasuredRound, WorkerError, WorkerProcess
from skymark.model.cell import Cell
from skymark.model.errors import UsageError
from skymark.model.record import Record, Round, RoundResult, Status, Stop


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
