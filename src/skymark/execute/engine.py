"""The engine: carry out a plan round by round, and write down what became of each cell."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType

from skymark.execute.measurer import Measurer
from skymark.execute.process import WorkerProcess
from skymark.execute.timed_sweeps import TimedSweeps
from skymark.model.cell import Cell
from skymark.model.record import Record, RoundResult, Status


class Engine(Measurer):
    """Runs one plan into one run directory."""

    _timed: TimedSweeps | None = None
    """Divides the run's time, where the plan has one."""
    _next: Mapping[str, tuple[str, Sequence[Cell]]] = MappingProxyType({})
    """Group and cells of the process that follows, by the id of the last cell of the one before."""

    def run(
        self,
        retry: Collection[Status] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> list[Record]:
        """Run every cell that is to be run here and has no record yet; return all their records.

        Args:
            retry: statuses of earlier records whose cells are to be run again.
            clock: of the run's time, where the plan has one; seconds, monotonic.
        """
        if self._plan.allotment is not None:
            metric = self._suite.declaration.primary_metric
            self._timed = TimedSweeps(self._plan.allotment, self._effort, metric, clock)
        try:
            self.begin(lambda record: record.status in retry)
            self._measure_rounds()
        finally:
            self.close()
        return self.ended()

    def _measure_rounds(self) -> None:
        least = self._effort.min_rounds
        left = [least - len(one.rounds) for one in self._unfinished.values()]
        self._observer.planned(sum(max(0, rounds) for rounds in left))
        for unfinished in list(self._unfinished.values()):
            self._end_if_enough(unfinished)
        if self._timed is not None:
            self._timed.begin(self._unfinished.values(), self.records.values())
        turn = 0
        while sweep := self._next_sweep():
            processes = self._processes(sweep)
            names = list(processes)
            first = turn % len(names)
            order = names[first:] + names[:first]
            self._next = {
                processes[name][-1].id: (after, processes[after]) for name, after in pairwise(order)
            }
            for name in order:
                self._measure_in_process(name, processes[name])
            turn += 1

    def _next_sweep(self) -> Collection[str]:
        """Return the cells that get another round each; none at the end."""
        if self._timed is None:
            return self._unfinished.keys()
        sweep = self._timed.next(self._unfinished, self.records)
        if not sweep.names:
            for unfinished in list(self._unfinished.values()):
                self._end(unfinished, Status.OK, None, sweep.stops[unfinished.planned.cell.id])
        return sweep.names

    def _measure_in_process(self, name: str, cells: Iterable[Cell]) -> None:
        if self._timed is None:
            self._with_worker(name, cells, self._measure)
        elif in_time := self._timed.in_time(cells, self._unfinished):
            with self._timed.pace.process(name):
                self._with_worker(name, in_time, self._measure_timed)

    def _was_measured(self, cell: Cell) -> None:
        if cell.id in self._next:
            self._start_ahead(*self._next[cell.id])

    def _measure_timed(self, worker: WorkerProcess, cell: Cell) -> None:
        assert self._timed is not None
        with self._timed.pace.round(cell.id):
            self._measure(worker, cell)

    def _is_enough(self, cell: Cell, rounds: Sequence[RoundResult]) -> bool:
        return self._timed is None and self._suite.is_enough(cell, rounds, self._effort)
