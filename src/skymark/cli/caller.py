"""Print a message, stop with an exit status, or stop when told to."""

from __future__ import annotations

import signal
import sys
from types import FrameType

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141


def say(text: str, program: str = "skymark") -> None:
    """Print a message on standard error, at once and under the program's name."""
    print(f"{program}: {text}", file=sys.stderr, flush=True)


def end_when_told() -> None:
    """Treat a request to terminate like Ctrl-C: end what was begun, keep what there is."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    del signal_number, frame
    raise KeyboardInterrupt
