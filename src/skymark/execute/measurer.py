"""Measuring of one run's cells in worker processes; each leaves its record."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from skymark.execute.asking import Interpreters
from skymark.execute.machine_fault import RoundWatch
from skymark.execute.open_cells import OpenCells, UnfinishedCell
from skymark.execute.process import (
    DIED,
    MeasuredRound,
    WorkerError,
    WorkerProcess,
    describe_leaks,
)
from skymark.execute.slices import LiveRound
from skymark.execute.starting import WorkerKind
from skymark.execute.worker_pool import Judges, WorkerPool
from skymark.machine.gpu_fitness import LOSS, lost_fault
from skymark.machine.nvidia import lost_gpu
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import (
    Cause,
    Cell,
    MachineUse,
    Record,
    Round,
    RoundResult,
    Status,
    Stop,
    undisturbed,
)
from skymark.rundir.directory import RunDirectory
from skymark.store.storing import Storing
from skymark.suite.contract import Suite

HOST_ONLY = "unused: the adapter has no part for it"
"""The accelerator of a record, where the library works on the host wherever it runs."""


class Observer(Protocol):
    """Callbacks for the progress of a run; the CLI shows it."""

    def stage(self, text: str) -> None:
        """Something that is not a measurement begins, such as making a venv."""

    def planned(self, steps: int) -> None:
        """The number of cell-rounds to measure is known."""

    def measuring(self, cell: Cell, round: int) -> None:
        """A cell's round begins."""

    def measured(self, cell: Cell, round: int, result: Round | None) -> None:
        """A cell's round ended; `result` is None unless the oracle passed it."""

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """A cell has its record; `rounds_left` planned rounds of it will not be run."""


class SilentObserver:
    """Callbacks that do nothing."""

    def stage(self, text: str) -> None:
        """Ignore a step."""

    def planned(self, steps: int) -> None:
        """Ignore the number of steps."""

    def measuring(self, cell: Cell, round: int) -> None:
        """Ignore the beginning of a round."""

    def measured(self, cell: Cell, round: int, result: Round | None) -> None:
        """Ignore the end of a round."""

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """Ignore a record."""


@dataclass
class Measurer:
    """Measures rounds of a run's cells, and writes their records."""

    plan: Plan
    suite: Suite
    run: RunDirectory
    """Gets the results; finished cells found there are not run again."""
    cache: Path
    """Holds the data."""
    observer: Observer
    interpreters: Interpreters
    cells: Sequence[PlannedCell] | None = None
    """Cells of the plan that are run here; None for all."""
    uploads: Sequence[Storing] = ()
    """Uploads of results, which keep still while a round is measured."""
    shared: bool = False
    """Whether other processes may measure on the machine meanwhile."""
    workers: WorkerPool | None = None
    """Source of worker processes. None for a pool of its own, which ends with the measurer."""
    is_enough: Callable[[Cell, Sequence[RoundResult]], bool] = lambda *_: False
    """Whether a cell ends after rounds that the oracle passed."""
    sets_aside: bool = True
    """Whether disturbed rounds are set aside; rounds in pairs are disturbed alike."""
    before_round: Callable[[Cell], None] = lambda _: None
    """Called before a round of a cell; may refuse it by an error, which ends the run."""
    after_round: Callable[[Cell], None] = lambda _: None
    """Called when a worker has measured a round, before the judge's verdict."""

    def __post_init__(self) -> None:
        self.effort = self.plan.bounds
        chosen = self.plan.cells if self.cells is None else self.cells
        self.open = OpenCells(chosen, self.suite, self.effort, self.run)
        self.pool = self.workers or WorkerPool(self.observer.stage, keeps=self.suite.shares_process)
        self.pythons: dict[str, Path | None] = {}
        """Interpreters by group; None for the current one."""
        self._judges = None if self.suite.judge is None else Judges(self.suite.judge)

    def close(self) -> None:
        """End the judges and a worker that waits for its cells; safe to call again."""
        if self._judges is not None:
            self._judges.close()
        if self.workers is None or not self.pool.keeps:
            self.pool.close()

    def processes(self, ids: Collection[str] | None = None) -> dict[str, list[Cell]]:
        """Return open cells by the first group of each process, in order.

        A process serves one group, or all groups of a venv if the suite shares its processes.

        Args:
            ids: ids of the chosen cells; None for all.
        """
        groups = self.open.groups(ids)
        if not self.suite.shares_process:
            return groups
        first_of: dict[Path | None, str] = {}
        processes: dict[str, list[Cell]] = {}
        for group, cells in groups.items():
            first = first_of.setdefault(self.pythons[group], group)
            processes.setdefault(first, []).extend(cells)
        return processes

    # Rounds

    def measure(
        self,
        worker: WorkerProcess,
        cell: Cell,
        when_ready: Callable[[LiveRound], None] | None = None,
    ) -> None:
        """Measure the next round of a cell; see `WorkerProcess.measure`."""
        unfinished = self.open[cell]
        number = unfinished.next_round
        unfinished.next_round += 1
        self.before_round(cell)
        self.observer.measuring(cell, number)
        busy = [url for one in self.uploads for url in one.hold()]
        log, on_gpu = self.run.log_path(cell), self.computes_on_gpu(unfinished)
        watch = RoundWatch(log)
        passed: RoundResult | None = None
        try:
            measured = worker.measure(
                *(cell, number, self.effort, log),
                on_gpu=on_gpu,
                watch=watch,
                when_ready=when_ready,
            )
            self.after_round(cell)
            result = self._noted(self._judged(worker, cell, measured), measured.machine)
            passed = result if result.verification.passed else None
        finally:
            self.observer.measured(cell, number, passed)
        if not result.verification.passed and (fault := watch.fault("")) is not None:
            raise WorkerError(fault, alive=True)
        if busy:
            unfinished.warn(
                kind="upload-overlap",
                message=f"results were on their way to {', '.join(busy)} in round {number + 1}",
                action="use a faster or closer store, or export the run when it has ended",
            )
        if self.shared:
            unfinished.warn(
                kind="shared-machine",
                message="other processes may have measured on the machine meanwhile (--share)",
                action="take what depends on the load, such as a throughput, without --share",
            )
        if not unfinished.set_aside(result, self.suite.doubtful):
            unfinished.add(result, measured.told.versions)
            self.run.write_round(cell, result, measured.told.versions)

    def _noted(self, result: RoundResult, use: MachineUse | None) -> RoundResult:
        """Return a round with the machine's use by others, and the share that they may take."""
        metric = self.suite.declaration.primary_metric
        if use is None or metric.scale == "exact" or self.shared or not self.sets_aside:
            return result.model_copy(update={"machine": use})
        most = self.effort.largest_taken_share
        return result.model_copy(update={"machine": use.model_copy(update={"most_share": most})})

    def _judged(self, worker: WorkerProcess, cell: Cell, measured: MeasuredRound) -> RoundResult:
        """Return a round with the verdict of the suite's judge, or of its runner.

        The runner's verdict stands, too, where an earlier revision's code has no judge.
        """
        told = measured.told
        is_without = told.evidence is None and self.interpreters.package is not None
        if self._judges is None or is_without:
            return told.result
        log, timeout_s = self.run.log_path(cell), self.effort.cell_timeout_s
        try:
            return self._judges.judged(cell, measured, worker.kind, log, timeout_s)
        except WorkerError as error:
            # The evidence is lost with a worker that was killed meanwhile.
            if (cause := worker.death()) is not None:
                raise WorkerError(cause) from error
            raise

    # Workers

    def serve(
        self,
        group: str,
        cells: Iterable[Cell],
        work: Callable[[WorkerProcess, Cell], None],
    ) -> None:
        """Do some work on cells in one worker process, and replace it when it breaks."""
        waiting = deque(cells)
        may_start_again = True
        while waiting := deque(cell for cell in waiting if cell in self.open):
            served: list[Cell] = []
            start = RoundWatch(self.run.log_path(waiting[0]))
            try:
                worker = self.worker(group, waiting)
            except WorkerError as error:
                self._fail_all(waiting, error)
                return
            try:
                worker.await_ready(self.effort.cell_timeout_s)
                may_start_again = True
                while waiting and waiting[0] in self.open:
                    cell = waiting.popleft()
                    served.append(cell)
                    watch = RoundWatch(self.run.log_path(cell))
                    try:
                        work(worker, cell)
                    except WorkerError as error:
                        self._fail(cell, explained(error, watch, worker))
                        if not error.alive:
                            worker.kill()
                            break
            except WorkerError as error:
                # A passing cause, such as a lack of memory, may have killed it.
                if not (may_start_again and error.cause.kind == DIED):
                    self._fail_all(waiting, explained(error, start, worker))
                may_start_again = False
            except BaseException:
                worker.kill()
                raise
            finally:
                for one in self.uploads:
                    one.release()
                self.pool.give_back(worker)
            self._note_leaks(worker, served)
            for cell in served:
                self.end_if_enough(cell)

    def start_ahead(self, group: str, cells: Collection[Cell]) -> None:
        """Start the process of the next cells early, so that it imports its library meanwhile."""
        self.pool.start_ahead(*self._start(group, cells))

    def worker(self, group: str, cells: Collection[Cell]) -> WorkerProcess:
        """Return the worker for cells of a group.

        Raises:
            WorkerError: none could be started.
        """
        return self.pool.take(*self._start(group, cells))

    def worker_beside(self, group: str, cell: Cell) -> WorkerProcess:
        """Return a worker that runs beside others, with the code that runs here.

        Raises:
            WorkerError: none could be started.
        """
        return self.pool.take_beside(*self._start(group, [cell], of_this=True))

    def _start(
        self, group: str, cells: Collection[Cell], *, of_this: bool = False
    ) -> tuple[WorkerKind, str, Collection[Cell], Path]:
        """Return the kind, the adapter and the cells of a worker, and the log of the first cell."""
        own, runner, first = self.pythons[group], self.suite.runner, next(iter(cells))
        kind = WorkerKind(
            own or self.interpreters.current,
            runner,
            self.cache,
            self.interpreters.import_root(own, self.cache, runner, of_this=of_this),
            self.interpreters.platform,
        )
        return kind, self.suite.adapter_reference(first), cells, self.run.open_log(first)

    # Ends of cells

    def end(
        self, cell: Cell, status: Status, cause: Cause | None = None, stop: Stop | None = None
    ) -> None:
        """Write a cell's record; the cell is not open any more."""
        left = max(0, self.effort.min_rounds - self.open[cell].next_round)
        self.observer.ended(self.open.end(cell, status, cause, stop), rounds_left=left)

    def end_if_enough(self, cell: Cell) -> None:
        """End an open cell if the oracle rejected it, or if it has enough rounds."""
        rounds = self.open[cell].rounds if cell in self.open else ()
        if not rounds:
            return
        verification = rounds[-1].verification
        if not verification.passed:
            self.end(cell, Status.INVALID, verification.cause, Stop.FAILED)
            return
        counted: Sequence[RoundResult] = undisturbed(rounds)
        if len(rounds) >= self.effort.max_rounds:
            counted = rounds  # a machine that others disturb throughout
        if counted and self.is_enough(cell, counted):
            # Fewer than the minimum are enough for figures that do not vary.
            is_narrow = self.effort.min_rounds <= len(counted) < self.effort.max_rounds
            self.end(cell, Status.OK, None, Stop.INTERVAL if is_narrow else Stop.ROUNDS)

    def computes_on_gpu(self, unfinished: UnfinishedCell) -> bool:
        """Whether a cell's library computes on NVIDIA GPUs."""
        on_gpu = self.interpreters.platform == "gpu"
        return on_gpu and unfinished.accelerator not in {None, HOST_ONLY}

    def _note_leaks(self, worker: WorkerProcess, served: Iterable[Cell]) -> None:
        for cell in served:
            if worker.leaked and cell in self.open:
                self.open[cell].warn(
                    kind="leaked-processes",
                    message=describe_leaks(worker.leaked),
                    action="have the adapter's close() end every process that it started",
                )

    def _fail(self, cell: Cell, error: WorkerError) -> None:
        if cell not in self.open:
            return  # it ended with another cell that lost the GPU
        if self.computes_on_gpu(self.open[cell]) and self._ends_for_a_loss(error.cause):
            return
        status = Status.TIMEOUT if error.timed_out else Status.FAILED
        if error.cause.kind == "LibraryAbsentError":
            status = Status.SKIPPED
        elif error.cause.kind == "UnsupportedError":
            status = Status.UNSUPPORTED
        self.end(cell, status, error.cause, Stop.FAILED if status.is_bad else None)

    def _ends_for_a_loss(self, cause: Cause) -> bool:
        """End all cells that compute on the GPU if it is lost, because each would hang.

        Args:
            cause: cause of a worker's failure.

        Returns:
            Whether the GPU is lost.
        """
        words = lost_gpu() or (cause.message if LOSS.search(cause.message) else None)
        if words is None:
            return False
        fault = lost_fault(words)
        again = "then continue the run with --resume --retry failed"
        lost = Cause(kind=fault.kind, message=fault.message, action=f"{fault.action}; {again}")
        for unfinished in list(self.open.by_id.values()):
            if self.computes_on_gpu(unfinished):
                self.end(unfinished.planned.cell, Status.FAILED, lost, Stop.FAILED)
        return True

    def _fail_all(self, waiting: deque[Cell], error: WorkerError) -> None:
        """End the cells whose worker did not start; its output is in the first cell's log."""
        log = self.run.log_path(waiting[0]).name
        for cell in list(waiting)[1:]:
            with self.run.open_log(cell).open("a") as others:
                others.write(f"the process did not start; its output is in {log}\n")
        while waiting:
            self._fail(waiting.popleft(), error)


def explained(error: WorkerError, watch: RoundWatch, worker: WorkerProcess) -> WorkerError:
    """Return a worker's error, with the machine's fault as its cause if there is one."""
    fault = watch.fault(error.cause.message, worker.killed_by)
    return error if fault is None else WorkerError(fault, alive=error.alive)
