"""Judges of a run: a process per venv that never runs an adapter, and lives as long as the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from skymark.execute.process import MeasuredRound, WorkerError, WorkerProcess
from skymark.execute.starting import WorkerKind
from skymark.model.cell import Cell
from skymark.model.record import Cause, RoundResult

NOTHING_HANDED_OVER = Cause(
    kind="nothing-handed-over",
    message="the worker delivered figures, but nothing to judge them by",
    action="an adapter must leave skymark's own code in its process as it is",
)


class Judges:
    """Gives verdicts on the rounds of a suite that has a judge."""

    def __init__(self, judge: str) -> None:
        """Begin without a process.

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
            cell: what was measured.
            measured: what the worker told of the round, and what was seen of it.
            kind: what the worker runs in.
            log: gets what the judge prints.
            timeout_s: how long it may take.

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
