"""Callbacks for progress, output and interruption."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TextIO

Say = Callable[[str], None]
"""Shows one line of progress."""


class Choice(StrEnum):
    """A user's answer after Ctrl-C."""

    STOP = "stop"
    LEAVE = "leave"


@dataclass(frozen=True)
class Screen:
    """Callbacks while a machine works."""

    say: Say
    log: TextIO
    """Gets the machine's output."""
    interrupted: Callable[[], Choice]
    """Asks whether to stop the machine or to leave it running."""

    def stop_or_leave(self) -> Choice:
        """Ask once what is to become of the machine; a second Ctrl-C stops it."""
        try:
            return self.interrupted()
        except (KeyboardInterrupt, EOFError):
            return Choice.STOP
