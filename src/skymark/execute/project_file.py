"""A project's own defaults: ``skymark.toml``, or ``[tool.skymark]`` in ``pyproject.toml``."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from skymark.execute.planner import load_profile
from skymark.model.base import faults_of
from skymark.model.errors import UsageError
from skymark.model.project import ProjectDefaults
from skymark.model.requests import DEFAULT_PROFILE, DEFAULT_RESULTS, Job, Limits, Machine, Results
from skymark.plain_files import read_named
from skymark.suite.registry import suite_named

OWN_FILE = "skymark.toml"
FILES = {OWN_FILE: (), "pyproject.toml": ("tool", "skymark")}
"""The tables of a project's defaults by file; the first file with a table counts."""
KEYS = sorted(ProjectDefaults.model_fields.keys() - {"file"})
OF_COMMAND_LINE = {
    *("profile", "options", "goal", "rounds", "timeout", "plan", "max_cost", "deadline"),
    *("store", "machine", "env", "secret", "data", "sync", "cache_policy", "cache_root"),
    *Results.model_fields,
    *Machine.model_fields,
    *Limits.model_fields,
    *Job.model_fields,
}
"""Keys that are options of skymark, but that no project may set."""


def project_defaults(directory: Path | str = ".") -> ProjectDefaults | None:
    """Return the defaults of the project in a directory; None without a file that has some.

    Raises:
        UsageError: the file cannot be read, or has a key or value that no project may set.
    """
    for name, place in FILES.items():
        path = Path(directory, name)
        if not path.is_file():
            continue
        text = read_named(path, "mend or remove it").decode("utf-8", errors="replace")
        if place and place[-1] not in text:
            continue
        try:
            table: Any = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise UsageError(f"{path}: {error}; mend the file") from error
        for key in place:
            table = table.get(key, {}) if isinstance(table, dict) else {}
        if table and isinstance(table, dict):
            return _Source(path, text, place).defaults(table)
    return None


def results_directory() -> Path:
    """Return the directory of runs of the project here: by default ``results``.

    Raises:
        UsageError: as in `project_defaults`.
    """
    defaults = project_defaults()
    return DEFAULT_RESULTS if defaults is None or defaults.output is None else defaults.output


class _Source:
    """The text of a project's file, for messages with a line."""

    def __init__(self, path: Path, text: str, place: Sequence[str]) -> None:
        self._path = path
        self._text = text
        self._place = tuple(place)

    def defaults(self, table: dict[str, Any]) -> ProjectDefaults:
        """Return the defaults in a table.

        Raises:
            UsageError: a key or value is wrong; the message has its line.
        """
        for key in table:
            if key not in KEYS:
                command_line = key.replace("-", "_") in OF_COMMAND_LINE
                reason = "only the command line may set" if command_line else "there is no key"
                raise self._fault((key,), f"{reason} {key!r}; valid keys: {', '.join(KEYS)}")
        usual = load_profile(DEFAULT_PROFILE).suite
        try:
            found = ProjectDefaults.model_validate(
                {"suite": usual, **table, "file": os.fspath(self._path)}
            )
            options = {one.name for one in suite_named(found.suite).options if not one.setting}
        except ValidationError as error:
            keys = tuple(str(part) for part in error.errors()[0]["loc"])
            raise self._fault(keys, faults_of(error)[0]) from error
        except UsageError as error:
            raise self._fault(("suite",), str(error)) from error
        root, output = self._path.parent.resolve(), found.output
        if output is not None and not (root / output).resolve().is_relative_to(root):
            reason = f"output: '{output}' is outside the project; give a directory in it"
            raise self._fault(("output",), reason)
        for name in found.settings:
            if name in options:
                reason = f"only the command line may set {name!r}, which is no setting"
                raise self._fault(("settings", name), reason)
        return found

    def _fault(self, keys: Sequence[str], reason: str) -> UsageError:
        return UsageError(f"{self._path}:{self._line_of(keys)}: {reason}")

    def _line_of(self, keys: Sequence[str]) -> int:
        """Return the line of a key; of the nearest table or key above if it has none of its own."""
        wanted = (*self._place, *keys)
        table: tuple[str, ...] = ()
        best, line = 0, 1
        for number, text in enumerate(self._text.splitlines(), start=1):
            if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]", text):
                table = _parts(header[1])
                here = table
            elif key := re.match(r"""\s*([\w."' -]+?)\s*=""", text):
                here = (*table, *_parts(key[1]))
            else:
                continue
            if here == wanted[: len(here)] and len(here) > best:
                best, line = len(here), number
        return line


def _parts(dotted: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
