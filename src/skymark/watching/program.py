"""Run an unchanged program under watch: `skymark watch -- COMMAND`."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Callable

from skymark.watching.recorder import BATCHES, DONE, FOLDER
from skymark.watching.verdict import LoopVerdict, verdict_of, write_trace

HERE = os.path.dirname(os.path.abspath(__file__))
HOOK = """\
import os
from skymark.watching.start import attach_program
attach_program(os.path.dirname(os.path.abspath(__file__)))
"""
PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
"""Signals that the program gets, too; Ctrl-C it gets from the terminal."""
POLL_S = 0.2


def hook(folder: str) -> None:
    """Write the package, and what attaches the watch in each Python with this folder on its path.

    Raises:
        OSError: the folder cannot be written.
    """
    copy_package(folder)
    with open(os.path.join(folder, "sitecustomize.py"), "w", encoding="ascii") as file:
        file.write(HOOK)


def copy_package(folder: str) -> None:
    """Write this package alone into a folder, for a program's module path.

    It is a part of a package `skymark` without `__init__.py`, so that an installed skymark wins.
    """
    into = os.path.join(folder, "skymark", "watching")
    os.makedirs(into, exist_ok=True)
    for name in os.listdir(HERE):
        if name.endswith(".py"):
            shutil.copyfile(os.path.join(HERE, name), os.path.join(into, name))


@dataclass(frozen=True)
class Watch:
    """A program that was watched."""

    status: int
    """Exit status as `subprocess` gives it: negative for a signal."""
    verdict: LoopVerdict | None
    """None where no loop was seen."""
    has_python: bool
    """Whether a Python process of the program took part."""


def watch_program(
    command: Sequence[str],
    batches: int | None = None,
    trace: str | None = None,
    tell: Callable[[Watch], None] = lambda _: None,
    meanwhile: Callable[[LoopVerdict], None] = lambda _: None,
) -> Watch:
    """Run a program under watch until it ends.

    Args:
        command: its words.
        batches: after which the watch ends; the program goes on.
        trace: file for a trace in Chrome's format.
        tell: gets the outcome, once: after these batches, else at the end.
        meanwhile: gets the verdict until now, at growing intervals.

    Returns:
        The outcome, with the program's exit status.

    Raises:
        FileNotFoundError, PermissionError: the program cannot be started.
    """
    folder = tempfile.mkdtemp(prefix="skymark-watch-")
    into = os.path.join(folder, "facts")
    os.mkdir(into)
    try:
        path = os.path.join(folder, "path")
        hook(path)
        program = subprocess.Popen(list(command), env=_variables(path, into, batches))
        with _passing_signals_to(program):
            told = _follow(program, into, tell, meanwhile)
        status = program.wait()
        watch = told or _outcome(into, status)
        if trace is not None:
            write_trace(into, trace)
        if told is None:
            tell(watch)
        return Watch(status, watch.verdict, watch.has_python)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _variables(path: str, into: str, batches: int | None) -> dict[str, str]:
    """Return the program's variables."""
    variables = dict(os.environ)
    before = variables.get("PYTHONPATH")
    variables["PYTHONPATH"] = os.pathsep.join([path, before] if before else [path])
    variables[FOLDER] = into
    if batches is not None:
        variables[BATCHES] = str(batches)
    return variables


def _outcome(into: str, status: int) -> Watch:
    killed_by = -status if status < 0 else None
    return Watch(status, verdict_of(into, killed_by), bool(os.listdir(into)))


def _follow(
    program: subprocess.Popen[bytes],
    into: str,
    tell: Callable[[Watch], None],
    meanwhile: Callable[[LoopVerdict], None],
) -> Watch | None:
    """Wait for the program's end, and tell what is known meanwhile."""
    told = None
    pause = 5.0
    following = monotonic() + pause
    while True:
        try:
            program.wait(timeout=POLL_S)
            return told
        except subprocess.TimeoutExpired:
            pass
        if told is not None:
            continue
        if os.path.exists(os.path.join(into, DONE)):
            told = _outcome(into, 0)
            tell(told)
        elif monotonic() > following:
            pause = min(pause * 2, 60.0)
            following = monotonic() + pause
            verdict = verdict_of(into)
            if verdict is not None:
                meanwhile(verdict)


@contextmanager
def _passing_signals_to(program: subprocess.Popen[bytes]) -> Iterator[None]:
    """Give signals to the program, and leave its end by Ctrl-C to itself."""

    def give(number: int, _frame: object) -> None:
        program.send_signal(number)

    before = {number: signal.signal(number, give) for number in PASSED_ON}
    before[signal.SIGINT] = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
