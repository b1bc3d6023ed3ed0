"""Measuring of one run's cells, in whatever order; each leaves its record."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import ClassVar

from skymark.cache.sharing import fetching_alone
from skymark.execute.accelerator import no_accelerator
from skymark.execute.asking import Asker, Interpreters, Question, answers, question_of
from skymark.execute.machine_fault import RoundWatch
from skymark.execute.observer import Observer, Uploads
from skymark.execute.process import (
    DIED,
    MeasuredRound,
    WorkerError,
    WorkerProcess,
    describe_leaks,
)
from skymark.execute.seen_devices import TIMEOUT_S as SEE_TIMEOUT_S
from skymark.execute.seen_devices import SeenDevices
from skymark.execute.starting import WorkerKind
from skymark.execute.unfinished import UnfinishedCell
from skymark.execute.worker_pool import Judges, WorkerPool
from skymark.machine.cgroup import room_here, shortage
from skymark.machine.gpu_fitness import LOSS, lost_fault
from skymark.machine.nvidia import lost_gpu
from skymark.model.errors import VenvBuildError
from skymark.model.machine import Platform
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cause, Cell, Record, RoundResult, Status, Stop
from skymark.rundir.directory import RunDirectory
from skymark.suite.contract import Suite

PREPARE_TIMEOUT_S = 1800.0
"""Time to generate, download or convert the data of one cell."""

HOST_ONLY = "unused: the adapter has no part for it"
"""The accelerator of a record, where the library works on the host wherever it runs."""


class Measurer(ABC):
    """Prepares the cells of a plan, measures their rounds in workers, and writes their records."""

    forks: ClassVar[bool] = True
    """Whether workers are forked from a parent that has imported the library."""

    def __init__(  # noqa: PLR0913  # its parameters are the parts of a run
        self,
        plan: Plan,
        suite: Suite,
        run: RunDirectory,
        cache: Path,
        observer: Observer,
        interpreters: Interpreters,
        *,
        cells: Sequence[PlannedCell] | None = None,
        uploads: Uploads | None = None,
        shared: bool = False,
        workers: WorkerPool | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Get ready; nothing runs yet.

        Args:
            plan: what to run.
            suite: the suite that planned it.
            run: where results go; finished cells found there are not run again.
            cache: where datasets lie.
            observer: told how it goes.
            interpreters: what workers run in, and the accelerator that they are to use.
            cells: those of the plan that are to be run here; None for all of it.
            uploads: what sends results elsewhere meanwhile; None if nothing does.
            shared: whether other processes may measure on the machine meanwhile.
            workers: where worker processes come from and go to; None for some of its own, which
                end with the cells that they are started for.
            now: the wall clock, UTC.
        """
        self._plan = plan
        self._effort = plan.bounds
        self._cells = plan.cells if cells is None else tuple(cells)
        self._suite = suite
        self._run = run
        self._cache = cache
        self._observer = observer
        self._interpreters = interpreters
        self._uploads = uploads
        self._shared = shared
        self._workers = workers or WorkerPool(observer.stage, keeps=False, forks=self.forks)
        self._now = now
        self._judges = None if suite.judge is None else Judges(suite.judge)
        self._pythons: dict[str, Path | None] = {}
        self._unfinished: dict[str, UnfinishedCell] = {}
        self.records: dict[str, Record] = {}

    def ended(self) -> list[Record]:
        """Return the records of all cells, in order; each has one when measuring has ended."""
        return [self.records[planned.cell.id] for planned in self._cells]

    def close(self) -> None:
        """End the processes that judge, and one that waits for its cells; safe to call again."""
        if self._judges is not None:
            self._judges.close()
        if not self._workers.keeps:
            self._workers.close()

    # Before measuring

    def begin(self, is_to_run_again: Callable[[Record], bool]) -> None:
        """Do everything that comes before the first round.

        Args:
            is_to_run_again: whether the cell of an earlier record gets a new one; that of a cell
                that could not be set up always does.
        """
        self._take_up(is_to_run_again)
        self._refuse()
        self._build_venvs()
        self._look_for_accelerators()
        self._prepare()

    def _take_up(self, is_to_run_again: Callable[[Record], bool]) -> None:
        """Find what an earlier, interrupted run left."""
        for planned in self._cells:
            cell = planned.cell
            record = self._run.record(cell)
            if record is not None and not (record.was_not_set_up or is_to_run_again(record)):
                self.records[cell.id] = record
                continue
            unfinished = UnfinishedCell(planned, self._now())
            if planned.refusal is None:
                for result, versions in self._run.rounds(cell):
                    unfinished.add(result, versions)
            self._unfinished[cell.id] = unfinished

    def _refuse(self) -> None:
        """End the cells that cannot be run, by the plan or on this machine."""
        room = room_here()
        for unfinished in list(self._unfinished.values()):
            planned = unfinished.planned
            if planned.refusal is not None:
                self._end(unfinished, *planned.refusal)
            elif (cause := self._suite.absence(planned.cell)) is not None:
                self._end(unfinished, Status.SKIPPED, cause)
            elif (cause := shortage(self._suite.need(planned.cell), room)) is not None:
                self._end(unfinished, Status.FAILED, cause, Stop.FAILED)

    def _build_venvs(self) -> None:
        for group, cells in self._groups().items():
            try:
                self._pythons[group] = self._interpreters.of_venv(self._suite.venv(cells[0]))
            except VenvBuildError as error:
                platform = self._interpreters.platform
                options = "" if platform == "cpu" else f" --platform {platform}"
                build = f"skymark env build {self._suite.adapter_reference(cells[0])}{options}"
                where = ", on a machine with a network and the same SKYMARK_CACHE"
                cause = Cause(
                    kind="venv",
                    message=f"{error}: {error.log_tail}",
                    action=f"{build}{where if error.is_offline else ''}",
                )
                for cell in cells:
                    self._run.write_log(cell, error.log_tail)
                    self._end(self._unfinished[cell.id], Status.FAILED, cause, Stop.FAILED)

    def _look_for_accelerators(self) -> None:
        """End the cells whose library would fall back to the CPU; note what the others see."""
        platform = self._interpreters.platform
        if platform == "cpu":
            return
        groups = self._groups()
        askers: dict[Question, list[Asker]] = {}
        for group, cells in groups.items():
            if (library := self._suite.device_library(cells[0], platform)) is None:
                for cell in cells:
                    self._unfinished[cell.id].accelerator = HOST_ONLY
                continue
            asker = Asker(group, library, partial(self._asked_worker, group, cells[0]))
            askers.setdefault(question_of(library, self._pythons[group]), []).append(asker)
        seen = self._interpreters.seen
        if waiting := {one: by for one, by in askers.items() if one not in seen}:
            names = ", ".join(dict.fromkeys(one.library for one in waiting))
            self._observer.stage(f"asking {names} for the {platform}")
            found = answers(waiting, max(SEE_TIMEOUT_S, self._effort.cell_timeout_s))
            seen.update({one: answer for one, answer in found.items() if answer.names})
            seen = {**seen, **found}
        self._note_seen(groups, askers, seen, platform)

    def _asked_worker(self, group: str, cell: Cell) -> WorkerProcess:
        """Start a worker that is asked for accelerators: it runs the code that runs here."""
        adapter, log = self._suite.adapter_reference(cell), self._run.open_log(cell)
        return self._workers.take_beside(self._kind(group, of_this=True), adapter, cell, log)

    def _note_seen(
        self,
        groups: Mapping[str, Sequence[Cell]],
        askers: Mapping[Question, Iterable[Asker]],
        seen: Mapping[Question, SeenDevices],
        platform: Platform,
    ) -> None:
        for question, asking in askers.items():
            if (answer := seen.get(question)) is None:
                continue  # no worker started; those that are to measure tell why
            for one in asking:
                if one.library.measured in answer.absent:
                    continue  # the worker tells how to install it
                for cell in groups[one.group]:
                    unfinished = self._unfinished[cell.id]
                    unfinished.accelerator = answer.text
                    if answer.fault is not None:
                        cause = no_accelerator(question.library, platform, answer.fault)
                        self._end(unfinished, Status.FAILED, cause, Stop.FAILED)

    def _prepare(self) -> None:
        cells = [one.planned.cell for one in self._unfinished.values()]
        with fetching_alone(os.environ, self._observer.stage):
            self._suite.fetch(cells, self._cache, self._observer.stage)
        unprepared = {cell.id for cell in self._unprepared(cells)}

        waiting = {
            group: meant
            for group, members in self._processes(self._unfinished).items()
            if (meant := [cell for cell in members if cell.id in unprepared])
        }
        while waiting:
            group, cells = next(iter(waiting.items()))
            del waiting[group]
            if left := self._unprepared(cells):  # others' workers made data since
                self._with_worker(group, left, partial(self._prepare_cell, left[0], waiting))

    def _prepare_cell(
        self,
        first: Cell,
        waiting: Mapping[str, Sequence[Cell]],
        worker: WorkerProcess,
        cell: Cell,
    ) -> None:
        """Have a cell's data made, while the next process that is to make some imports its library.

        Args:
            first: of the worker's cells. Until its data is there, others may wait for the same.
            waiting: cells without data by their group, in order.
            worker: makes the data.
            cell: whose data it is.
        """
        if cell is not first:
            after = (one for one, cells in waiting.items() if self._unprepared(cells))
            if (group := next(after, None)) is not None:
                self._start_ahead(group, waiting[group])
        if not self._unprepared([cell]):
            return  # another cell of the same data came before
        self._observer.stage(f"preparing {cell.scenario} ({cell.variant}) for {cell.adapter}")
        worker.prepare(cell, self._run.log_path(cell), PREPARE_TIMEOUT_S)

    def _unprepared(self, cells: Sequence[Cell]) -> Sequence[Cell]:
        """Return the cells whose data a worker is asked to make."""
        return self._suite.unprepared(cells, self._cache)

    # Measuring

    def _measure(self, worker: WorkerProcess, cell: Cell) -> None:
        unfinished, effort = self._unfinished[cell.id], self._effort
        number = unfinished.next_round
        unfinished.next_round += 1
        self._observer.measuring(cell, number)
        busy = self._uploads.hold() if self._uploads else ()
        log, on_gpu = self._run.log_path(cell), self._computes_on_gpu(unfinished)
        watch = RoundWatch(log)
        try:
            measured = worker.measure(cell, number, effort, log, on_gpu=on_gpu, watch=watch)
            self._was_measured(cell)
            result = self._judged(worker, cell, measured)
        finally:
            self._observer.measured(cell, number)
        if not result.verification.passed and (fault := watch.fault("")) is not None:
            raise WorkerError(fault, alive=True)
        if busy:
            unfinished.warn(
                kind="upload-overlap",
                message=f"results were on their way to {', '.join(busy)} in round {number + 1}",
                action="use a faster or closer store, or export the run when it has ended",
            )
        if self._shared:
            unfinished.warn(
                kind="shared-machine",
                message="other processes may have measured on the machine meanwhile (--share)",
                action="take what depends on the load, such as a throughput, without --share",
            )
        if not unfinished.set_aside(result, self._suite.doubtful):
            unfinished.add(result, measured.told.versions)
            self._run.write_round(cell, result, measured.told.versions)

    def _judged(self, worker: WorkerProcess, cell: Cell, measured: MeasuredRound) -> RoundResult:
        """Return a round with the verdict of the suite's judge, or of its runner."""
        if self._judges is None:
            return measured.told.result
        log, timeout_s = self._run.log_path(cell), self._effort.cell_timeout_s
        try:
            return self._judges.judged(cell, measured, worker.kind, log, timeout_s)
        except WorkerError as error:
            # What it handed over goes with a worker that was killed meanwhile.
            if (cause := worker.death()) is not None:
                raise WorkerError(cause) from error
            raise

    def _with_worker(
        self,
        group: str,
        cells: Iterable[Cell],
        work: Callable[[WorkerProcess, Cell], None],
    ) -> None:
        """Do some work on cells in one worker process; in a new one after each that breaks."""
        waiting = deque(cells)
        may_start_again = True
        while waiting := deque(cell for cell in waiting if cell.id in self._unfinished):
            served: list[Cell] = []
            start = RoundWatch(self._run.log_path(waiting[0]))
            try:
                worker = self._worker(group, waiting)
            except WorkerError as error:
                self._fail_all(waiting, error)
                return
            try:
                worker.await_ready(self._effort.cell_timeout_s)
                may_start_again = True
                while waiting and waiting[0].id in self._unfinished:
                    cell = waiting.popleft()
                    served.append(cell)
                    watch = RoundWatch(self._run.log_path(cell))
                    try:
                        work(worker, cell)
                    except WorkerError as error:
                        self._fail(cell, explained(error, watch, worker))
                        if not error.alive:
                            worker.kill()
                            break
            except WorkerError as error:
                # What killed it once, for want of memory perhaps, may be over.
                if not (may_start_again and error.cause.kind == DIED):
                    self._fail_all(waiting, explained(error, start, worker))
                may_start_again = False
            except BaseException:
                worker.kill()
                raise
            finally:
                if self._uploads:
                    self._uploads.release()
                self._workers.give_back(worker)
            self._note_leaks(worker, served)
            for cell in served:
                if cell.id in self._unfinished:
                    self._end_if_enough(self._unfinished[cell.id])

    def _was_measured(self, cell: Cell) -> None:
        """Do what can be done beside the judging of a cell's round; nothing, unless overridden."""

    def _start_ahead(self, group: str, cells: Collection[Cell]) -> None:
        """Start the process that serves these cells next, which imports its library meanwhile."""
        first = next(iter(cells))
        adapter, log = self._suite.adapter_reference(first), self._run.open_log(first)
        self._workers.start_ahead(self._kind(group), adapter, cells, log)

    def _worker(self, group: str, cells: Collection[Cell]) -> WorkerProcess:
        first = next(iter(cells))
        adapter, log = self._suite.adapter_reference(first), self._run.open_log(first)
        return self._workers.take(self._kind(group), adapter, cells, log)

    def _kind(self, group: str, *, of_this: bool = False) -> WorkerKind:
        own, runner = self._pythons[group], self._suite.runner
        return WorkerKind(
            own or self._interpreters.current,
            runner,
            self._cache,
            self._interpreters.import_root(own, self._cache, runner, of_this=of_this),
            self._interpreters.platform,
        )

    # After measuring

    def _note_leaks(self, worker: WorkerProcess, served: Iterable[Cell]) -> None:
        if not worker.leaked:
            return
        for cell in served:
            if cell.id in self._unfinished:
                self._unfinished[cell.id].warn(
                    kind="leaked-processes",
                    message=describe_leaks(worker.leaked),
                    action="have the adapter's close() end every process that it started",
                )

    def _fail(self, cell: Cell, error: WorkerError) -> None:
        if cell.id not in self._unfinished:
            return  # it ended with another, whose GPU was lost
        if self._computes_on_gpu(self._unfinished[cell.id]) and self._ends_for_a_loss(error.cause):
            return
        status = Status.TIMEOUT if error.timed_out else Status.FAILED
        if error.cause.kind == "LibraryAbsentError":
            status = Status.SKIPPED
        elif error.cause.kind == "UnsupportedError":
            status = Status.UNSUPPORTED
        stop = Stop.FAILED if status.is_bad else None
        self._end(self._unfinished[cell.id], status, error.cause, stop)

    def _computes_on_gpu(self, one: UnfinishedCell) -> bool:
        on_gpu = self._interpreters.platform == "gpu"
        return on_gpu and one.accelerator not in {None, HOST_ONLY}

    def _ends_for_a_loss(self, cause: Cause) -> bool:
        """End all cells that compute on the GPU if it is lost; each would wait for it in vain.

        Args:
            cause: why a worker failed.

        Returns:
            Whether it is lost.
        """
        words = lost_gpu() or (cause.message if LOSS.search(cause.message) else None)
        if words is None:
            return False
        fault = lost_fault(words)
        again = "then continue the run with --resume --retry failed"
        lost = Cause(kind=fault.kind, message=fault.message, action=f"{fault.action}; {again}")
        for one in list(self._unfinished.values()):
            if self._computes_on_gpu(one):
                self._end(one, Status.FAILED, lost, Stop.FAILED)
        return True

    def _fail_all(self, waiting: deque[Cell], error: WorkerError) -> None:
        """End the cells whose worker did not start; what it wrote is in the log of the first."""
        log = self._run.log_path(waiting[0]).name
        for cell in list(waiting)[1:]:
            with self._run.open_log(cell).open("a") as others:
                others.write(f"the process did not start; its output is in {log}\n")
        while waiting:
            self._fail(waiting.popleft(), error)

    def _end_if_enough(self, unfinished: UnfinishedCell) -> None:
        if not unfinished.rounds:
            return
        verification = unfinished.rounds[-1].verification
        cell, rounds, effort = unfinished.planned.cell, unfinished.rounds, self._effort
        if not verification.passed:
            self._end(unfinished, Status.INVALID, verification.cause, Stop.FAILED)
        elif self._is_enough(cell, rounds):
            # Fewer than the least are enough for what does not vary.
            is_narrow = effort.min_rounds <= len(rounds) < effort.max_rounds
            self._end(unfinished, Status.OK, None, Stop.INTERVAL if is_narrow else Stop.ROUNDS)

    @abstractmethod
    def _is_enough(self, cell: Cell, rounds: Sequence[RoundResult]) -> bool:
        """Whether a cell ends after these rounds, all of which the oracle passed."""

    def _end(
        self,
        unfinished: UnfinishedCell,
        status: Status,
        cause: Cause | None,
        stop: Stop | None = None,
    ) -> None:
        """Write a cell's record and forget about the cell."""
        effort = self._effort
        record = unfinished.record(self._suite, effort, status, cause, stop, self._now())
        record = self._run.write_record(record, unfinished.rounds)
        self.records[record.cell.id] = record
        self._unfinished.pop(record.cell.id, None)
        left = max(0, effort.min_rounds - unfinished.next_round)
        self._observer.ended(record, rounds_left=left)

    def _groups(self) -> dict[str, list[Cell]]:
        """Return the unfinished cells by group, in order."""
        groups: dict[str, list[Cell]] = {}
        for one in self._unfinished.values():
            groups.setdefault(one.planned.group, []).append(one.planned.cell)
        return groups

    def _processes(self, ids: Collection[str]) -> dict[str, list[Cell]]:
        """Return cells by the first group of those that a process serves, in order.

        That is one group, or all that run in the same venv where the suite shares its processes.

        Args:
            ids: of the unfinished cells that are meant.
        """
        groups = {
            group: chosen
            for group, cells in self._groups().items()
            if (chosen := [cell for cell in cells if cell.id in ids])
        }
        if not self._suite.shares_process:
            return groups
        first_of: dict[Path | None, str] = {}
        processes: dict[str, list[Cell]] = {}
        for group, cells in groups.items():
            first = first_of.setdefault(self._pythons[group], group)
            processes.setdefault(first, []).extend(cells)
        return processes


def explained(error: WorkerError, watch: RoundWatch, worker: WorkerProcess) -> WorkerError:
    """Return an error of a worker, with the machine's fault as its cause where there is one."""
    fault = watch.fault(error.cause.message, worker.killed_by)
    return error if fault is None else WorkerError(fault, alive=error.alive)
