"""Leftovers of killed rehearsals, which the next rehearsal removes.

Machines and SkyPilot end with the process that started them, however it ends. A bridge, rules of
iptables, directories and files do not: a note in ``/run`` names their owner.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import FrameType

import psutil

from sky_rehearsal.changes import Changes, one_at_a_time
from sky_rehearsal.network import remove_network

NOTES = Path("/run/sky-rehearsals")


@dataclass(frozen=True)
class Note:
    """Possessions of one rehearsal on this machine, for the next one if this one is killed.

    Attributes:
        pid: the process that holds it.
        started_s: start of that process, in seconds since 1970.
        bridge: the name of its network bridge.
        directories: its own.
        files: written by every rehearsal; the last one to end removes them.
    """

    pid: int
    started_s: float
    bridge: str
    directories: Sequence[str]
    files: Sequence[str] = ()

    @property
    def path(self) -> Path:
        """The file of the note."""
        return NOTES / f"{self.bridge}.json"

    @property
    def runs(self) -> bool:
        """Whether the rehearsal's process is still there."""
        try:
            return bool(abs(psutil.Process(self.pid).create_time() - self.started_s) < 1.0)
        except psutil.NoSuchProcess:
            return False

    def write(self) -> None:
        """Write it whole."""
        NOTES.mkdir(exist_ok=True)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text(json.dumps(asdict(self)))
        unfinished.rename(self.path)

    def give_up(self) -> None:
        """Remove the rehearsal, and its files unless another rehearsal uses them."""
        self.path.unlink(missing_ok=True)
        for file in set(self.files) - _owned():
            Path(file).unlink(missing_ok=True)
        if NOTES.exists() and not any(NOTES.iterdir()):
            NOTES.rmdir()

    def is_left(self) -> bool:
        """Whether it, or a file of it that no other rehearsal has, is still there."""
        return self.path.exists() or any(Path(file).exists() for file in set(self.files) - _owned())


@one_at_a_time()
def note_rehearsal(
    bridge: str, directories: Sequence[Path], files: Sequence[Path], changes: Changes
) -> None:
    """Note the possessions of this process's rehearsal, before it has them.

    Args:
        bridge: the name of its network bridge.
        directories: its own.
        files: files that every rehearsal writes. Files from before any rehearsal stay.
        changes: undoes the note, and the files unless another rehearsal runs.
    """
    owner, theirs = psutil.Process(), _owned()
    note = Note(
        pid=owner.pid,
        started_s=owner.create_time(),
        bridge=bridge,
        directories=[str(directory) for directory in directories],
        files=[str(file) for file in files if not file.exists() or str(file) in theirs],
    )
    changes.add(
        f"files {', '.join((str(note.path), *note.files))}",
        undo=one_at_a_time()(note.give_up),
        still_there=one_at_a_time()(note.is_left),
    )
    note.write()


@one_at_a_time()
def remove_leftovers() -> list[str]:
    """Remove the possessions of rehearsals whose process is gone; return their bridges' names."""
    removed = []
    for note in _notes():
        if note.runs:
            continue
        for directory in note.directories:
            shutil.rmtree(directory, ignore_errors=True)
        remove_network(note.bridge)
        note.give_up()
        removed.append(note.bridge)
    return removed


@contextmanager
def undone_when_told_to_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as an exception does, so that `finally` is reached.

    Only in the main thread, and only for signals that have no handler yet.
    """

    def leave(number: int, _: FrameType | None) -> None:
        raise SystemExit(128 + number)

    taken = []
    if threading.current_thread() is threading.main_thread():
        signals = (signal.SIGTERM, signal.SIGHUP)
        taken = [number for number in signals if signal.getsignal(number) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _notes() -> list[Note]:
    """Return all notes; an earlier or a later version of this package may have written them."""
    known = {field.name for field in fields(Note)}
    texts = [json.loads(path.read_bytes()) for path in NOTES.glob("*.json")]
    return [Note(**{name: text[name] for name in known & text.keys()}) for text in texts]


def _owned() -> set[str]:
    """Return the files of all rehearsals that run."""
    return {file for note in _notes() if note.runs for file in note.files}
