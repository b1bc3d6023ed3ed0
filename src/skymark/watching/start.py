"""The start of a watch inside a program that `skymark watch` runs: imported by `sitecustomize`."""

from __future__ import annotations

import atexit
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from skymark.watching.attach import attach
from skymark.watching.recorder import BATCHES, FOLDER, LOOP, Recorder, start

STARTED_HERE = "started"
"""File that says that a Python of the program is under watch."""
STARTED = ("--multiprocessing-fork", "default_worker.py")
"""Words in the commands of worker processes."""


def attach_program(folder: str) -> None:
    """Watch this process, if it is of a program under watch.

    Args:
        folder: on the module path, from which this was imported; it is taken off the path.
    """
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    into = os.environ.get(FOLDER)
    if into and os.path.isdir(into):
        with open(os.path.join(into, STARTED_HERE), "ab"):
            pass  # a signal may end the program before anything else is written
        batches = os.environ.get(BATCHES, "")
        watch = start(into, int(batches) if batches.isdigit() else None)
        attach()
        loop = os.environ.get(LOOP, "")
        watch.made_for = int(loop) if loop.isdigit() else None
        end_with_process(watch)
        if any(word in argument for word in STARTED for argument in _command()):
            watch.wake()
    _run_next_sitecustomize()


def end_with_process(watch: Recorder) -> None:
    """Let the watch write its last facts when the process ends."""
    atexit.register(watch.finish)


def _command() -> list[str]:
    return list(getattr(sys, "orig_argv", None) or getattr(sys, "argv", []))


def _run_next_sitecustomize() -> None:
    """Run the `sitecustomize` that this one hides, if there is one."""
    spec = PathFinder.find_spec("sitecustomize", sys.path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)
