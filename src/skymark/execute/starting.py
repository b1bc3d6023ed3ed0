"""Starts of worker processes, alone or forked from a parent, and the logs of their output.

An import takes seconds, and each round needs a process that has measured nothing. A parent imports
the library once and is forked for each round, where `skymark.execute.worker` finds no obstacle. A
parent that cannot be forked serves the first round itself, and the next round gets another parent.

A worker prints into a pipe that the engine reads. So no library can fill the disk with its output.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from skymark.execute.messages import NEWS, Begin, Serve, Serving, WorkerEnded, line_of
from skymark.machine.children import (
    PARENT_VARIABLE,
    WORKER_PATH_VARIABLE,
    absolute_path,
    worker_variables,
)
from skymark.machine.private_directory import closed_umask
from skymark.machine.processes import MARKER_VARIABLE, kill_tree
from skymark.model.machine import Platform
from skymark.model.record import Cell

HEAD_BYTES = 1 << 20
TAIL_BYTES = 1 << 20
MOST_BYTES = 4 << 20
"""Of a log; a longer one is cut down to its head and its tail."""

READ_BYTES = 1 << 16
PIPE_BYTES = 1 << 20
"""Output that waits while the engine is busy."""

LEAVE_S = 1.0
"""Time that is waited for processes to let go of their pipe."""

OPENING = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW

LEFT_OUT = re.compile(rb"\n\[skymark left out ([\d,]+) bytes here; .*\]\n")


class CappedLog:
    """A log of bounded size, which this process alone writes to."""

    def __init__(self, path: Path) -> None:
        """Open a log to append to; made if absent."""
        self.path = path
        self._file = os.open(path, OPENING, 0o644)
        self._size = os.fstat(self._file).st_size

    def write(self, data: bytes) -> None:
        """Append data, and cut the middle out of a log that is too long.

        Raises:
            OSError: the disk refused it.
        """
        while data:
            written = os.write(self._file, data)
            data, self._size = data[written:], self._size + written
        if self._size > MOST_BYTES:
            self._shorten()

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def _shorten(self) -> None:
        tail = os.pread(self._file, TAIL_BYTES, self._size - TAIL_BYTES)
        left_out = self._size - HEAD_BYTES - len(tail)
        if before := LEFT_OUT.match(os.pread(self._file, READ_BYTES, HEAD_BYTES)):
            left_out += int(before[1].replace(b",", b"")) - len(before[0])
        line = f"\n[skymark left out {left_out:,} bytes here; it keeps a log's beginning and end]\n"
        os.ftruncate(self._file, HEAD_BYTES)
        self._size = HEAD_BYTES
        self.write(line.encode() + tail)


class WorkerOutput:
    """The pipe that a worker's processes print into, and the log of the cell that they serve."""

    def __init__(self, log: Path) -> None:
        """Make the pipe; a thread reads it until all its writers have ended.

        Args:
            log: of the first cell.

        Raises:
            OSError: the log cannot be written.
        """
        self._log = CappedLog(log)
        self._read, self.descriptor = os.pipe()
        """Second, the end that a worker inherits."""
        with suppress(AttributeError, OSError):  # a smaller one serves, too
            fcntl.fcntl(self._read, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._read, False)
        self._turn = threading.Lock()
        self._has_ended = False
        self._thread = threading.Thread(target=self._pump, name="worker-output", daemon=True)
        self._thread.start()

    @contextmanager
    def handed_over(self) -> Iterator[None]:
        """Leave the pipe's end to the worker that is started in the context, or close the pipe."""
        started = False
        try:
            yield
            started = True
        finally:
            os.close(self.descriptor)
            if not started:
                self.close()

    def turn_to(self, log: Path) -> None:
        """Send further output to another cell's log, if that can be written."""
        with self._turn, suppress(OSError):
            self._take()
            if not self._has_ended and log != self._log.path:
                other = CappedLog(log)
                self._log.close()
                self._log = other

    def flush(self) -> None:
        """Write all output in the pipe to the log."""
        with self._turn:
            self._take()

    def close(self) -> None:
        """Write the remaining output of ended processes."""
        self.flush()
        self._thread.join(LEAVE_S)

    def _pump(self) -> None:
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        while not self._has_ended:
            poll.poll()
            with self._turn:
                self._take()
        os.close(self._read)
        self._log.close()

    def _take(self) -> None:
        """Read as much as the pipe may hold. Output that the disk refuses is lost."""
        for _ in range(0 if self._has_ended else PIPE_BYTES // READ_BYTES):
            try:
                data = os.read(self._read, READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self._has_ended = True
                return
            with suppress(OSError):
                self._log.write(data)


PARENT_GRACE_S = 5.0
"""Time a parent has to leave by itself."""

PACKET_BYTES = 1 << 16


@dataclass(frozen=True)
class WorkerKind:
    """The interpreter, code and device of a worker; workers of one kind are interchangeable."""

    python: Path
    """Its interpreter."""
    runner: str
    """``module:Class`` of its suite's worker side, or of its judge."""
    cache: Path
    """Directory of the data."""
    import_root: Path | None = None
    """The directory to import skymark and the suite from; None if they are installed."""
    platform: Platform = "cpu"
    """The platform of its accelerator."""


def launched(
    kind: WorkerKind,
    marker: str,
    output: WorkerOutput,
    options: Sequence[str],
    descriptors: Sequence[int],
) -> subprocess.Popen[bytes]:
    """Start a worker process in a session of its own.

    Args:
        kind: interpreter, code and device.
        marker: unique mark of its processes.
        output: pipe for its output.
        options: options of its command line, with its descriptors.
        descriptors: descriptors to inherit.

    Raises:
        OSError: there is no such interpreter, or it cannot be started.
    """
    variables = {
        **worker_variables(),
        MARKER_VARIABLE: marker,
        PARENT_VARIABLE: str(os.getpid()),
        "PYTHONUNBUFFERED": "1",
    }
    own_modules = absolute_path(os.environ.get(WORKER_PATH_VARIABLE, ""))
    root = "" if kind.import_root is None else os.fspath(kind.import_root.absolute())
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, (root, own_modules)))
    command = [
        os.fspath(kind.python),
        "-P",  # else modules in the current directory would come before all others
        *("-m", "skymark.execute.worker", *options),
        *("--runner", kind.runner, "--cache", os.fspath(kind.cache)),
    ]
    with output.handed_over():
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output.descriptor,
            stderr=subprocess.STDOUT,
            pass_fds=descriptors,
            env=variables,
            start_new_session=True,
            umask=closed_umask(),  # it writes compiled modules, which this user's workers share
        )


class WorkerParent:
    """A process that makes a runner, and forks it for each requested worker."""

    def __init__(self, kind: WorkerKind, cell: Cell, log: Path) -> None:
        """Start it; it imports the library in the background.

        Args:
            kind: interpreter, code and device.
            cell: any cell of its workers' group.
            log: file for its output.

        Raises:
            OSError: there is no such interpreter, or it cannot be started.
        """
        self.id = uuid.uuid4().hex
        self.obstacle: str | None = None
        """Reason why it cannot be forked; None if no reason is known."""
        self.has_forked = False
        self.has_measured = False
        """Whether any of its workers has got a request to measure."""
        self.output = WorkerOutput(log)
        """Output of the parent and of its worker."""
        self._worker: ForkedWorker | None = None
        """Its latest worker."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            control = ("--control", str(theirs.fileno()))
            self.process = launched(kind, self.id, self.output, control, (theirs.fileno(),))
        except OSError:
            self._socket.close()
            raise
        finally:
            theirs.close()
        with suppress(OSError):  # `serve` reports its death
            self._socket.send(line_of(Begin(cell=cell, platform=kind.platform)).encode())

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    @property
    def is_running(self) -> bool:
        """Whether it is alive."""
        return self.process.poll() is None

    @property
    def can_serve(self) -> bool:
        """Whether it is alive without a known obstacle to another worker."""
        return self.is_running and self.obstacle is None

    @property
    def is_in_use(self) -> bool:
        """Whether its worker runs."""
        return self._worker is not None and self._worker.poll() is None

    def serve(self, log: Path, receive: int, send: int) -> ForkedWorker:
        """Request a worker, which begins when the library is imported; one at a time.

        Args:
            log: file for its output.
            receive: descriptor of the worker's requests.
            send: descriptor of the worker's answers.

        Raises:
            OSError: the parent has died.
        """
        self.output.turn_to(log)
        packet = line_of(Serve(first=not self.has_measured)).encode()
        socket.send_fds(self._socket, [packet], [receive, send])
        self._worker = ForkedWorker(self)
        return self._worker

    def news(self, timeout_s: float) -> Serving | WorkerEnded | None:
        """Return its next message; None if none comes in time.

        Raises:
            EOFError: it has ended.
        """
        self._socket.settimeout(timeout_s)
        try:
            packet = self._socket.recv(PACKET_BYTES)
        except (TimeoutError, BlockingIOError):
            return None
        except OSError as error:
            raise EOFError from error
        if not packet:
            raise EOFError
        return NEWS.validate_json(packet)

    def end(self) -> tuple[str, ...]:
        """End it and its remaining processes; safe to call again.

        Returns:
            The processes that it left running.
        """
        self._socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PARENT_GRACE_S if self.has_forked else 0)
        left = kill_tree(self.pid, marker=self.id)
        self.process.wait()
        self.output.close()
        return left


class ForkedWorker:
    """The process of a parent's worker, with the methods of `subprocess.Popen`."""

    def __init__(self, parent: WorkerParent) -> None:
        self.parent = parent
        self.returncode: int | None = None
        self.lost_parent = False
        """Whether it ended because its parent did."""
        self._serving: Serving | None = None

    @property
    def is_forked(self) -> bool:
        """Whether the worker runs beside its parent, as a process of its own."""
        return self._serving is not None and self._serving.obstacle is None

    @property
    def pid(self) -> int:
        """Its process id; the parent's before it begins, or if the parent serves itself."""
        self.poll()
        return self.parent.pid if self._serving is None else self._serving.pid

    def kill(self) -> None:
        """End it at once, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def poll(self) -> int | None:
        """Return its exit status, or less than 0 for a signal; None while it runs."""
        return self._ended_within(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and return as `poll`.

        Raises:
            TimeoutExpired: it has not in this time.
        """
        limit_s = float("inf") if timeout is None else timeout
        deadline = time.monotonic() + limit_s
        while (code := self._ended_within(min(1.0, max(0.0, deadline - time.monotonic())))) is None:
            if time.monotonic() >= deadline:
                raise subprocess.TimeoutExpired("skymark.execute.worker", limit_s)
        return code

    def _ended_within(self, timeout_s: float) -> int | None:
        while self.returncode is None:
            try:
                told = self.parent.news(timeout_s)
            except EOFError:
                with suppress(subprocess.TimeoutExpired):
                    # Its end of the socket closes shortly before it becomes reapable.
                    self.returncode = self.parent.process.wait(timeout_s)
                    self.lost_parent = self.is_forked
                break
            match told:
                case Serving():
                    self._serving = told
                    self.parent.obstacle = told.obstacle
                    self.parent.has_forked = told.obstacle is None
                case WorkerEnded():
                    self.returncode = told.code
                case None:
                    break
        return self.returncode
