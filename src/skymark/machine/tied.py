"""Processes that end with another: programs with this process, a worker with its parent."""

from __future__ import annotations

import atexit
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from skymark.machine.private_directory import closed_umask

KEEPER = Path(__file__).with_name("keeper.py")
KEPT_BYTES = 1 << 16
"""Largest kept end of a program's output."""
LOOK_S = 1.0
"""Interval of checks whether a silent program has ended."""


def run_tied(
    command: Sequence[str],
    variables: Mapping[str, str],
    directory: Path | None = None,
    limit_s: float | None = None,
    *,
    shows: bool = False,
    umask: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, and end its remaining processes.

    Args:
        command: the program with its arguments.
        variables: its complete environment.
        directory: its working directory; None for this process's.
        limit_s: longest time; None for no limit.
        shows: whether it writes to this process's output, and none is returned.
        umask: of its files; None for this process's, without write permission for all users.

    Returns:
        Its exit status, 128 and the number for a signal, and the end of its output, standard error
        included.

    Raises:
        subprocess.TimeoutExpired: it took longer and was ended; the error has the end of the
            output.
    """
    with subprocess.Popen(
        tied(command),
        env=variables,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=None if shows else subprocess.PIPE,
        stderr=None if shows else subprocess.STDOUT,
        umask=closed_umask() if umask is None else umask,
    ) as process:
        try:
            output = _awaited(process, limit_s)
        except BaseException:
            process.terminate()
            raise
    return subprocess.CompletedProcess(command, process.returncode, output)


def tied(command: Sequence[str]) -> Sequence[str]:
    """Return a command whose process tree ends with the thread that starts it (on Linux).

    It also ends when its process gets a request to terminate.
    """
    if sys.platform != "linux":
        return command
    return [sys.executable, "-IS", os.fspath(KEEPER), str(os.getpid()), *command]


def _awaited(process: subprocess.Popen[bytes], limit_s: float | None) -> str:
    """Wait until a process has ended and return the end of its output."""
    deadline = float("inf") if limit_s is None else time.monotonic() + limit_s
    printed, poll = b"", select.poll()
    if process.stdout is not None:
        poll.register(process.stdout, select.POLLIN)
    while True:
        wait_s = max(0.0, min(LOOK_S, deadline - time.monotonic()))
        if process.stdout is None:
            try:
                process.wait(wait_s)
                break
            except subprocess.TimeoutExpired:
                pass
        elif poll.poll(wait_s * 1000):
            data = os.read(process.stdout.fileno(), KEPT_BYTES)
            printed = (printed + data)[-KEPT_BYTES:]
            if not data:
                process.wait()
                break
        elif process.poll() is not None:
            break
        if time.monotonic() >= deadline:
            output = printed.decode(errors="replace")
            raise subprocess.TimeoutExpired(process.args, limit_s or 0.0, output=output)
    return printed.decode(errors="replace")


PARENT_VARIABLE = "SKYMARK_WORKER_PARENT"
"""Environment variable with the engine's process id; the engine may end while a worker starts."""


def leave() -> NoReturn:
    """End this process after the libraries' exit handlers have run.

    Python would also destroy every module and object: half a second of CPU time for PyTorch, more
    than a second for MosaicML Streaming. Running threads end with the process.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run them
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, even if that was killed (prctl(2)).

    Otherwise an adapter that hangs would live on and disturb the next measurement. A fork has to
    request it again.

    Args:
        parent: the process id of the parent, which may have ended already.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
