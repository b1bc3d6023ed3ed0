"""Programs that a machine runs, begun by whatever Python is at hand there.

The Python of a SkyPilot job is not the one that a machine's set-up gave skymark to, and nobody who
types ``sky exec NAME -- python -m benchmarks.runners.full_runner`` should need to know its path.
"""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

MADE_BY_SET_UP = (
    Path.home() / "skymark-venv" / "bin" / "python",
    Path("/opt/skymark/bin/python"),
)
"""Interpreters that have skymark: of `benchmarks/sky`, and of the container images."""


def use_python_of_set_up() -> None:
    """Begin this command again with the Python of the set-up, where this one has no skymark."""
    made = next((path for path in MADE_BY_SET_UP if path.is_file()), None)
    if made is not None and find_spec("skymark") is None:
        os.execv(made, [os.fspath(made), *sys.orig_argv[1:]])  # noqa: S606  # no shell is meant


use_python_of_set_up()
