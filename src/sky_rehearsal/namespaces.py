"""Processes that run in kernel namespaces of their own, seen from outside."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

from sky_rehearsal.requirements import RehearsalError

GONE_TIMEOUT_S = 20.0
"""Time the kernel has to end a namespace whose first process was killed."""


class Namespaced:
    """A program of this package as the first process of new namespaces.

    Args:
        kinds: options of `unshare` for the kinds of namespaces, such as ``--net``.
        program: the file to run, with this Python.
        spec: the program's only argument, a JSON file.
        log: for the errors of the program and its children.
    """

    def __init__(self, kinds: tuple[str, ...], program: Path, spec: Path, log: Path) -> None:
        command = ["unshare", *kinds, "--mount", "--pid", "--fork", "--kill-child=SIGKILL"]
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--", sys.executable, "-I", os.fspath(program), os.fspath(spec)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self._log = log
        self._pid_namespace: int | None = None
        """Descriptor of its file: while it is open, no other namespace gets its number."""

    @property
    def pid(self) -> int:
        """The process outside that holds the namespaces."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process.poll() is None

    def expect(self, word: str) -> None:
        """Wait until the program says `word`.

        Raises:
            RehearsalError: it ended instead.
        """
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode().strip()
        if line != word:
            self.kill()
            tail = self._log.read_text(errors="replace")[-2000:].strip()
            raise RehearsalError(f"{self._log.stem} did not get to {word!r}: {tail or 'no words'}")
        self._hold_namespace()

    def tell(self) -> None:
        """Let the program go on."""
        stdin: IO[bytes] | None = self._process.stdin
        assert stdin is not None
        stdin.write(b"go\n")
        stdin.flush()

    def kill(self) -> None:
        """End every process in the namespaces; safe to call again.

        Raises:
            RehearsalError: a process still runs after `GONE_TIMEOUT_S`.
        """
        self._hold_namespace()
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        if self._pid_namespace is None:
            return
        deadline = time.monotonic() + GONE_TIMEOUT_S
        while left := _processes_in(self._pid_namespace):
            if time.monotonic() > deadline:
                raise RehearsalError(f"processes {left} of {self._log.stem} cannot be ended")
            time.sleep(0.02)
        os.close(self._pid_namespace)
        self._pid_namespace = None

    def _hold_namespace(self) -> None:
        if self._pid_namespace is not None or not self.alive:
            return
        outside = self._process.pid
        with contextlib.suppress(OSError, ValueError):  # its child has not begun, or has ended
            child, *_ = Path(f"/proc/{outside}/task/{outside}/children").read_text().split()
            self._pid_namespace = os.open(f"/proc/{child}/ns/pid", os.O_RDONLY)


def _processes_in(namespace: int) -> list[int]:
    """Return the processes of a PID namespace, given by its open file."""
    number = os.fstat(namespace).st_ino
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _namespace_of(pid) == number]


def _namespace_of(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/pid").stat().st_ino
    except OSError:
        return None
