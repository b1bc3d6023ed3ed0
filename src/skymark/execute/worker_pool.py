"""Worker processes between groups, kept or forked for each round, and judges of the run."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from skymark.execute.process import (
    MeasuredRound,
    WorkerError,
    WorkerProcess,
    describe_leaks,
    not_started,
)
from skymark.execute.starting import WorkerKind, WorkerParent
from skymark.model.record import Cause, Cell, RoundResult

LEAST_FREE = 0.25
"""Smallest free share of the machine's memory for the start of another parent."""

Key = tuple[WorkerKind, str]
"""Kind and adapter of a parent, which decide its imports."""


class WorkerPool:
    """Lends workers to engines, one at a time, and ends or reuses returned workers.

    A round needs a process that has not measured its cell. An adapter's parent imports the library
    once and is forked for each worker. A parent that cannot be forked serves one worker; the next
    parent can start ahead, to import while nothing is measured. Alternatively, a worker serves
    several groups of its kind in turn.
    """

    def __init__(self, announce: Callable[[str], None], *, keeps: bool, forks: bool = True) -> None:
        """Set up without a process.

        Args:
            announce: callback for messages about a worker's left-over processes.
            keeps: whether a worker serves several groups.
            forks: whether to fork workers of one group from a parent, if possible.
        """
        self._announce = announce
        self.keeps = keeps
        self._forks = forks and not keeps
        self._kept: WorkerProcess | None = None
        self._by_key: dict[Key, WorkerParent] = {}
        """Parents, the most recently used last."""

    @property
    def parents(self) -> tuple[WorkerParent, ...]:
        """The present parents."""
        return tuple(self._by_key.values())

    def take(
        self, kind: WorkerKind, adapter: str, cells: Collection[Cell], log: Path
    ) -> WorkerProcess:
        """Return a worker for cells.

        Args:
            kind: interpreter, code and device.
            adapter: adapter of the cells.
            cells: the worker's cells, at least one.
            log: file for a new worker's output until its first cell.

        Raises:
            WorkerError: no worker could be started.
        """
        if (kept := self._kept_for(kind, cells)) is not None:
            return kept
        key = kind, adapter
        self._end_parents(lambda other, parent: other != key and not parent.has_forked)
        return self.take_beside(kind, adapter, cells, log)

    def take_beside(
        self, kind: WorkerKind, adapter: str, cells: Collection[Cell], log: Path
    ) -> WorkerProcess:
        """Return a new worker as `take` does, which runs beside others and so must not measure.

        Raises:
            WorkerError: no worker could be started.
        """
        cell = next(iter(cells))
        if not self._forks:
            return WorkerProcess(kind, cell, log)
        key = kind, adapter
        parent = self._by_key.pop(key, None)
        if parent is None or not parent.can_serve:
            if parent is not None:
                self._end(parent)
            parent = self._parent(key, cell, log)
        self._by_key[key] = parent
        return WorkerProcess(kind, cell, log, parent)

    def start_ahead(
        self, kind: WorkerKind, adapter: str, cells: Collection[Cell], log: Path
    ) -> None:
        """Start the parent of a worker that `take` is going to return, unless one is running.

        `take` reports its faults.
        """
        key = kind, adapter
        parent = self._by_key.get(key)
        if not self._forks or (parent is not None and parent.is_running):
            return
        with suppress(WorkerError):
            self._by_key[key] = self._parent(key, next(iter(cells)), log)

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep a worker for reuse if possible, or end it with all its processes."""
        if self.keeps and worker.is_ready:
            self._kept = worker
        else:
            worker.end()

    def close(self) -> None:
        """End every process; safe to call again."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._end_worker(kept)
        self._end_parents(lambda *_: True)

    def _kept_for(self, kind: WorkerKind, cells: Collection[Cell]) -> WorkerProcess | None:
        """Return the kept worker if it can serve cells; else end it."""
        kept, self._kept = self._kept, None
        if kept is None:
            return None
        is_new = kept.measured.isdisjoint(cell.id for cell in cells)
        if kept.is_running and kept.kind == kind and is_new:
            return kept
        self._end_worker(kept)
        return None

    def _parent(self, key: Key, cell: Cell, log: Path) -> WorkerParent:
        """Start a parent; if memory is short, end the least recently used idle parents first."""
        idle = [key for key, parent in self._by_key.items() if not parent.is_in_use]
        while idle and _free_share() < LEAST_FREE:
            self._end(self._by_key.pop(idle.pop(0)))
        try:
            return WorkerParent(key[0], cell, log)
        except OSError as error:
            raise WorkerError(not_started(error)) from error

    def _end_parents(self, is_meant: Callable[[Key, WorkerParent], bool]) -> None:
        for key in [key for key, parent in self._by_key.items() if is_meant(key, parent)]:
            self._end(self._by_key.pop(key))

    def _end(self, parent: WorkerParent) -> None:
        left = parent.end()
        if left and parent.has_forked:  # else it was ended in the middle of its import
            self._announce(describe_leaks(left))

    def _end_worker(self, worker: WorkerProcess) -> None:
        """End a worker, and announce its left-over processes, which no record can report."""
        worker.end()
        if worker.leaked:
            self._announce(describe_leaks(worker.leaked))


def _free_share() -> float:
    import psutil

    memory = psutil.virtual_memory()
    return float(memory.available / memory.total)


NOTHING_HANDED_OVER = Cause(
    kind="nothing-handed-over",
    message="the worker delivered figures without evidence for the judge",
    action="an adapter must not change skymark's own code in its process",
)


class Judges:
    """Gives verdicts on the rounds of a suite that has a judge."""

    def __init__(self, judge: str) -> None:
        """Set up without a process.

        Args:
            judge: ``module:Class`` of the suite's judge.
        """
        self._judge = judge
        self._by_kind: dict[WorkerKind, WorkerProcess] = {}

    def judged(
        self, cell: Cell, measured: MeasuredRound, kind: WorkerKind, log: Path, timeout_s: float
    ) -> RoundResult:
        """Return a round with its verdict.

        Args:
            cell: the measured cell.
            measured: the worker's report and the engine's observations.
            kind: interpreter, code and device of the worker.
            log: file for the judge's output.
            timeout_s: time limit.

        Raises:
            WorkerError: there is no verdict; the worker can go on.
        """
        result, evidence = measured.told.result, measured.told.evidence
        if evidence is None:
            raise WorkerError(NOTHING_HANDED_OVER, alive=True)
        try:
            judge = self._judge_of(kind, cell, log)
            verdict = judge.judge(cell, result, evidence, measured.seen, log, timeout_s)
        except WorkerError as error:
            broken = self._by_kind.get(kind)
            if broken is not None and not (error.alive and broken.is_ready):
                del self._by_kind[kind]
                broken.kill()
            cause = error.cause.model_copy(
                update={"message": f"in the process that judges: {error.cause.message}"}
            )
            raise WorkerError(cause, timed_out=error.timed_out, alive=True) from error
        return result.model_copy(update={"verification": verdict})

    def close(self) -> None:
        """End all processes; safe to call again."""
        while self._by_kind:
            _, judge = self._by_kind.popitem()
            judge.end()

    def _judge_of(self, kind: WorkerKind, cell: Cell, log: Path) -> WorkerProcess:
        if (judge := self._by_kind.get(kind)) is None:
            own = replace(kind, runner=self._judge, platform="cpu")
            judge = self._by_kind[kind] = WorkerProcess(own, cell, log)
        judge.await_ready()
        return judge
