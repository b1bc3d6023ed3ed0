"""First process of a namespace: runs one command, and ends with its parent.

Run by path as ``python namespace_keeper.py SPEC.json``, in namespaces that `unshare` made. When
it ends, the kernel ends every process of the PID namespace and drops its mounts and network, so
nothing of it can be left behind. It ends when its standard input is closed, which also happens
when the process that started it is killed.

Standard library only: the file runs without skymark.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path


def keep(command: list[str], variables: dict[str, str]) -> int:
    """Run a command as the namespace's only purpose; adopt and reap what it leaves.

    Returns:
        the command's exit status, or 0 if standard input was closed first.
    """
    child_ended, wake = os.pipe()
    os.set_blocking(wake, False)
    os.set_blocking(child_ended, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # Our own standard output is a pipe that nobody reads: who fills it stands still.
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=variables)
    while True:
        readable, _, _ = select.select([sys.stdin.fileno(), child_ended], [], [])
        if sys.stdin.fileno() in readable and not os.read(sys.stdin.fileno(), 4096):
            return 0
        with contextlib.suppress(BlockingIOError):
            os.read(child_ended, 4096)
        status = _reap(process.pid)
        if status is not None:
            return status


def _reap(main_pid: int) -> int | None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 1
        if pid == 0:
            return None
        if pid == main_pid:
            return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Bind the named files over this namespace's own, then run the command."""
    spec = json.loads(Path(sys.argv[1]).read_text())
    for target, source in spec["binds"].items():
        subprocess.run(["mount", "--bind", source, target], check=True)
    sys.exit(keep(spec["command"], spec["variables"]))


if __name__ == "__main__":
    main()
