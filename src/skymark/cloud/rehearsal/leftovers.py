"""Leftovers of rehearsals that were killed, taken away by the next one.

Machines and SkyPilot end with the process that started them, whatever ends that. A bridge, rules
of iptables, directories and files do not; a note in ``/run`` tells whose they are.
"""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import psutil
from pydantic import ConfigDict

from skymark.cloud.rehearsal.changes import Changes
from skymark.cloud.rehearsal.network import one_at_a_time, remove_network
from skymark.model.base import Frozen
from skymark.plain_files import write_whole

NOTES = Path("/run/skymark-rehearsals")


class Note(Frozen):
    """What one rehearsal has on this machine; its skymark may be an earlier or a later one.

    Attributes:
        pid: the process that holds it.
        started_s: when that process started, in seconds since 1970.
        bridge: the name of its network bridge.
        directories: its own.
        files: written by every rehearsal; the last one to end removes them.
    """

    model_config = ConfigDict(extra="ignore")

    pid: int
    started_s: float
    bridge: str
    directories: tuple[Path, ...]
    files: tuple[Path, ...] = ()

    @property
    def path(self) -> Path:
        """Where it lies."""
        return NOTES / f"{self.bridge}.json"

    @property
    def runs(self) -> bool:
        """Whether the rehearsal's process is still there."""
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.started_s) < 1.0)
        except psutil.NoSuchProcess:
            return False


@one_at_a_time()
def note_rehearsal(
    bridge: str, directories: Sequence[Path], files: Sequence[Path], changes: Changes
) -> None:
    """Note what this process's rehearsal has, before it has it.

    Args:
        bridge: the name of its network bridge.
        directories: its own.
        files: what every rehearsal writes. Those that were there before any rehearsal stay.
        changes: undoes the note, and the files where no other rehearsal runs.
    """
    owner, theirs = psutil.Process(), _owned()
    note = Note(
        pid=owner.pid,
        started_s=owner.create_time(),
        bridge=bridge,
        directories=tuple(directories),
        files=tuple(file for file in files if not file.exists() or file in theirs),
    )
    changes.add(
        f"files {', '.join(map(str, (note.path, *note.files)))}",
        undo=partial(one_at_a_time()(_give_up), note),
        still_there=partial(one_at_a_time()(_is_left), note),
    )
    write_whole(note.path, note.model_dump_json().encode(), durable=False)


@one_at_a_time()
def remove_leftovers() -> list[str]:
    """Take away what rehearsals left whose process is gone; return their bridges' names."""
    removed = []
    for note in _notes():
        if note.runs:
            continue
        for directory in note.directories:
            shutil.rmtree(directory, ignore_errors=True)
        remove_network(note.bridge)
        _give_up(note)
        removed.append(note.bridge)
    return removed


@contextmanager
def undone_when_told_to_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does, so that `finally` is reached.

    Only in the main thread, and only where nobody handles them already.
    """

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = []
    if threading.current_thread() is threading.main_thread():
        signals = (signal.SIGTERM, signal.SIGHUP)
        taken = [one for one in signals if signal.getsignal(one) is signal.SIG_DFL]
    for one in taken:
        signal.signal(one, leave)
    try:
        yield
    finally:
        for one in taken:
            signal.signal(one, signal.SIG_DFL)


def _notes() -> list[Note]:
    return [Note.model_validate_json(path.read_bytes()) for path in NOTES.glob("*.json")]


def _owned() -> set[Path]:
    """Return the files that rehearsals which run have."""
    return {file for note in _notes() if note.runs for file in note.files}


def _give_up(note: Note) -> None:
    """Remove a note, and those of its files that no other rehearsal has."""
    note.path.unlink(missing_ok=True)
    for file in set(note.files) - _owned():
        file.unlink(missing_ok=True)
    if NOTES.exists() and not any(NOTES.iterdir()):
        NOTES.rmdir()


def _is_left(note: Note) -> bool:
    return note.path.exists() or any(file.exists() for file in set(note.files) - _owned())
