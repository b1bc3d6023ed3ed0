"""Print a message or a result, stop with an exit status, or stop when told to."""

from __future__ import annotations

import re
import signal
import sys
import traceback
from types import FrameType, TracebackType

USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
FORGED = re.compile(r"\n(?=\s*skymark:)", re.IGNORECASE)


def say(text: str, program: str = "skymark") -> None:
    """Print a message on standard error, at once and under the program's name."""
    note(f"{program}: {text}")


def note(text: str) -> None:
    """Print a line on standard error, without passwords; foreign text steers no terminal.

    A bar stands before a further line of foreign text that begins as messages do.
    """
    from skymark.report.text import plain, without_credentials

    shown = FORGED.sub("\n| ", plain(without_credentials(text)))
    print(shown, file=sys.stderr, flush=True)


def ask(question: str) -> str:
    """Ask on standard error; returns the answer, an empty one where there is none."""
    from skymark.report.text import plain

    print(plain(question), end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().casefold()


def print_plain(text: str, end: str = "\n") -> None:
    """Print a result on standard output; text that others wrote steers no terminal."""
    from skymark.report.text import plain

    print(plain(text), end=end)


def print_json(text: str) -> None:
    """Print JSON on standard output, control characters in its strings as escapes."""
    from skymark.report.text import escaped_json

    print(escaped_json(text))


def tell_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the traceback of an error that nobody expected; its text may be anybody's."""
    note("".join(traceback.format_exception(kind, error, trace)).rstrip())


def end_when_told() -> None:
    """Treat a request to terminate like Ctrl-C: end what was begun, keep what there is."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    del signal_number, frame
    raise KeyboardInterrupt
