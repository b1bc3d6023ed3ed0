"""Logs of cells: the output of a worker's processes, with its beginning and its end.

A worker prints into a pipe that the engine reads. So no library can fill the disk with its output.
"""

from __future__ import annotations

import fcntl
import os
import re
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

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
