"""The end of a worker process that does not take its interpreter apart."""

from __future__ import annotations

import atexit
import os
import sys
from typing import NoReturn


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
