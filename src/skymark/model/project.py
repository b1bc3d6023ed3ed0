"""Defaults of a project for its runs. Its folder is not trusted, so they are few and harmless."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from pydantic import Field, field_validator

from skymark.model.base import Frozen
from skymark.model.duration import seconds_of
from skymark.model.errors import UsageError
from skymark.model.record import Setting

OF_FILE = re.compile(r"[/\\@]|\.[A-Za-z]\w*(?::|$)")
"""Part of an adapter's name that stands for a file, a class in it, or another version."""


class ProjectDefaults(Frozen):
    """Defaults of a project, between those of a profile and a request's own values.

    They name no code, store, machine or variable, and raise neither a deadline nor a ceiling.
    """

    file: str
    """The file that has them, such as ``skymark.toml``."""
    suite: str
    """The suite of the runs that have these defaults."""
    scenarios: tuple[str, ...] = ()
    """Names with or without a size, as after ``--scenarios``."""
    adapters: tuple[str, ...] = ()
    """Names of loaders or models, without versions and files."""
    settings: dict[str, Setting] = Field(default_factory=dict)
    """Settings by name, as after ``--set``."""
    effort: str | None = None
    """An effort of the suite."""
    time: str | None = None
    """Time of all rounds, such as ``20m``."""
    output: Path | None = None
    """Directory of runs in the project, in place of ``results``."""

    @property
    def of_tunes(self) -> ProjectDefaults:
        """The defaults of a tune, which decides about time by itself."""
        return self.model_copy(update={"time": None, "effort": None})

    @field_validator("scenarios")
    @classmethod
    def _are_no_paths(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if path := next((name for name in names if name.startswith((".", "/", "~"))), None):
            raise ValueError(f"{path!r} is a path; name scenarios")
        return names

    @field_validator("adapters")
    @classmethod
    def _are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if code := next((name for name in names if OF_FILE.search(name)), None):
            raise ValueError(
                f"{code!r} is a file or a version, which only the command line may name"
            )
        return names

    @field_validator("time")
    @classmethod
    def _is_a_duration(cls, text: str | None) -> str | None:
        if text is not None:
            try:
                seconds_of(text, "time")
            except UsageError as error:
                raise ValueError(str(error)) from error
        return text

    @field_validator("settings")
    @classmethod
    def _have_names_of_settings(cls, settings: dict[str, Setting]) -> dict[str, Setting]:
        return {name.replace("-", "_"): value for name, value in settings.items()}

    @field_validator("output")
    @classmethod
    def _is_in_the_project(cls, path: Path | None) -> Path | None:
        if path is not None and (path.is_absolute() or ".." in PurePosixPath(path).parts):
            raise ValueError(f"'{path}' is outside the project; give a directory in it")
        return path


class ProjectUse(Frozen):
    """Values of a plan that came from a project's defaults."""

    file: str
    keys: tuple[str, ...]
    """Such as ``scenarios`` and ``settings.workers``."""

    @property
    def sentence(self) -> str:
        """The use in words."""
        return f"{', '.join(self.keys)}: from {self.file}"
