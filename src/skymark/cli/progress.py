"""The progress of a run: a bar on standard error, or plain lines if that is no terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from skymark.model.cell import Cell
from skymark.model.record import Record, Status

STYLES = {
    Status.OK: "green",
    Status.INVALID: "bold red",
    Status.FAILED: "red",
    Status.TIMEOUT: "red",
    Status.SKIPPED: "yellow",
    Status.UNSUPPORTED: "dim",
}


class ProgressObserver:
    """Shows cell, round and times. Implements `skymark.execute.engine.Observer`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
            transient=True,
            expand=True,
        )
        self._skipped: set[tuple[str, str]] = set()
        self._task = self._progress.add_task("starting", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def stage(self, text: str) -> None:
        """Show a step before the measuring."""
        self._progress.update(self._task, description=text)
        self._console.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)

    def planned(self, steps: int) -> None:
        """Set the bar's length."""
        self._progress.reset(self._task, total=steps, description="measuring")

    def measuring(self, cell: Cell, round: int) -> None:
        """Show the cell and round under way."""
        text = f"round {round + 1}  {cell.label}  {cell.adapter}"
        self._progress.update(self._task, description=text)

    def measured(self, cell: Cell, round: int) -> None:
        """Move the bar."""
        del cell, round
        self._progress.advance(self._task)
        self._stretch()

    def _stretch(self) -> None:
        """Let the bar grow where rounds beyond the planned ones are needed."""
        task = self._progress.tasks[self._task]
        if task.total is not None and task.completed > task.total:
            self._progress.update(self._task, total=task.completed)

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """Say how a cell ended, if it did not end well."""
        self._progress.advance(self._task, rounds_left)
        cause = record.cause.message.partition("\n")[0] if record.cause else ""
        if record.status is Status.SKIPPED:
            # What keeps one cell of an adapter from running mostly keeps all of them from it.
            if (record.cell.adapter, cause) not in self._skipped:
                self._say(record.status, f"{record.cell.adapter}: {cause}")
            self._skipped.add((record.cell.adapter, cause))
        elif record.status.is_bad:
            self._say(record.status, f"{record.cell.label}  {record.cell.adapter}: {cause}")

    def _say(self, status: Status, text: str) -> None:
        self._console.print(
            f"{status.value:>11}  {text}",
            style=STYLES[status],
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
