"""Changes that a rehearsal makes on this machine, with the proof that each was undone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from skymark.cloud.rehearsal.errors import RehearsalError


@dataclass
class Change:
    """One thing that was changed. `undone` is None while it is in force."""

    what: str
    undone: bool | None = None
    problem: str | None = None


@dataclass
class _Step:
    change: Change
    undo: Callable[[], None]
    still_there: Callable[[], bool]


@dataclass
class Changes:
    """The record of what was changed, and how to undo it, last change first."""

    record: list[Change] = field(default_factory=list)
    _steps: list[_Step] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def add(self, what: str, undo: Callable[[], None], still_there: Callable[[], bool]) -> Change:
        """Note a change before it is made.

        Args:
            what: the change in words, as a user reads it.
            undo: takes it back; must be safe to call when the change was never made.
            still_there: whether any of it can still be seen on this machine.
        """
        with self._lock:
            change = Change(what)
            self.record.append(change)
            self._steps.append(_Step(change, undo, still_there))
            return change

    def undo(self, change: Change) -> None:
        """Take one change back now, and check that it is gone. Does nothing the second time."""
        with self._lock:
            step = next((one for one in self._steps if one.change is change), None)
            if step is None:
                return
            self._steps.remove(step)
        _take_back(step)

    def undo_all(self) -> None:
        """Take everything back, last change first, and go on past what fails.

        Raises:
            RehearsalError: something could not be taken back; the message names all of it.
        """
        while True:
            with self._lock:
                if not self._steps:
                    break
                step = self._steps.pop()
            _take_back(step)
        left = [change for change in self.record if change.undone is False]
        if left:
            each = "; ".join(f"{change.what}: {change.problem}" for change in left)
            raise RehearsalError(
                f"the rehearsal left {len(left)} change(s) on this machine: {each}. "
                "Undo them by hand, or restart the machine"
            )


def _take_back(step: _Step) -> None:
    try:
        step.undo()
        still_there = step.still_there()
    # Whatever went wrong with one change, the others are to be taken back; the record keeps it.
    except Exception as error:
        step.change.undone, step.change.problem = False, f"{type(error).__name__}: {error}"
        return
    step.change.undone = not still_there
    step.change.problem = "it is still there" if still_there else None
