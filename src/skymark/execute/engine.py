"""The engine: carry out a plan round by round, or in sweeps within the time of a run."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from statistics import fmean
from types import MappingProxyType

from skymark.execute.measurer import Measurer
from skymark.execute.process import WorkerProcess
from skymark.execute.unfinished import UnfinishedCell
from skymark.model.effort import Allotment, Effort
from skymark.model.metric import Metric
from skymark.model.record import Cell, Record, Round, RoundResult, Status
from skymark.statistics.allocation import Allocation, Standing, Sweep


class Pace:
    """Times the rounds of cells, and what processes take besides."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Begin with nothing known.

        Args:
            clock: seconds, monotonic.
        """
        self._clock = clock
        self._rounds_s: dict[str, list[float]] = defaultdict(list)
        self._starts_s: dict[str, list[float]] = defaultdict(list)
        self._inside_s = 0.0

    @contextmanager
    def round(self, cell: str) -> Iterator[None]:
        """Time a round of a cell, by its id."""
        began = self._clock()
        try:
            yield
        finally:
            took_s = self._clock() - began
            self._rounds_s[cell].append(took_s)
            self._inside_s += took_s

    @contextmanager
    def process(self, group: str) -> Iterator[None]:
        """Time a process by its group: its start and its end, without the rounds in it."""
        began, self._inside_s = self._clock(), 0.0
        try:
            yield
        finally:
            self._starts_s[group].append(self._clock() - began - self._inside_s)

    def round_s(self, cell: str) -> float | None:
        """Return the time of a cell's round, on average; None if it had none."""
        seen = self._rounds_s.get(cell)
        return fmean(seen) if seen else None

    def starts_s(self) -> dict[str, float]:
        """Return the time that processes took besides their rounds, on average, by group."""
        return {group: fmean(seen) for group, seen in self._starts_s.items()}


class TimedSweeps:
    """Which cells get the next rounds, as long as there is time."""

    def __init__(
        self,
        allotment: Allotment,
        bounds: Effort,
        metric: Metric,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Get ready; the time begins with `begin`.

        Args:
            allotment: the time, and what it is spent on.
            bounds: of the rounds of a cell, within it.
            metric: the primary one.
            clock: seconds, monotonic.
        """
        self._allocation = Allocation(metric, bounds, allotment.goal)
        self._metric = metric
        self._left_s = allotment.time_s
        self._clock = clock
        self._began = clock()
        self.pace = Pace(clock)

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._left_s - (self._clock() - self._began)

    def begin(self, unfinished: Iterable[UnfinishedCell], records: Iterable[Record]) -> None:
        """Let the time begin, less what the rounds of an interrupted run took of it."""
        each = (*(one.rounds for one in unfinished), *(record.rounds for record in records))
        self._left_s -= sum(one.own_s for rounds in each for one in rounds)
        self._began = self._clock()

    def next(
        self, unfinished: Mapping[str, UnfinishedCell], records: Mapping[str, Record]
    ) -> Sweep:
        """Return the cells of the next sweep; with none of them, measuring ends.

        Args:
            unfinished: cells that may be measured, by id.
            records: of those that have ended, by id.
        """
        ended = (one for one in records.values() if one.status is Status.OK)
        standings = [
            *(self._open(one) for one in unfinished.values()),
            *(
                Standing(
                    *(one.cell.id, one.cell.label, self._values(one.rounds), len(one.rounds)),
                    open=False,
                )
                for one in ended
            ),
        ]
        return self._allocation.next_sweep(standings, self.left_s, self.pace.starts_s())

    def in_time(
        self, cells: Iterable[Cell], unfinished: Mapping[str, UnfinishedCell]
    ) -> Collection[Cell]:
        """Return the cells of a sweep that still get their round: without time the first only."""
        is_over = self.left_s <= 0
        return [
            cell
            for cell in cells
            if cell.id in unfinished and (not is_over or not unfinished[cell.id].rounds)
        ]

    def _open(self, one: UnfinishedCell) -> Standing:
        cell = one.planned.cell
        took_s = self.pace.round_s(cell.id)
        if took_s is None:  # measured by an interrupted run, if at all
            took_s = fmean(each.own_s for each in one.rounds) if one.rounds else 0.0
        return Standing(
            *(cell.id, cell.label, self._values(one.rounds), len(one.rounds)),
            process=one.planned.group,
            round_s=took_s,
        )

    def _values(self, rounds: Iterable[Round]) -> tuple[float, ...]:
        name = self._metric.name
        return tuple(one.metrics[name] for one in rounds if name in one.metrics)


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
