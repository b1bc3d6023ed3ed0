"""Interpreters of workers, and the accelerators that libraries see in them, queried in parallel.

A worker answers and ends, because a library keeps a device until its process ends. The worker's
parent stays for the rounds: one import serves both.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from skymark.execute.process import WorkerError, WorkerProcess
from skymark.execute.seen_devices import SeenDevices
from skymark.execute.venvs import Venvs, import_root
from skymark.model.machine import Platform, Target, platform_of
from skymark.model.venv import VenvSpec
from skymark.suite.contract import DeviceLibrary, SeenBy

DEVICE_VARIABLES = ("CUDA_", "NVIDIA_", "ROCR_", "HIP_", "TPU_", "LIBTPU", "JAX_PLATFORM", "LD_")
"""Beginnings of the variables that change which accelerators a library sees."""

ABSENT = "LibraryAbsentError"
"""Kind of the cause of a worker whose library is not installed."""


class Question(NamedTuple):
    """The query of a library's accelerators; equal queries have one answer."""

    library: SeenBy
    python: str
    variables: tuple[tuple[str, str], ...]
    """Environment variables of the adapter that choose devices."""


@dataclass(frozen=True)
class Asker:
    """A group of cells that needs the answer."""

    group: str
    library: DeviceLibrary
    start: Callable[[], WorkerProcess]
    """Starts a worker of the group's adapter, beside others."""


def question_of(library: DeviceLibrary, python: object) -> Question:
    """Return the question to an adapter's library in an interpreter."""
    chosen = {k: v for k, v in library.variables.items() if k.startswith(DEVICE_VARIABLES)}
    return Question(library.name, str(python), tuple(sorted(chosen.items())))


def answers(
    questions: Mapping[Question, Sequence[Asker]], timeout_s: float, at_once: int | None = None
) -> dict[Question, SeenDevices]:
    """Ask each question once, several at a time.

    Args:
        questions: the groups by question; the first group with an installed library answers.
        timeout_s: limit for a worker's start, and for its answer.
        at_once: workers that import at the same time; None for one per two cores, so that they
            hardly slow one another.

    Returns:
        The answers, without questions for which no worker started.
    """
    width = at_once or max(1, (os.cpu_count() or 1) // 2)
    found: dict[Question, SeenDevices] = {}
    waiting = deque((question, tuple(askers)) for question, askers in questions.items())
    begun: deque[tuple[Question, tuple[Asker, ...], WorkerProcess]] = deque()
    try:
        while waiting or begun:
            while waiting and len(begun) < width:
                question, askers = waiting.popleft()
                worker = _begun(question, askers)
                if worker is not None:
                    begun.append((question, askers, worker))
                elif askers[1:]:
                    waiting.append((question, askers[1:]))
            if not begun:
                continue
            question, askers, worker = begun.popleft()
            try:
                if (seen := _answer(worker, timeout_s)) is not None:
                    found[question] = seen
                elif askers[1:]:
                    waiting.append((question, askers[1:]))
            finally:
                worker.end()
    finally:
        for _, _, worker in begun:
            worker.kill()
    return found


def _begun(question: Question, askers: Sequence[Asker]) -> WorkerProcess | None:
    """Start the first asker's worker and send the question; None if it did not start."""
    measured = tuple(dict.fromkeys(one.library.measured for one in askers))
    try:
        worker = askers[0].start()
        worker.ask(question.library, measured)
    except WorkerError:
        return None  # the group's measurement reports the failed start
    return worker


def _answer(worker: WorkerProcess, timeout_s: float) -> SeenDevices | None:
    """Return a worker's answer; None where the worker did not start."""
    try:
        worker.await_ready(timeout_s)
    except WorkerError:
        return None
    try:
        return worker.answer(timeout_s)
    except WorkerError as error:
        if error.timed_out:
            worker.kill()
            return SeenDevices(fault=f"no answer in {timeout_s:g} s")
        return SeenDevices(fault=f"while it looked for a driver, {error.cause.message}")


@dataclass(frozen=True)
class Interpreters:
    """The adapters' venvs built for one target, and the interpreter beside them."""

    venvs: Venvs | None
    """Makes the adapters' venvs; None to run all in `current`."""
    current: Path
    """The interpreter for ``--env current``, and for adapters without a venv."""
    target: Target = "cpu"
    """The kind of machine whose builds of libraries are taken."""
    package: Path | None = None
    """Directory of another revision's package `skymark` for workers; None for this package."""
    seen: dict[Question, SeenDevices] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """Accelerators that libraries saw, by question: those are not asked again."""

    @property
    def platform(self) -> Platform:
        """The platform whose accelerator is to be used."""
        return platform_of(self.target)

    def of_venv(self, spec: VenvSpec | None) -> Path | None:
        """Return the interpreter of a venv, made first if needed; None where `current` does.

        Raises:
            VenvBuildError: uv failed; the message has the tail of its log.
        """
        if self.venvs is None or spec is None:
            return None
        return self.venvs.ensure(spec.built_for(self.target)).python

    def import_root(
        self, own: Path | None, cache: Path, runner: str, *, of_this: bool = False
    ) -> Path | None:
        """Return the directory that workers import skymark from; None where it is installed.

        Args:
            own: the interpreter of the worker's venv; None for `current`.
            cache: where the directory is made.
            runner: ``module:Class`` of the worker's side.
            of_this: whether workers run the package that runs here, though `package` is another.
        """
        package = None if of_this else self.package
        if own is None and package is None:
            return None
        return import_root(cache, runner, package)
