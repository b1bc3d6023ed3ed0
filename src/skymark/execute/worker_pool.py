"""Worker processes between groups: one kept for those that follow, or the next started ahead."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from skymark.execute.process import WorkerError, WorkerKind, WorkerProcess, describe_leaks
from skymark.model.cell import Cell


class WorkerPool:
    """Lends workers to engines, one at a time, and ends or keeps those that come back.

    The one that is kept serves the next group of its kind, for libraries that take seconds to
    import. A round is in a process that has not measured its cell, so one that has is replaced.
    Where none is kept, the next one can be started ahead, to import while nothing is measured.
    """

    def __init__(self, announce: Callable[[str], None], *, keeps: bool) -> None:
        """Begin without a process.

        Args:
            announce: told of processes that a kept worker left running, which are ended.
            keeps: whether a worker outlives the cells for which it was started.
        """
        self._announce = announce
        self.keeps = keeps
        self._waiting: WorkerProcess | None = None

    def take(self, kind: WorkerKind, cells: Collection[Cell], log: Path) -> WorkerProcess:
        """Return the worker that waits, where it can serve cells, or else a new one.

        Args:
            kind: what it is to run in.
            cells: those that it is to serve, one at least.
            log: gets a new one's output until it is given a cell's own.

        Raises:
            WorkerError: none could be started.
        """
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            ids = {cell.id for cell in cells}
            if (
                waiting.is_running
                and waiting.kind == kind
                and waiting.measured.isdisjoint(ids)
                and (self.keeps or waiting.begun_for.id in ids)
            ):
                return waiting
            self._end(waiting)
        return WorkerProcess(kind, next(iter(cells)), log)

    def start_ahead(self, kind: WorkerKind, cells: Collection[Cell], log: Path) -> None:
        """Start the worker that is taken next, unless the one that is out is to be kept.

        Whatever is wrong with it, who takes it will see.

        Args:
            kind: what it is to run in.
            cells: those that it is to serve, one at least.
            log: gets its output until it is given a cell's own.
        """
        if self.keeps or self._waiting is not None:
            return
        with suppress(WorkerError):
            self._waiting = WorkerProcess(kind, next(iter(cells)), log)

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep a worker that can go on, or end it with everything that it started."""
        if self.keeps and worker.is_ready:
            self._waiting = worker
        else:
            worker.end()

    def close(self) -> None:
        """End the worker that waits; safe to call again."""
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            self._end(waiting)

    def _end(self, worker: WorkerProcess) -> None:
        """End a worker that serves no cell whose record could tell of what it left."""
        if not worker.has_started:
            worker.kill()  # it has nothing open
            return
        worker.end()
        if worker.leaked:
            self._announce(describe_leaks(worker.leaked))
