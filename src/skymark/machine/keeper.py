"""Keeper of a program: ends all its processes once the caller's process is gone.

It is run by its path, with the caller's process id and the command, and imports nothing of skymark.
A process that the program detached becomes the keeper's own child (prctl(2), Linux).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

PARENT_DEATH_SIGNAL = 1
CHILD_SUBREAPER = 36
TOLD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Signals that end the program, unless the caller's process ignores them."""


def main() -> NoReturn:
    """Run the program, end its other processes, and exit with its status, or 128 + its signal."""
    parent, *command = sys.argv[1:]
    prctl = ctypes.CDLL(None).prctl
    prctl(CHILD_SUBREAPER, 1)
    for number in TOLD:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)
    prctl(PARENT_DEATH_SIGNAL, signal.SIGTERM)
    if os.getppid() != int(parent):
        sys.exit(128 + signal.SIGTERM)
    # The kernel ends the program with its keeper, even if that was killed.
    try:
        program = subprocess.Popen(
            command,
            preexec_fn=lambda: prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL),  # noqa: PLW1509 - no threads
        )
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started: {error.strerror}")
    status = program.wait()
    end_children()
    os._exit(status if status >= 0 else 128 - status)


def leave(number: int, _: object) -> NoReturn:
    """End everything, and then this process with the signal's status."""
    end_children()
    os._exit(128 + number)


def end_children() -> None:
    """Kill this process's children until none is left. Orphans below become its children, too."""
    while True:
        for child in children():
            with suppress(PermissionError):  # another user's; it is waited for
                os.kill(child, signal.SIGKILL)
        try:
            os.wait()
        except ChildProcessError:
            return


def children() -> Iterator[int]:
    """Yield the ids of this process's children, ended ones too."""
    own = str(os.getpid()).encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            fields = (process / "stat").read_bytes().rpartition(b")")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if fields[1] == own:
            yield int(process.name)


if __name__ == "__main__":
    main()
