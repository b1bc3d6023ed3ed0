"""Sweeps of rounds within the time of a run."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from statistics import fmean

from skymark.execute.pace import Pace
from skymark.execute.unfinished import UnfinishedCell
from skymark.model.allotment import Allotment
from skymark.model.cell import Cell
from skymark.model.effort import Effort
from skymark.model.metric import Metric
from skymark.model.record import Record, Round, Status
from skymark.statistics.allocation import Allocation, Standing, Sweep


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
