"""Print a message or a result, stop with an exit status, or stop when told to."""

from __future__ import annotations

import codecs
import errno
import json
import os
import re
import signal
import sys
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from io import BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

from skymark.model.errors import SkymarkError, UsageError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

UNWRITTEN = 1
USAGE_ERROR = 2
INTERRUPTED = 130
BROKEN_PIPE = 141
FORGED = re.compile(r"\n(?=\s*skymark:)", re.IGNORECASE)
NAMED = re.compile(r"(?<!another )\bskymark (run|plan|submit)\b(?! --plan)")
"""A command of skymark's that a suite can have in its own words. A plan's file names its suite."""


QUIET = ("--quiet", "-q")
VERBOSE = ("--verbose", "-v")
_given: set[str] = set()
"""Words of the command line."""
_of_suite: dict[str, str] = {}
"""The running suite's own command by the command of skymark's: ``skymark clip run``."""


def take_loudness(words: Sequence[str]) -> list[str]:
    """Follow ``-q`` and ``-v``, which every command takes, and return the rest.

    Raises:
        UsageError: both are there.
    """
    rest = without_loudness(words)
    _given.clear()
    _given.update(before_dashes(words))
    if is_quiet() and is_verbose():
        raise UsageError("--quiet and --verbose exclude each other; give only one")
    return rest


def without_loudness(words: Sequence[str]) -> list[str]:
    """Return the words of a command line without ``-q`` and ``-v``."""
    own = before_dashes(words)
    return [*(one for one in own if one not in (*QUIET, *VERBOSE)), *words[len(own) :]]


def before_dashes(words: Sequence[str]) -> Sequence[str]:
    """Return the words before ``--``; the words after it are another program's."""
    return words[: words.index("--")] if "--" in words else words


def speak_for(suite: str, commands: Iterable[str] = ()) -> None:
    """Name a suite's commands in all messages and help from now on; without any, skymark's."""
    _of_suite.clear()
    _of_suite.update({name: f"skymark {suite} {name}" for name in commands})


def in_suite_s_words(text: str) -> str:
    """Return advice with the commands of the suite whose command runs."""
    return NAMED.sub(lambda found: _of_suite.get(found[1], found[0]), text)


def is_quiet() -> bool:
    """Whether to print results and errors only."""
    return not _given.isdisjoint(QUIET)


def is_verbose() -> bool:
    """Whether to print each round and tracebacks too."""
    return not _given.isdisjoint(VERBOSE)


def say(text: str, program: str = "skymark") -> None:
    """Print a message on standard error, at once and under the program's name."""
    _print_on_error(f"{program}: {text}")


def note(text: str) -> None:
    """Print a line on standard error that a quiet command leaves out."""
    if not is_quiet():
        _print_on_error(text)


def _print_on_error(text: str) -> None:
    """Print a line on standard error, without passwords; foreign text steers no terminal.

    A bar stands before a further line of foreign text that begins as messages do.
    """
    from skymark.report.text import plain, without_credentials

    shown = FORGED.sub("\n| ", plain(without_credentials(in_suite_s_words(text))))
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


def print_json(value: object) -> None:
    """Print JSON, or a value as JSON, on standard output.

    Control characters are escapes, and characters that the output's encoding may lack.
    """
    from skymark.report.text import escaped_json

    text = value if isinstance(value, str) else json.dumps(value, indent=1, default=_as_json)
    encoding = codecs.lookup(sys.stdout.encoding or "utf-8").name
    print(escaped_json(text, ascii_only=encoding != "utf-8"))


def _as_json(value: Any) -> object:
    """Return a model, a dataclass or any other value as JSON has it."""
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    return value.model_dump(mode="json") if hasattr(value, "model_dump") else str(value)


class OutputError(SkymarkError):
    """Standard output takes nothing more: its disk is full, or nobody reads it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror}; send it elsewhere")
        self.exit_code = BROKEN_PIPE if error.errno == errno.EPIPE else UNWRITTEN


class _Output(FileIO):
    """Standard output; what follows a refused write goes nowhere, as Python flushes at its end."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            raise OutputError(error) from error


def use_any_output() -> None:
    """Print in the encoding of standard output, and raise `OutputError` if it takes no more.

    A character that the encoding has not becomes a question mark.
    """
    if sys.stdout is None:  # closed by the shell
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  # until the process ends
        return
    sys.stdout = TextIOWrapper(
        BufferedWriter(_Output(sys.stdout.fileno(), "w", closefd=False)),
        encoding=sys.stdout.encoding,
        errors="replace",
        line_buffering=sys.stdout.isatty(),
    )


def tell_fault(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    """Print the traceback of an error that nobody expected; its text may be anybody's."""
    _print_on_error("".join(traceback.format_exception(kind, error, trace)).rstrip())


def end_when_told() -> None:
    """Treat a request to terminate like Ctrl-C: end what was begun, keep what there is."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signal_number: int, frame: FrameType | None) -> None:
    del signal_number, frame
    raise KeyboardInterrupt
