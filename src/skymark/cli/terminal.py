"""Callbacks that show a run on rented machines in a terminal, and ask there."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from skymark.cli.caller import ask, end_when_told, is_quiet, say
from skymark.cli.console import plain_stream
from skymark.cli.rented_ends import results_alone
from skymark.cloud import Callbacks, InterruptAnswer, Quoted
from skymark.cloud.rented_run import RentedRun
from skymark.cloud.sent_files import SentFiles
from skymark.cloud.source import SentSource
from skymark.model.errors import GateError, UsageError
from skymark.model.sizes import count_of, some_of
from skymark.report.text import size


class Terminal(Callbacks):
    """The terminal of a command; once something is begun, it may be closed."""

    def __init__(
        self,
        output: Path | None = None,
        show: Callable[[Any], None] = lambda _: None,
        *,
        json: bool = False,
        yes: bool = False,
        log: TextIO | None = None,
        command: Sequence[str] = (),
    ) -> None:
        """Show prices in a command's own way.

        Args:
            output: directory of runs, for the messages after the terminal is closed; None for a
                command that ends with its terminal.
            show: prints a run's price.
            json: print the price on standard error, because standard output is for JSON.
            yes: do not ask about it.
            log: gets the output of machines; None for standard error.
            command: words of the user's own command, whose files are looked for.
        """
        super().__init__(plain_stream(log or sys.stderr), agrees=yes)
        self._command = command
        self._output = output
        self._show = show
        self._json = json
        self._tell: Callable[[str], None] = say

    def tell(self, text: str) -> None:
        """Print a line of progress."""
        if not is_quiet():
            self._tell(text)

    def sends(self, source: SentSource) -> None:
        """Print which named files a machine gets, and which files stay here."""
        if count := len(source.named.files):
            names = some_of(list(source.named.files))
            say(f"sends {count_of(count, 'named file')}, {size(source.size_bytes)}: {names}")
        _say_what_stays(source.left)
        for word in self._command:
            path = Path(word)
            sent = source.directory is not None and (source.directory / path).exists()
            if path.is_file() and not path.is_absolute() and not sent:
                say(f"{word} is a file here that is not sent; --sync {word} sends it")

    def show(self, quoted: Quoted) -> None:
        """Print a run's price."""
        with results_alone(json=self._json):
            self._show(quoted)

    def agree(self, quoted: Quoted) -> bool:
        """Ask whether the price is right.

        Raises:
            UsageError: nobody can be asked.
            GateError: the answer is no.
        """
        if super().agree(quoted):
            return True
        if not sys.stdin.isatty():
            raise UsageError("nothing was hired: there is no terminal to ask at; add --yes")
        if ask("Hire it? [y/N] ") not in {"y", "yes"}:
            raise GateError("nothing was hired")
        return True

    def begin(self, run_id: str) -> None:
        """Outlive the terminal, and end what is begun when told to."""
        end_when_told()
        if self._output is None:
            return
        log = self._output / f"{run_id}.log"
        hangup = Hangup(log)
        hangup.outlive()
        say(f"should this terminal be closed, it goes on, with its output in {log}")
        self._tell = hangup.say

    def choose(self, run: RentedRun) -> InterruptAnswer:
        """Ask what is to become of the machine; without a terminal it is stopped."""
        if not sys.stdin.isatty():
            return InterruptAnswer.STOP
        answer = ask(f"\nStop {run.name}, or leave it running? [S/l] ")
        return InterruptAnswer.LEAVE if answer in {"l", "leave"} else InterruptAnswer.STOP


def _say_what_stays(left: SentFiles) -> None:
    if left.untracked:
        say(
            f"not sent, because git does not track them: {some_of(left.untracked)}; use `git add`, "
            "or --sync for files that the job needs"
        )
    if left.links:
        say(f"not sent, because they are links to other files, or no files: {some_of(left.links)}")


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
