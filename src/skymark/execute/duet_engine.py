"""The engine of a comparison in pairs: a round of each side in turn, cell by cell."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from skymark.execute.duet_side import BaselineSide, DuetSide
from skymark.execute.observer import Observer
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Record, Status, Stop
from skymark.statistics.pairing import enough_pairs


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
