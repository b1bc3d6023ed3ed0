"""Progress of a run: its figures, the present round, and the remaining time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from types import TracebackType
from typing import Self

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table
from rich.text import Text

from skymark.cli.caller import is_quiet, is_verbose
from skymark.model.metric import Declaration
from skymark.model.record import Cell, Record, Round, Status
from skymark.report.progress import LiveStanding
from skymark.report.terminal import STYLES


class TimeLeftColumn(ProgressColumn):
    """Remaining time: at first the plan's estimate, which finished rounds replace step by step.

    Args:
        expected_s: by the estimate, of the whole.
    """

    def __init__(self, expected_s: float) -> None:
        super().__init__()
        self._expected_s = expected_s
        self._done = (-1.0, -1.0)
        self._ends_s = 0.0

    def render(self, task: Task) -> Text:
        """Return it as h:mm:ss: foreseen anew after each round, and counted down meanwhile."""
        elapsed_s, total = task.elapsed or 0.0, task.total or 0.0
        if self._done != (task.completed, total):
            self._done = (task.completed, total)
            left_s = time_left_s(self._expected_s, elapsed_s, task.completed, total)
            self._ends_s = elapsed_s + left_s
        left_s = max(0.0, self._ends_s - elapsed_s)
        return Text(str(timedelta(seconds=round(left_s))), style="progress.remaining")


def time_left_s(expected_s: float, elapsed_s: float, completed: float, total: float) -> float:
    """Return the remaining time, from an estimate and the finished part."""
    if not completed or not total:
        return expected_s
    done = min(1.0, completed / total)
    whole_s = (1 - done) * expected_s + done * (elapsed_s / done)
    return (1 - done) * whole_s


class LiveProgress(Progress):
    """A progress bar below a table of the present figures."""

    standing: LiveStanding | None = None

    def get_renderables(self) -> Iterable[RenderableType]:
        """Yield the table, once it has a row, and the bar."""
        if self.standing is not None and (rows := list(self.standing.rows())):
            table = Table(box=None, pad_edge=False, header_style="dim")
            for place, heading in enumerate(self.standing.headings()):
                table.add_column(Text(heading), justify="right" if place else "left", no_wrap=True)
            for row in rows:
                table.add_row(*map(Text, row))
            yield table
        yield from super().get_renderables()


class ProgressObserver:
    """Shows figures, round and times. Implements `skymark.execute.measurer.Observer`.

    A terminal has a table that fills as rounds end; elsewhere each round has a line. A quiet
    command shows bad cells only, a verbose one has the lines in a terminal, too.

    Args:
        console: where it is shown.
        expected_s: time that the run takes, as estimated.
        declaration: of the suite; None to show no figures.
    """

    def __init__(
        self, console: Console, expected_s: float, declaration: Declaration | None = None
    ) -> None:
        self._console = console
        self._standing = None if declaration is None else LiveStanding(declaration)
        self._progress = LiveProgress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=None),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeLeftColumn(expected_s),
            console=console,
            disable=is_quiet() or not console.is_terminal,
            transient=True,
            expand=True,
        )
        self._progress.standing = self._standing
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
        if not is_quiet():
            self._console.print(text, style="dim", highlight=False, markup=False, soft_wrap=True)

    def planned(self, steps: int) -> None:
        """Set the bar's length."""
        self._progress.reset(self._task, total=steps, description="measuring")

    def measuring(self, cell: Cell, round: int) -> None:
        """Show the cell and round under way."""
        text = f"round {round + 1}  {cell.label}  {cell.adapter}"
        self._progress.update(self._task, description=text)

    def measured(self, cell: Cell, round: int, result: Round | None) -> None:
        """Move the bar, and show the round's figure."""
        del round
        if self._standing is not None and result is not None:
            said = self._standing.add(cell, result.metrics)
            has_lines = is_verbose() or not self._console.is_terminal
            if said is not None and has_lines and not is_quiet():
                self._console.print(said, highlight=False, markup=False, soft_wrap=True)
        self._progress.advance(self._task)
        task = self._progress.tasks[self._task]
        if task.total is not None and task.completed > task.total:  # more rounds than planned
            self._progress.update(self._task, total=task.completed)

    def ended(self, record: Record, *, rounds_left: int = 0) -> None:
        """Say how a cell ended, if it did not end well."""
        self._progress.advance(self._task, rounds_left)
        cause = record.cause.message.partition("\n")[0] if record.cause else ""
        if record.status is Status.SKIPPED or record.was_not_set_up:
            # One cause mostly stops all cells of an adapter.
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
