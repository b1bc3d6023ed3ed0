"""Leftovers of rehearsals that were killed, taken away by the next one.

Machines and SkyPilot end with the process that started them, whatever ends that. A bridge, rules
of iptables and directories do not; a note in ``/run`` tells whose they are.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FrameType

import psutil

from skymark.cloud.rehearsal.changes import Changes
from skymark.cloud.rehearsal.network import one_at_a_time, remove_network

NOTES = Path("/run/skymark-rehearsals")


@one_at_a_time()
def note_rehearsal(bridge: str, directories: list[Path], changes: Changes) -> None:
    """Note what this process's rehearsal has, before it has it."""
    note = NOTES / f"{bridge}.json"
    changes.add(
        f"file {note}",
        undo=partial(one_at_a_time()(_remove_note), note),
        still_there=note.exists,
    )
    NOTES.mkdir(exist_ok=True)
    owner = psutil.Process()
    text = {
        "pid": owner.pid,
        "started_s": owner.create_time(),
        "bridge": bridge,
        "directories": [os.fspath(directory) for directory in directories],
    }
    note.write_text(json.dumps(text))


@one_at_a_time()
def remove_leftovers() -> list[str]:
    """Take away what rehearsals left whose process is gone; return their bridges' names."""
    removed = []
    for note in NOTES.glob("*.json"):
        left = json.loads(note.read_text())
        if _runs(left["pid"], left["started_s"]):
            continue
        for directory in left["directories"]:
            shutil.rmtree(directory, ignore_errors=True)
        remove_network(left["bridge"])
        _remove_note(note)
        removed.append(left["bridge"])
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


def _runs(pid: int, started_s: float) -> bool:
    try:
        return bool(abs(psutil.Process(pid).create_time() - started_s) < 1.0)
    except psutil.NoSuchProcess:
        return False


def _remove_note(note: Path) -> None:
    note.unlink(missing_ok=True)
    if NOTES.exists() and not any(NOTES.iterdir()):
        NOTES.rmdir()
