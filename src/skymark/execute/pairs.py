"""Pairs of rounds of two revisions, cell by cell, each in a run directory of its own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from skymark.execute.measurer import Measurer
from skymark.execute.preparation import prepare
from skymark.execute.revision import Revision, code_of
from skymark.execute.session import FinishedRun, Session, require_same_plan_here, run_id_of
from skymark.execute.slices import LiveRound, RoundsInTurn
from skymark.execute.worker_pool import WorkerPool
from skymark.model.errors import UsageError
from skymark.model.machine import GitState
from skymark.model.manifest import Manifest, Pair
from skymark.model.plan import Plan
from skymark.model.record import Cell, Record, Round, Status, Stop
from skymark.statistics.difference import enough_pairs
from skymark.store.kinds import Store
from skymark.suite.registry import suite_named


@dataclass(frozen=True)
class Pairs:
    """The strategy that measures a plan with this code and with a revision's code.

    The run of this code is the candidate, and the revision's run beside it is the baseline
    (`baseline_path`).
    """

    revision: Revision
    """Revision of the baseline's code and pins."""
    retry: Collection[Status] = ()
    """Statuses of earlier records whose cells are run again."""

    def carry_out(self, session: Session) -> FinishedRun:
        """Measure both revisions in turn; see `skymark.execute.session.run`.

        Raises:
            UsageError: the plan has no pairs, or the revision's worker does not answer; nothing
                was measured.
        """
        require_pairs(session.plan)
        announce = session.observer.stage
        baseline = self._directory(session, "baseline")
        candidate = self._directory(session, "candidate")
        resume = session.results.resume
        for path, _, manifest in (baseline, candidate):
            require_same_plan_here(path, manifest, resume=resume)
        code = code_of(self.revision, session.cache, announce)
        with ExitStack() as stack:
            runs = [
                stack.enter_context(session.opened(path, stores, manifest))
                for path, stores, manifest in (baseline, candidate)
            ]
            measurers = [
                session.measurer(
                    run.directory,
                    code=code_run,
                    uploads=[each.storing for each in runs],
                    sets_aside=False,
                    # Neither side forks, because workers of an earlier revision may not.
                    workers=WorkerPool(announce, keeps=False, forks=False),
                )
                for run, code_run in zip(runs, (code, None), strict=True)
            ]
            with session.measuring(runs):
                records = PairedRuns(*measurers).run(self.retry)
            before, after = (run.finish(found) for run, found in zip(runs, records, strict=True))
        return replace(after, baseline=before)

    def _directory(
        self, session: Session, side: Literal["baseline", "candidate"]
    ) -> tuple[Path, Mapping[str, Store], Manifest]:
        """Return the directory, stores and manifest of one run.

        The manifest names the run of the other side; the baseline's also has its commit.
        """
        path, partner = baseline_path(session.path), session.path
        if side == "candidate":
            path, partner = partner, path
        stores = session.open_stores(path)
        pair = Pair(side=side, partner=run_id_of(partner), commit=self.revision.commit)
        manifest = session.manifest(path, stores)
        machine = manifest.machine
        if side == "baseline":
            git = GitState(commit=pair.commit, dirty=False)
            machine = machine.model_copy(update={"git": git})
        return path, stores, manifest.model_copy(update={"duet": pair, "machine": machine})


def baseline_path(path: Path) -> Path:
    """Return the directory of the baseline's run, beside the candidate's."""
    return path.with_name(f"{path.resolve().name}-baseline")


def require_pairs(plan: Plan) -> None:
    """Refuse a plan whose cells cannot be measured in pairs.

    Raises:
        UsageError: its primary metric does not vary, or its rounds share a time.
    """
    metric = suite_named(plan.suite).declaration.primary_metric
    if metric.scale == "exact":
        raise UsageError(
            f"--against repeats rounds in pairs, and {metric.heading} of the suite {plan.suite} "
            "does not vary from round to round; run each revision once, and skymark compare A B"
        )
    if plan.allotment is not None:
        raise UsageError(
            "--against needs pairs of rounds of each cell, and --time gives rounds only to the "
            "cells with an undecided order; leave out --time, or give --rounds in place of the "
            "profile's time"
        )


class PairedRuns:
    """The runs of two revisions, measured in pairs, one round of each.

    Each round has a process of its own. The timed regions of a pair run in turn, slice by slice
    (`skymark.execute.slices`), or else in succession. The first revision alternates between pairs
    and between cells, so a machine that slows down steadily affects both alike. A cell that ended
    badly in one run is measured alone in the second.
    """

    def __init__(self, baseline: Measurer, candidate: Measurer) -> None:
        """Get ready; nothing runs yet."""
        self._both = baseline, candidate
        self._cells = [planned.cell for planned in candidate.plan.cells]
        self._metric = candidate.suite.declaration.primary_metric
        self._effort = candidate.effort
        self._next_numbers: dict[str, int] = {}

    def run(self, retry: Collection[Status] = ()) -> tuple[list[Record], list[Record]]:
        """Measure every cell that lacks a record; return all records of baseline and candidate.

        Args:
            retry: statuses of earlier records whose cells are run again, in both runs.
        """
        baseline, candidate = self._both
        again = self._ids_again(retry)
        try:
            # The candidate makes the data, and both read it.
            for measurer in (candidate, baseline):
                prepare(measurer, lambda record: record.cell.id in again)
            for cell in self._cells:
                numbers = (_next_number(measurer, cell) for measurer in self._both)
                self._next_numbers[cell.id] = max(numbers)
                self._end_if_enough(cell)
            left = (
                self._effort.min_rounds - len(_rounds(measurer, cell))
                for cell in self._cells
                for measurer in self._both
                if cell in measurer.open
            )
            candidate.observer.planned(sum(max(0, rounds) for rounds in left))
            turn = 0
            while cells := [cell for cell in self._cells if self._waiting(cell)]:
                first = turn % len(cells)
                for cell in cells[first:] + cells[:first]:
                    self._measure_pair(cell)
                turn += 1
        finally:
            for measurer in self._both:
                measurer.close()
        return baseline.open.ended(), candidate.open.ended()

    def _ids_again(self, retry: Collection[Status]) -> set[str]:
        """Return the ids of cells that have a record in a run and are measured again."""
        return {
            cell.id
            for cell in self._cells
            for measurer in self._both
            if (record := measurer.run.record(cell)) is not None
            and (record.was_not_set_up or record.status in retry)
        }

    def _waiting(self, cell: Cell) -> list[Measurer]:
        """Return the measurers that lack a cell's record."""
        return [measurer for measurer in self._both if cell in measurer.open]

    def _measure_pair(self, cell: Cell) -> None:
        """Measure a round of a cell in each run that waits for it."""
        number = self._next_numbers[cell.id]
        self._next_numbers[cell.id] = number + 1
        is_turned = (self._cells.index(cell) + number) % 2 == 1
        waiting = self._waiting(cell)[:: -1 if is_turned else 1]
        for measurer in waiting:
            measurer.open[cell].next_round = number
        if len(waiting) == 1:
            _measure(waiting[0], cell)
        else:
            self._measure_in_turn(cell, *waiting)
        self._end_if_enough(cell)

    def _measure_in_turn(self, cell: Cell, first: Measurer, second: Measurer) -> None:
        """Measure a pair of rounds, in slices if possible; a warning says why not."""
        rounds = RoundsInTurn(lambda when_ready: _measure(second, cell, when_ready))
        _measure(first, cell, rounds.first_is_ready)
        rounds.finish()
        for measurer in self._waiting(cell) if rounds.reason else ():
            measurer.open[cell].warn(
                kind="not-in-slices",
                message=f"the rounds of a pair ran one after the other: {rounds.reason}",
                action="expect a wider interval of the ratio on a busy machine",
            )

    def _end_if_enough(self, cell: Cell) -> None:
        """End a cell that has enough pairs, or that has a record in one run."""
        waiting = self._waiting(cell)
        records = [one.open.records.get(cell.id) for one in self._both]
        stop: Stop | None = None
        if len(waiting) == len(self._both) or any(
            record is not None and record.status is Status.OK for record in records
        ):
            before, after = (_rounds(measurer, cell) for measurer in self._both)
            stop = enough_pairs(after, before, self._metric, self._effort)
        if stop is None and len(waiting) == 1:
            rounds = waiting[0].open[cell].rounds
            if rounds and waiting[0].suite.is_enough(cell, rounds, self._effort):
                stop = Stop.ROUNDS
        if stop is not None:
            for measurer in waiting:
                measurer.end(cell, Status.OK, None, stop)


def _measure(
    measurer: Measurer, cell: Cell, when_ready: Callable[[LiveRound], None] | None = None
) -> None:
    """Measure a round of an open cell in a process of its own."""
    group = measurer.open[cell].planned.group
    measurer.serve(group, [cell], partial(measurer.measure, when_ready=when_ready))


def _rounds(measurer: Measurer, cell: Cell) -> Sequence[Round]:
    """Return a cell's measured rounds."""
    cells = measurer.open
    return cells[cell].rounds if cell in cells else cells.records[cell.id].rounds


def _next_number(measurer: Measurer, cell: Cell) -> int:
    """Return the number of a cell's next round, after all rounds of an old record, too."""
    record = measurer.run.record(cell)
    recorded = () if record is None else (round.round + 1 for round in record.rounds)
    begun = measurer.open[cell].next_round if cell in measurer.open else 0
    return max(chain(recorded, [begun]))
