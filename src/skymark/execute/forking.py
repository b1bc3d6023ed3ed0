"""The parent of workers: makes the runner, and forks a process for each worker.

It runs in the adapter's venv. A fork copies a process's memory, and of its threads only the caller.
A parent with other threads therefore serves the first worker itself. `obstacle` has all conditions.
"""

from __future__ import annotations

import os
import socket
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from skymark.execute.messages import Ended, Serving, line_of, parse_serve
from skymark.machine.leaving import die_with
from skymark.machine.mapped_files import MappedFiles

PACKET_BYTES = 1 << 16
DESCRIPTORS = 2
"""Of a worker's two pipes, which come with a request."""
PROCESS = Path("/proc/self")
DEVICES = ("/dev/nvidia", "/dev/accel", "/dev/vfio", "/dev/dri", "/dev/kfd")
"""Beginnings of the device files of accelerators."""
KERNEL_OBJECTS = ("socket:", "anon_inode:")
"""Beginnings of descriptors that all forks would share: connections and event queues."""


class Asked(NamedTuple):
    """Pipes of a new worker."""

    receive: int
    """The descriptor of the pipe with requests."""
    send: int
    """The descriptor of the pipe for answers."""


class Parent:
    """Forks workers, one after the other, each from the same state."""

    def __init__(self, control: socket.socket, works: Any) -> None:
        """Get ready to be asked.

        Args:
            control: the engine's requests come from here.
            works: the runner; None where it could not be made.
        """
        self._control = control
        self._works = works

    def next_worker(self) -> Asked | None:
        """Return a worker's pipes in the worker's process; None in the parent at the end.

        Returns once in each fork. A parent that cannot be forked returns as the worker itself.
        """
        hindered = obstacle(self._works, self._control.fileno())
        files = MappedFiles() if hindered is None else None
        if files is not None:
            files.drop()
        while True:
            packet, descriptors, _, _ = socket.recv_fds(self._control, PACKET_BYTES, DESCRIPTORS)
            if not packet:
                return None
            request = parse_serve(packet)
            asked = Asked(*descriptors)
            if files is None:
                self._tell(Serving(pid=os.getpid(), obstacle=hindered))
                return asked
            parent = os.getpid()
            if (pid := os.fork()) == 0:
                os.setsid()
                die_with(parent)
                files.map_again()
                self._works.forked(first=request.first)
                self._tell(Serving(pid=os.getpid()))
                self._control.close()
                return asked
            os.close(asked.receive)
            os.close(asked.send)
            _, status = os.waitpid(pid, 0)
            self._tell(Ended(code=os.waitstatus_to_exitcode(status)))

    def _tell(self, news: Serving | Ended) -> None:
        self._control.send(line_of(news).encode())


def obstacle(works: Any, control: int) -> str | None:
    """Return the reason not to fork this process after its import; None where there is none.

    Args:
        works: the runner; its `forks` says whether its library allows it.
        control: the descriptor of the engine's socket, which does not count.
    """
    if sys.platform != "linux":
        return f"forks are not tried on {sys.platform}"
    if works is None or not getattr(works, "forks", False):
        return "its library does not allow it"
    if held := [one for one in _descriptors(control) if one.startswith(DEVICES + KERNEL_OBJECTS)]:
        return f"the import opened {', '.join(sorted(set(held)))}"
    if _has_children():
        return "the import started a process"
    _fork_and_end()
    if threads := len(list((PROCESS / "task").iterdir())) - 1:
        return f"the import started {threads} thread(s)"
    return None


def _descriptors(control: int) -> list[str]:
    """Return what this process has open, besides the engine's socket."""
    found = []
    for one in (PROCESS / "fd").iterdir():
        try:
            if int(one.name) != control:
                found.append(str(one.readlink()))
        except OSError:  # the descriptor by which the folder is read
            continue
    return found


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _fork_and_end() -> None:
    """Fork once for nothing: a thread pool that survives forks, such as OpenBLAS's, ends before."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (pid := os.fork()) == 0:
            os._exit(0)
    os.waitpid(pid, 0)
