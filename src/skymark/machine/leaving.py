"""The end of a worker process: with its parent, and without taking its interpreter apart."""

from __future__ import annotations

import atexit
import ctypes
import os
import signal
import sys
from typing import NoReturn

PARENT_VARIABLE = "SKYMARK_WORKER_PARENT"
"""Environment variable with the process id of the engine, which may end while a worker starts."""


def leave() -> NoReturn:
    """End this process when what libraries registered for its end has run.

    Python would take every module and object apart, too, which takes the longer, the more was
    imported: half a second of CPU time for PyTorch, more than one for MosaicML Streaming.
    Threads that still run end with it.
    """
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run them
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def die_with(parent: int) -> None:
    """Have the kernel end this process when its parent ends, even if that was killed (prctl(2)).

    Else an adapter that hangs would live on, and disturb whatever is measured next. A fork has to
    ask for it anew.

    Args:
        parent: the process id of the parent, which may have ended already.
    """
    if sys.platform != "linux":
        return
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)
