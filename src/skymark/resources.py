"""Files that come with skymark (profiles, machine templates, pins), and the way to install more.

In a checkout they lie where people look for them (``benchmarks/``, ``requirements/``). The wheel
carries them as package data, the requirement files in one archive: their hashes repeat.
"""

from __future__ import annotations

import json
import shlex
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError, UsageError

_PACKAGE = Path(__file__).parent
_DATA = _PACKAGE / "data"
_CHECKOUT = _PACKAGE.parents[1]
_ROOTS = {
    "profiles": (_DATA / "profiles", _CHECKOUT / "benchmarks" / "profiles"),
    "sky": (_DATA / "sky", _CHECKOUT / "benchmarks" / "sky"),
}
REQUIREMENTS = _CHECKOUT / "requirements"
REQUIREMENTS_ARCHIVE = _DATA / "requirements.tar.xz"


def resource_directory(kind: str) -> Path:
    """Return the directory of one kind of file: ``profiles`` or ``sky``.

    Raises:
        UsageError: the installation is incomplete.
    """
    for directory in _ROOTS[kind]:
        if directory.is_dir():
            return directory
    raise UsageError(f"this installation has no {kind}; reinstall skymark")


def requirement_text(name: str, directory: Path | None = None) -> str:
    """Return the text of a requirement file.

    Args:
        name: its path below ``requirements/``, such as ``adapters/numpy.txt``.
        directory: another ``requirements/`` than this installation's.

    Raises:
        FileNotFoundError: there is no such file.
    """
    if directory is None and REQUIREMENTS_ARCHIVE.is_file():
        if (text := archived_requirements(REQUIREMENTS_ARCHIVE).get(name)) is None:
            raise FileNotFoundError(name)
        return text
    return (directory or REQUIREMENTS).joinpath(name).read_text("utf-8")


@cache
def archived_requirements(archive: Path) -> dict[str, str]:
    """Return the text of every requirement file in an archive, by its path."""
    with tarfile.open(archive) as opened:
        files = ((member.name, opened.extractfile(member)) for member in opened)
        return {name: file.read().decode() for name, file in files if file is not None}


@contextmanager
def needs(module: str) -> Iterator[None]:
    """Replace the import error of a missing library by the command that installs it.

    Raises:
        DataError: importing the module failed because it is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != module:
            raise
        raise DataError(
            f"this data needs {module}, which is not installed; run: {install_line('data')}"
        ) from error


def install_line(extra: str) -> str:
    """Return the command that installs an extra of skymark beside this one.

    It names the checkout or the address of this skymark, which no package index has.
    """
    wanted = [f"skymark[{extra}] @ {_origin() or 'git+ADDRESS-OF-ITS-REPOSITORY'}"]
    if (root := checkout()) is not None:
        wanted = ["--editable", f"{root}[{extra}]"]
    return shlex.join(("uv", "pip", "install", "--python", sys.executable, *wanted))


def _origin() -> str | None:
    """Return the address that skymark was installed from; None if pip did not note it (PEP 610)."""
    try:
        origin = json.loads(distribution("skymark").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        return None
    if "url" not in origin:
        return None
    vcs = origin.get("vcs_info")
    return f"{vcs['vcs']}+{origin['url']}@{vcs['commit_id']}" if vcs else str(origin["url"])


def checkout() -> Path | None:
    """Return the checkout that skymark runs from; None for an installed one."""
    has_project = (_CHECKOUT / "pyproject.toml").is_file()
    return _CHECKOUT if has_project and _PACKAGE.parent.name == "src" else None


def load_object(reference: str) -> Any:
    """Return the object that ``module:name`` names.

    Raises:
        ImportError: there is no such module.
        AttributeError: the module has no such name.
    """
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def imported_when_called(reference: str) -> Callable[..., Any]:
    """Return a function that imports ``module:name`` when it is called, and calls that."""

    def call(*arguments: Any) -> Any:
        return load_object(reference)(*arguments)

    return call


def extensions(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of one of skymark's groups, of every package that is installed."""
    return _extensions().get(group, ())


@cache
def _extensions() -> dict[str, tuple[EntryPoint, ...]]:
    """Read the entry points for skymark by group, once, because it takes tens of ms."""
    points = entry_points()
    own = (group for group in points.groups if group.startswith("skymark."))
    return {group: tuple(points.select(group=group)) for group in own}
