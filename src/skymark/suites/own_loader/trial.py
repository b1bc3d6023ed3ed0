"""Trials: one candidate's loader in the user's own Python, consumed step by step."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import psutil

from skymark.machine.children import WORKER_PATH_VARIABLE
from skymark.model.base import Frozen
from skymark.model.errors import SkymarkError
from skymark.model.record import Setting
from skymark.suites.own_loader.maker import NOTHING
from skymark.watching.program import copy_package, hook
from skymark.watching.recorder import FOLDER

END_S = 10.0
"""Time for a loader's processes to end by themselves."""


class LoaderError(SkymarkError):
    """A loader of the user's that cannot be measured."""

    exit_code = 1


class TrialOrder(Frozen):
    """What a trial consumes."""

    file: str
    function: str
    arguments: dict[str, Setting | None]
    step_s: float
    seconds: float
    batches: int
    samples: int
    """Samples of a batch that does not say."""

    @classmethod
    def arguments_of(cls, settings: Mapping[str, Setting]) -> dict[str, Setting | None]:
        """Return the keywords of a call."""
        return {name: None if one == NOTHING else one for name, one in settings.items()}


class Warm(Frozen):
    """A loader that has given its first batches."""

    setup_s: float
    """From the import of the file to the first batch."""
    form: str
    """Fields of a batch, in one line."""


class Counted(Frozen):
    """What a loop got."""

    elapsed_ns: int
    waits_ns: tuple[int, ...]
    samples: int


class Trial:
    """A running trial."""

    def __init__(self, process: subprocess.Popen[bytes], commands: TextIO, answers: TextIO) -> None:
        self._process = process
        self._commands = commands
        self._answers = answers

    def warm(self) -> Warm:
        """Wait until it is warm.

        Raises:
            LoaderError: the loader failed.
        """
        return Warm.model_validate(self._answer())

    def count(self) -> None:
        """Let batches count from now on."""
        self._commands.write("count\n")
        self._commands.flush()

    def counted(self) -> Counted:
        """Wait until there are enough.

        Raises:
            LoaderError: the loader failed.
        """
        return Counted.model_validate(self._answer())

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            status = self._process.wait()
            raise LoaderError(f"its process ended with status {status}; its log says more")
        answer: dict[str, Any] = json.loads(line)
        state = answer.pop("state")
        if state == "broken":
            raise LoaderError(answer["reason"])
        return answer


@contextmanager
def trial(python: str, order: TrialOrder, facts: Path | None = None) -> Iterator[Trial]:
    """Start a trial; its processes are gone afterwards.

    Args:
        python: the interpreter.
        order: what it consumes.
        facts: directory for the facts of a watch; None for none.

    Raises:
        LoaderError: the interpreter does not start.
    """
    ours, theirs = os.pipe(), os.pipe()  # commands and answers, each from its writer to its reader
    command = [python, "-m", "skymark.watching.trial", str(ours[0]), str(theirs[1])]
    with (
        tempfile.TemporaryDirectory(prefix="skymark-trial-", ignore_cleanup_errors=True) as folder,
        os.fdopen(ours[1], "w") as commands,
        os.fdopen(theirs[0]) as answers,
    ):
        try:
            (copy_package if facts is None else hook)(folder)
            process = subprocess.Popen(
                command,
                env=_variables(folder, facts),
                pass_fds=(ours[0], theirs[1]),
                stdin=subprocess.DEVNULL,
            )
        except OSError as error:
            raise LoaderError(f"cannot start {python}: {error.strerror}") from error
        finally:
            os.close(ours[0])
            os.close(theirs[1])
        try:
            commands.write(order.model_dump_json() + "\n")
            commands.flush()
            yield Trial(process, commands, answers)
        finally:
            _end(process)


def _variables(folder: str, facts: Path | None) -> dict[str, str]:
    """Return the process's variables; an installed skymark wins over the copy."""
    own = os.environ.get(WORKER_PATH_VARIABLE, "")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (folder, own)))}
    variables.pop(FOLDER, None)
    return variables if facts is None else {**variables, FOLDER: str(facts)}


def _end(process: subprocess.Popen[bytes]) -> None:
    """Give the process and its workers time to end, then kill them."""
    try:
        workers = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        workers = []
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=END_S)
    process.kill()  # nothing, where it has ended
    process.wait()
    for left in psutil.wait_procs(workers, timeout=END_S)[1]:
        left.kill()
