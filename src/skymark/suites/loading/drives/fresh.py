"""A loader in a fresh Python process of its own, driven from here: ranks, resuming, device meshes.

`multiprocessing` would import the caller's main module again; this starts a plain interpreter
instead, as ``torchrun`` and schedulers do, and speaks with it over one socket.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import skymark
from skymark.model.errors import SkymarkError
from skymark.suites.loading.step.consumption import Consumption

if TYPE_CHECKING:
    from skymark.measure.loop import Pass
    from skymark.model.record import Cause
    from skymark.suites.loading.adapter import LoadingJob

POLL_S = 0.2
"""Time between two checks that a silent process is still alive."""
EXIT_TIMEOUT_S = 10.0


class FreshProcessError(SkymarkError):
    """A loader in a process of its own failed there, or its process died."""

    exit_code = 1


@dataclass(frozen=True)
class PassOrder:
    """One timed pass, to be run in another process."""

    epoch: int
    kept: int
    """Number of whole batches to send back."""
    stop_after_ns: int
    state: bytes | None = None
    """Position to resume the epoch from, None for its start."""
    skip: int | None = None
    """Number of batches to skip (ability ``seek``), None for an ordinary epoch."""
    most: int | None = None
    """Most batches of the pass, None for all batches of the epoch."""
    save_after: int | None = None
    """Batches of the pass after which to save the position; None not to."""


@dataclass(frozen=True)
class RemotePass:
    """The result of a pass in another process, its arrays in NumPy's form.

    `begin_ns` and `end_ns` are of the system-wide monotonic clock, so ranks can be compared.
    """

    done: Pass
    begin_ns: int
    end_ns: int
    devices: int | None = None
    """Number of devices with parts of the batches, None for batches on the host."""
    places: frozenset[str] = frozenset()
    """Devices of the kept batches."""
    fault: str | None = None
    """Fault of the batches' devices, None without one."""
    arrival_fault: Cause | None = None
    """Fault of the first unusable batch."""
    state: bytes | None = None
    """The saved position; None if none was saved."""


class FreshLoader:
    """A loader in a fresh process. Use as a context manager.

    Starting returns at once, so that several import their library at the same time. Each request
    is sent by one method and its answer awaited by `answer`, so that several work at once, too.
    """

    def __init__(self, reference: str, variables: Mapping[str, str]) -> None:
        self._connection, theirs = Pipe()
        import_root = os.fspath(Path(skymark.__file__).parents[1])
        paths = [import_root, *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [sys.executable, "-P", "-m", "skymark.suites.loading.drives.fresh_main"]
        self._process = subprocess.Popen(
            [*command, str(theirs.fileno()), reference],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(),),
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **variables},
        )
        theirs.close()

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def answer(self) -> Any:
        """Wait for the answer to the oldest request; the first is the import, in seconds.

        Raises:
            FreshProcessError: the request failed there, or the process died.
        """
        return receive(self._connection, self._process)

    def open(
        self,
        job: LoadingJob,
        consumption: Consumption,
        *,
        mesh: bool = False,
    ) -> None:
        """Request a loader and the consumption of its batches; the answer is `setup_s`.

        On a `mesh`, batches go to devices.
        """
        self._connection.send(("open", (job, consumption, mesh)))

    def run(self, order: PassOrder) -> None:
        """Request one timed pass; the answer is a `RemotePass`."""
        self._connection.send(("run", (order,)))

    def close(self) -> None:
        """End the loader and its process; safe to call again."""
        if self._connection.closed:
            return
        with suppress(OSError):  # a dead process needs no message
            self._connection.send(None)
        self._connection.close()
        try:
            self._process.wait(EXIT_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def receive(connection: Connection[Any, Any], process: subprocess.Popen[bytes]) -> Any:
    """Wait for one answer of a fresh process.

    After its death, its library's own processes may hold the connection open, so the end of the
    connection alone does not reveal it.
    """
    while not connection.poll(POLL_S) and process.poll() is None:
        pass
    answer = None
    with suppress(EOFError, ConnectionResetError):
        answer = connection.recv() if connection.poll() else None
    if answer is None:
        raise FreshProcessError(
            f"a fresh process of the loader ended with status {process.wait()}; see the cell's log"
        )
    succeeded, value = answer
    if not succeeded:
        raise FreshProcessError(f"in a fresh process of the loader: {value}; see the cell's log")
    return value
