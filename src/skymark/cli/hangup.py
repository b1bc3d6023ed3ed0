"""Go on when the terminal closes, with the output in a file."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from types import FrameType

from skymark.cli.caller import say


class Hangup:
    """The end of this process's terminal, which it outlives."""

    def __init__(self, log: Path) -> None:
        """Name the file that gets the output then; it is not made before."""
        self._log = log

    def outlive(self) -> None:
        """Go on when told that the terminal is gone; under nohup that is so already."""
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            signal.signal(signal.SIGHUP, self._go_on)

    def say(self, text: str) -> None:
        """Print a message; where nobody can be told any more, write it into the file."""
        try:
            say(text)
        except OSError:
            self._write_into_log()
            say(text)

    def _go_on(self, signal_number: int, frame: FrameType | None) -> None:
        del signal_number, frame
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._write_into_log()
        os.write(2, b"skymark: the terminal was closed; going on\n")  # print may be at work

    def _write_into_log(self) -> None:
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError:
            log = os.open(os.devnull, os.O_WRONLY)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for stream, file in ((0, nothing), (1, log), (2, log)):
            os.dup2(file, stream)
        os.close(log)
        os.close(nothing)
