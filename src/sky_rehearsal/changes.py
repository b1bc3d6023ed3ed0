"""Changes that a rehearsal makes on this machine, with the proof that each was undone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from sky_rehearsal.requirements import RehearsalError

LOCK = Path("/run")
"""A directory that rehearsals of this machine lock, which leaves no trace."""

CLIENTS_GONE_TIMEOUT_S = 20.0


@dataclass
class Change:
    """A change of this machine. `undone` is None while it is in force."""

    what: str
    undone: bool | None = None
    problem: str | None = None


@dataclass
class Changes:
    """The record of all changes, and how to undo them, last change first."""

    record: list[Change] = field(default_factory=list)
    _steps: list[tuple[Change, Callable[[], object], Callable[[], bool]]] = field(
        default_factory=list
    )

    def add(self, what: str, undo: Callable[[], object], still_there: Callable[[], bool]) -> None:
        """Note a change before it is made.

        Args:
            what: the change in words, for the user.
            undo: takes it back; must be safe to call when the change was never made.
            still_there: whether any of it can still be seen on this machine.
        """
        change = Change(what)
        self.record.append(change)
        self._steps.append((change, undo, still_there))

    def undo_all(self) -> None:
        """Take everything back, last change first, and go on past failures.

        Raises:
            RehearsalError: something could not be taken back; the message names all of it.
        """
        while self._steps:
            change, undo, still_there = self._steps.pop()
            try:
                undo()
                change.undone = not still_there()
                change.problem = None if change.undone else "it is still there"
            # One failure must not keep the other changes; the record has it.
            except Exception as error:
                change.undone, change.problem = False, f"{type(error).__name__}: {error}"
        left = [change for change in self.record if change.undone is False]
        if left:
            each = "; ".join(f"{change.what}: {change.problem}" for change in left)
            raise RehearsalError(
                f"the rehearsal left {len(left)} change(s) on this machine: {each}. "
                "Undo them by hand, or restart the machine"
            )

    def add_directory(self, directory: Path) -> None:
        """Note a directory that will be made."""
        self.add(
            f"directory {directory}",
            undo=partial(shutil.rmtree, directory, ignore_errors=True),
            still_there=directory.exists,
        )

    def add_clients(self, home: Path) -> None:
        """Note the processes with `home` as home directory: SkyPilot's watchers linger for 30 s."""
        self.add(
            f"processes of SkyPilot's clients, whose home is {home}",
            undo=partial(end_processes_at_home, home),
            still_there=lambda: bool(processes_at_home(home)),
        )


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """Wait for this machine's other rehearsals that begin or end."""
    directory = os.open(LOCK, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield
    finally:
        os.close(directory)


def processes_at_home(home: Path) -> list[psutil.Process]:
    """Return the processes that were started with `home` as their home directory."""
    return [process for process in psutil.process_iter() if _home_of(process) == os.fspath(home)]


def end_processes_at_home(home: Path) -> None:
    """Kill the processes that were started with `home` as their home directory.

    Returns when they have ended, or after a while: their parents may still wait for their status.
    """
    deadline = time.monotonic() + CLIENTS_GONE_TIMEOUT_S
    while (left := processes_at_home(home)) and time.monotonic() < deadline:
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        time.sleep(0.02)


def _home_of(process: psutil.Process) -> str | None:
    try:
        home: str | None = process.environ().get("HOME")
    except psutil.Error:
        return None
    return home
