"""The interpreters that workers run in, with the accelerator that libraries are to use there."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from skymark.execute.asking import Question
from skymark.execute.seen_devices import SeenDevices
from skymark.execute.venvs import Venvs, import_root
from skymark.model.machine import Platform, Target, platform_of
from skymark.model.venv import VenvSpec


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
    """The directory of another revision's package `skymark`, which workers are to run; None for
    the one that runs."""
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
