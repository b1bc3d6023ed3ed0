"""Sweeps of rounds: one round of each cell in turn, or of the undecided cells in a run's time."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from skymark.execute.ceilings import measure_limits
from skymark.execute.measurer import Measurer
from skymark.execute.open_cells import UnfinishedCell
from skymark.execute.partition.shard import Shard
from skymark.execute.preparation import prepare
from skymark.execute.process import WorkerProcess
from skymark.execute.session import FinishedRun, Session
from skymark.model.effort import Allotment
from skymark.model.record import Cell, Record, Round, Status, undisturbed
from skymark.statistics.allocation import Allocation, Standing, Sweep


@dataclass(frozen=True)
class Sweeps:
    """The strategy of a run by itself: all cells of the plan, or of a shard, in sweeps."""

    shard: Shard | None = None
    """The part of the plan that is run here; the records of others are left to them."""
    retry: Collection[Status] = ()
    """Statuses of earlier records whose cells are run again."""

    def carry_out(self, session: Session) -> FinishedRun:
        """Measure the cells into the run's directory; see `skymark.execute.session.run`."""
        plan, path = session.plan, session.path
        part = None if self.shard is None else self.shard.take(plan.cells)
        stores = session.open_stores(path)
        with session.opened(path, stores, session.manifest(path, stores)) as opened:
            measurer = session.measurer(opened.directory, cells=part, uploads=[opened.storing])
            with session.measuring([opened]):
                records = run_sweeps(measurer, self.retry)
            finished = opened.finish(records)
            if part is not None and opened.bring_other_parts(stores.values()):
                finished = opened.finish(records)
        return finished


def run_sweeps(
    measurer: Measurer,
    retry: Collection[Status] = (),
    clock: Callable[[], float] = time.monotonic,
) -> list[Record]:
    """Measure every cell of a measurer without a record; return all records.

    Args:
        measurer: of the run.
        retry: statuses of earlier records whose cells are run again.
        clock: of the run's time, where the plan has one; seconds, monotonic.
    """
    plan, suite = measurer.plan, measurer.suite
    timed = None
    borrowed: dict[str, dict[str, float]] = {}
    if plan.allotment is None:
        measurer.is_enough = lambda cell, rounds: suite.is_enough(
            cell, rounds, measurer.effort, borrowed.get(cell.id, {})
        )
    else:
        timed = TimedSweeps(measurer, plan.allotment, clock)
    try:
        prepare(measurer, lambda record: record.status in retry)
        least = measurer.effort.min_rounds
        left = [least - len(unfinished.rounds) for unfinished in measurer.open.by_id.values()]
        measurer.observer.planned(sum(max(0, rounds) for rounds in left))
        measurer.open.limits = measure_limits(measurer)
        borrowed = measurer.open.borrowed()
        for unfinished in list(measurer.open.by_id.values()):
            measurer.end_if_enough(unfinished.planned.cell)
        if timed is not None:
            timed.begin()
        turn = 0
        while sweep := measurer.open.by_id.keys() if timed is None else timed.next():
            _measure_sweep(measurer, sweep, turn, timed)
            borrowed = measurer.open.borrowed()
            turn += 1
        chosen = plan.cells if measurer.cells is None else measurer.cells
        suite.keep([one.cell for one in chosen], measurer.cache, measurer.observer.stage)
    finally:
        measurer.close()
    return measurer.open.ended()


def _measure_sweep(
    measurer: Measurer, ids: Collection[str], turn: int, timed: TimedSweeps | None
) -> None:
    """Measure a round of each of some cells; each turn begins one process later."""
    processes = measurer.processes(ids)
    names = list(processes)
    first = turn % len(names)
    order = names[first:] + names[:first]
    followers = {
        processes[name][-1].id: (after, processes[after]) for name, after in pairwise(order)
    }

    def start_next(cell: Cell) -> None:
        if cell.id in followers:
            measurer.start_ahead(*followers[cell.id])

    measurer.after_round = start_next
    for name in order:
        if timed is None:
            measurer.serve(name, processes[name], measurer.measure)
        else:
            timed.serve(name, processes[name])


class TimedSweeps:
    """Choice of the cells that get the next rounds, as long as a run has time."""

    def __init__(
        self, measurer: Measurer, allotment: Allotment, clock: Callable[[], float]
    ) -> None:
        """Get ready; the time begins with `begin`.

        Args:
            measurer: of the run.
            allotment: the time, and what it is spent on.
            clock: seconds, monotonic.
        """
        self._measurer = measurer
        self._metric = measurer.suite.declaration.primary_metric
        self._allocation = Allocation(self._metric, measurer.effort, allotment.goal)
        self._left_s = allotment.time_s
        self._clock = clock
        self._began = clock()
        self._rounds_s: dict[str, list[float]] = defaultdict(list)
        """Wall times of the rounds of each cell."""
        self._starts_s: dict[str, list[float]] = defaultdict(list)
        """Times of the processes of each group, without the rounds in them."""
        self._inside_s = 0.0

    @property
    def left_s(self) -> float:
        """Seconds that are left."""
        return self._left_s - (self._clock() - self._began)

    def begin(self) -> None:
        """Start the time, reduced by the rounds of an interrupted run."""
        cells = self._measurer.open
        begun = [unfinished.rounds for unfinished in cells.by_id.values()]
        ended = [record.rounds for record in cells.records.values()]
        self._left_s -= sum(round.own_s for rounds in (*begun, *ended) for round in rounds)
        self._began = self._clock()

    def next(self) -> Collection[str]:
        """Return the ids of the next sweep's cells; with none of them, all cells are ended."""
        cells = self._measurer.open
        standings = [
            *(self._open(unfinished) for unfinished in cells.by_id.values()),
            *(
                self._standing(record.cell, record.rounds, open=False)
                for record in cells.records.values()
                if record.status is Status.OK
            ),
        ]
        starts_s = {group: fmean(taken) for group, taken in self._starts_s.items()}
        sweep: Sweep = self._allocation.next_sweep(standings, self.left_s, starts_s)
        if not sweep.names:
            for unfinished in list(cells.by_id.values()):
                cell = unfinished.planned.cell
                self._measurer.end(cell, Status.OK, None, sweep.stops[cell.id])
        return sweep.names

    def serve(self, group: str, cells: Sequence[Cell]) -> None:
        """Measure a round of each cell that still gets one: only the first if no time is left."""
        is_over, measurer = self.left_s <= 0, self._measurer
        in_time = [
            cell
            for cell in cells
            if cell in measurer.open and not (is_over and measurer.open[cell].rounds)
        ]
        if not in_time:
            return
        self._inside_s = 0.0
        with self._taken(self._starts_s[group], less=lambda: self._inside_s):
            measurer.serve(group, in_time, self._measure)

    def _measure(self, worker: WorkerProcess, cell: Cell) -> None:
        taken = self._rounds_s[cell.id]
        try:
            with self._taken(taken):
                self._measurer.measure(worker, cell)
        finally:
            self._inside_s += taken[-1]

    @contextmanager
    def _taken(self, times: list[float], less: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
        """Append the time of a block, less a part that is known at its end."""
        began = self._clock()
        try:
            yield
        finally:
            times.append(self._clock() - began - less())

    def _open(self, unfinished: UnfinishedCell) -> Standing:
        cell, rounds = unfinished.planned.cell, unfinished.rounds
        # Rounds of an interrupted run, if any, tell of a cell that had none since.
        times = self._rounds_s.get(cell.id) or [round.own_s for round in rounds] or [0.0]
        return self._standing(cell, rounds, process=unfinished.planned.group, round_s=fmean(times))

    def _standing(self, cell: Cell, rounds: Sequence[Round], **more: object) -> Standing:
        name, counted = self._metric.name, undisturbed(rounds)
        values = tuple(round.metrics[name] for round in counted if name in round.metrics)
        begun = bool(rounds)
        return Standing(cell.id, cell.label, values, len(counted), begun=begun, **more)  # type: ignore[arg-type]
