"""Files that come with skymark: profiles, machine templates and requirement pins.

In a checkout they lie where people look for them (``benchmarks/``, ``requirements/``). The wheel
carries them as package data, the requirement files in one archive: their hashes repeat.
"""

from __future__ import annotations

import tarfile
from functools import cache
from pathlib import Path

from skymark.model.errors import UsageError

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


def checkout() -> Path | None:
    """Return the checkout that skymark runs from; None for an installed one."""
    has_project = (_CHECKOUT / "pyproject.toml").is_file()
    return _CHECKOUT if has_project and _PACKAGE.parent.name == "src" else None
