"""The engine: carry out a plan round by round, and write down what became of each cell."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from skymark.execute.partition import Shard
from skymark.execute.process import DIED, WorkerError, WorkerProcess, describe_leaks
from skymark.execute.venvs import Venvs, import_root
from skymark.model.cell import Cell
from skymark.model.errors import VenvBuildError
from skymark.model.plan import Plan
from skymark.model.record import Cause, Record, RoundResult, StabilityWarning, Status, Verification
from skymark.run.directory import RunDirectory
from skymark.suite.contract import Suite
from skymark.suites.loading.figures import enough, figures_of, summary_of, warnings_of

PREPARE_TIMEOUT_S = 1800.0
"""Time to generate, download or convert the data of one cell."""


class Observer(Protocol):
    """Is told how a run goes; the CLI shows it."""

    def stage(self, text: str) -> None:
        """Something that is not a measurement begins, such as making a venv."""

    def planned(self, steps: int) -> None:
        """So many cell-rounds are to be measured."""

    def measuring(self, cell: Cell, round: int) -> None:
        """A cell's round begins."""

    def measured(self, cell: Cell, round: int) -> None:
        """A cell's round ended, well or not."""

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """A cell has its record; `rounds_left` planned rounds of it will not be run."""


class Uploads(Protocol):
    """Results on their way elsewhere, which must not disturb a round."""

    def hold(self) -> Sequence[str]:
        """Keep still for a round; returns the addresses of what did not in time."""

    def release(self) -> None:
        """Go on: the rounds of a worker are over."""


@dataclass
class Progress:
    """An unfinished cell."""

    cell: Cell
    started_at: datetime
    rounds: list[RoundResult] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    warnings: dict[str, StabilityWarning] = field(default_factory=dict)
    """What went wrong around the rounds, by kind."""
    next_round: int = 0
    """Number of the round to measure next; rounds that did not count have numbers too."""

    def warn(self, *, kind: str, message: str, action: str) -> None:
        """Note what made the rounds less trustworthy; the last of a kind stays."""
        self.warnings[kind] = StabilityWarning(kind=kind, message=message, action=action)

    def add(self, result: RoundResult, versions: dict[str, str]) -> None:
        """Count a round. Rounds with other versions are never put together: the older ones go."""
        if versions != self.versions:
            self.rounds.clear()
        self.versions = versions
        self.rounds.append(result)
        self.next_round = result.round + 1


class Engine:
    """Runs one plan into one run directory."""

    def __init__(
        self,
        plan: Plan,
        suite: Suite,
        run: RunDirectory,
        cache: Path,
        observer: Observer,
        venvs: Venvs | None,
        current_python: Path,
        *,
        shard: Shard | None = None,
        uploads: Uploads | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Get ready; nothing runs yet.

        Args:
            plan: what to run.
            suite: the suite that planned it.
            run: where results go; finished cells found there are not run again.
            cache: where datasets lie.
            observer: told how it goes.
            venvs: makes the adapters' venvs; None to run all in `current_python`.
            current_python: the interpreter for ``--env current``.
            shard: the part of the plan to run here; None for all of it.
            uploads: what sends results elsewhere meanwhile; None if nothing does.
            now: the wall clock, UTC.
        """
        self._plan = plan
        ours = plan.cells
        if shard is not None:
            taken = {cell.id for cell in shard.take([planned.cell for planned in plan.cells])}
            ours = tuple(planned for planned in plan.cells if planned.cell.id in taken)
        self._cells = ours
        self._suite = suite
        self._run = run
        self._cache = cache
        self._observer = observer
        self._venvs = venvs
        self._current_python = current_python
        self._uploads = uploads
        self._now = now
        self._pythons: dict[str, Path] = {}
        self._progress: dict[str, Progress] = {}
        self.records: dict[str, Record] = {}

    def run(self, retry: Collection[Status] = ()) -> list[Record]:
        """Run every cell of the shard that has no record yet; return the shard's records in order.

        Args:
            retry: statuses of earlier records whose cells are to be run again.
        """
        self._take_up(retry)
        self._refuse()
        self._build_venvs()
        self._prepare()
        self._measure_rounds()
        return [self.records[planned.cell.id] for planned in self._cells]

    # Before measuring

    def _take_up(self, retry: Collection[Status]) -> None:
        """Find what an earlier, interrupted run left."""
        for planned in self._cells:
            cell = planned.cell
            record = self._run.record(cell)
            if record is not None and record.status not in retry:
                self.records[cell.id] = record
                continue
            if planned.refusal is None:
                progress = Progress(cell, self._now())
                for result, versions in self._run.rounds(cell):
                    progress.add(result, versions)
                self._progress[cell.id] = progress

    def _refuse(self) -> None:
        for planned in self._cells:
            if planned.refusal is not None and planned.cell.id not in self.records:
                status, cause = planned.refusal
                self._end(Progress(planned.cell, self._now()), status, cause)

    def _build_venvs(self) -> None:
        for reference in dict.fromkeys(p.cell.reference for p in self._progress.values()):
            if self._venvs is None:
                self._pythons[reference] = self._current_python
                continue
            try:
                built = self._venvs.ensure(self._suite.venv(reference))
                self._pythons[reference] = built.python
            except VenvBuildError as error:
                for progress in self._pending(reference):
                    self._run.write_log(progress.cell, error.log_tail)
                    cause = Cause(
                        kind="venv",
                        message=f"{error}: {error.log_tail}",
                        action=f"skymark env build {reference}",
                    )
                    self._end(progress, Status.SKIPPED, cause)

    def _prepare(self) -> None:
        cells = [progress.cell for progress in self._progress.values()]
        self._suite.fetch(cells, self._cache, self._observer.stage)
        by_reference: dict[str, list[Cell]] = {}
        for cell in self._suite.unprepared(cells, self._cache):
            by_reference.setdefault(cell.reference, []).append(cell)
        for reference, waiting in by_reference.items():
            self._observer.stage(f"preparing the data of {waiting[0].adapter}")

            def prepare(worker: WorkerProcess, cell: Cell) -> None:
                worker.prepare(cell, self._run.log_path(cell), PREPARE_TIMEOUT_S)

            self._with_worker(reference, waiting, prepare)

    # Measuring

    def _measure_rounds(self) -> None:
        effort = self._plan.effort
        left = [effort.min_rounds - len(p.rounds) for p in self._progress.values()]
        self._observer.planned(sum(max(0, rounds) for rounds in left))
        for progress in list(self._progress.values()):
            self._end_if_enough(progress)
        turn = 0
        while self._progress:
            groups: dict[str, list[Cell]] = {}
            for progress in self._progress.values():
                groups.setdefault(self._suite.group(progress.cell), []).append(progress.cell)
            names = list(groups)
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                self._with_worker(groups[name][0].reference, groups[name], self._measure)
            turn += 1

    def _measure(self, worker: WorkerProcess, cell: Cell) -> None:
        progress, effort = self._progress[cell.id], self._plan.effort
        number = progress.next_round
        progress.next_round += 1
        self._observer.measuring(cell, number)
        busy = self._uploads.hold() if self._uploads else ()
        try:
            message = worker.measure(cell, number, effort, self._run.log_path(cell))
        finally:
            self._observer.measured(cell, number)
        if busy:
            progress.warn(
                kind="upload-overlap",
                message=f"results were on their way to {', '.join(busy)} in round {number + 1}",
                action="use a faster or closer store, or export the run when it has ended",
            )
        progress.add(RoundResult.model_validate(message["result"]), message["versions"])
        self._run.write_round(cell, progress.rounds[-1], progress.versions)

    def _with_worker(
        self,
        reference: str,
        cells: Iterable[Cell],
        work: Callable[[WorkerProcess, Cell], None],
    ) -> None:
        """Do some work on cells in one worker process; in a new one after each that breaks."""
        waiting = deque(cells)
        may_start_again = True
        while waiting:
            served: list[Cell] = []
            try:
                worker = self._start(reference, waiting[0])
            except WorkerError as error:
                self._fail_all(waiting, error)
                return
            try:
                worker.await_ready()
                may_start_again = True
                while waiting:
                    cell = waiting.popleft()
                    served.append(cell)
                    try:
                        work(worker, cell)
                    except WorkerError as error:
                        self._fail(cell, error)
                        if not error.alive:
                            worker.kill()
                            break
            except WorkerError as error:
                # What killed it once, for want of memory perhaps, may be over.
                if not (may_start_again and error.cause.kind == DIED):
                    self._fail_all(waiting, error)
                may_start_again = False
            except BaseException:
                worker.kill()
                raise
            finally:
                if self._uploads:
                    self._uploads.release()
                worker.end()
            self._note_leaks(worker, served)
            for cell in served:
                if cell.id in self._progress:
                    self._end_if_enough(self._progress[cell.id])

    def _start(self, reference: str, cell: Cell) -> WorkerProcess:
        return WorkerProcess(
            self._pythons[reference],
            self._suite.runner,
            reference,
            self._cache,
            None if self._venvs is None else import_root(self._cache),
            self._run.open_log(cell),
        )

    # After measuring

    def _note_leaks(self, worker: WorkerProcess, served: Iterable[Cell]) -> None:
        if not worker.leaked:
            return
        for cell in served:
            if cell.id in self._progress:
                self._progress[cell.id].warn(
                    kind="leaked-processes",
                    message=describe_leaks(worker.leaked),
                    action="have the adapter's close() end every process that it started",
                )

    def _fail(self, cell: Cell, error: WorkerError) -> None:
        status = Status.TIMEOUT if error.timed_out else Status.FAILED
        if error.cause.kind == "LibraryAbsentError":
            status = Status.SKIPPED
        self._end(self._progress[cell.id], status, error.cause)

    def _fail_all(self, waiting: deque[Cell], error: WorkerError) -> None:
        while waiting:
            self._fail(waiting.popleft(), error)

    def _end_if_enough(self, progress: Progress) -> None:
        if not progress.rounds:
            return
        verification = progress.rounds[-1].verification
        if not verification.passed:
            self._end(progress, Status.INVALID, verification.cause)
        elif enough(progress.rounds, self._plan.effort):
            self._end(progress, Status.OK, None)

    def _end(self, progress: Progress, status: Status, cause: Cause | None) -> None:
        """Write a cell's record and forget about the cell."""
        cell, rounds = progress.cell, progress.rounds
        ok = rounds and status is Status.OK
        measured = warnings_of(rounds, self._plan.effort) if ok else ()
        record = Record(
            cell=cell,
            cell_hash=cell.hash,
            status=status,
            cause=cause,
            rounds=tuple(summary_of(result) for result in rounds),
            figures=figures_of(rounds) if ok else None,
            verification=all_verified(rounds) if rounds else None,
            warnings=(*measured, *progress.warnings.values()),
            versions=progress.versions,
            page_cache=rounds[-1].page_cache if rounds else None,
            started_at=progress.started_at,
            ended_at=self._now(),
        )
        record = self._run.write_record(record, rounds)
        self.records[cell.id] = record
        self._progress.pop(cell.id, None)
        left = max(0, self._plan.effort.min_rounds - progress.next_round)
        self._observer.ended(record, rounds_left=left)

    def _pending(self, reference: str) -> list[Progress]:
        return [p for p in self._progress.values() if p.cell.reference == reference]


def all_verified(rounds: Sequence[RoundResult]) -> Verification:
    """Return what was checked over all rounds, with the verdict of the last.

    A round that fails ends its cell, so only the last can have failed.
    """
    each = [result.verification for result in rounds]
    differences = [one.max_difference for one in each if one.max_difference is not None]
    return each[-1].model_copy(
        update={
            "epochs": sum(one.epochs for one in each),
            "indexed_elements": sum(one.indexed_elements for one in each),
            "content_elements": sum(one.content_elements for one in each),
            "max_difference": max(differences, default=None),
        }
    )
