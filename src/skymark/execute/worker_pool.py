"""Worker processes between groups: ended after each, or one kept for the groups that follow."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from skymark.execute.process import WorkerKind, WorkerProcess, describe_leaks
from skymark.model.cell import Cell


class WorkerPool:
    """Lends workers to engines, one at a time, and ends or keeps those that come back.

    The one that is kept serves the next group of its kind, for libraries that take seconds to
    import. A round is in a process that has not measured its cell, so one that has is replaced.
    """

    def __init__(self, announce: Callable[[str], None], *, keeps: bool) -> None:
        """Begin without a process.

        Args:
            announce: told of processes that a kept worker left running, which are ended.
            keeps: whether a worker outlives the cells for which it was started.
        """
        self._announce = announce
        self._keeps = keeps
        self._kept: WorkerProcess | None = None

    def take(self, kind: WorkerKind, cells: Collection[Cell], log: Path) -> WorkerProcess:
        """Return the worker that was kept, where it can serve cells, or else a new one.

        Args:
            kind: what it is to run in.
            cells: those that it is to serve, one at least.
            log: gets a new one's output until it is given a cell's own.

        Raises:
            WorkerError: none could be started.
        """
        kept, self._kept = self._kept, None
        if kept is not None:
            if (
                kept.is_ready
                and kept.kind == kind
                and kept.measured.isdisjoint(cell.id for cell in cells)
            ):
                return kept
            self._end(kept)
        return WorkerProcess(kind, next(iter(cells)), log)

    def give_back(self, worker: WorkerProcess) -> None:
        """Keep a worker that can go on, or end it with everything that it started."""
        if self._keeps and worker.is_ready:
            self._kept = worker
        else:
            worker.end()

    def close(self) -> None:
        """End the worker that is kept; safe to call again."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._end(kept)

    def _end(self, worker: WorkerProcess) -> None:
        """End a worker whose cells have their records, which can tell of nothing any more."""
        worker.end()
        if worker.leaked:
            self._announce(describe_leaks(worker.leaked))
