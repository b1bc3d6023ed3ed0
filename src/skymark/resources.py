"""Files that come with skymark: profiles, machine templates and requirement pins.

In a checkout they lie where people look for them (``benchmarks/``, ``requirements/``); the wheel
carries them as package data.
"""

from __future__ import annotations

from pathlib import Path

from skymark.model.errors import UsageError

_PACKAGE = Path(__file__).parent
_ROOTS = {
    "profiles": (_PACKAGE / "data" / "profiles", _PACKAGE.parents[1] / "benchmarks" / "profiles"),
    "sky": (_PACKAGE / "data" / "sky", _PACKAGE.parents[1] / "benchmarks" / "sky"),
    "requirements": (_PACKAGE / "data" / "requirements", _PACKAGE.parents[1] / "requirements"),
}


def resource_directory(kind: str) -> Path:
    """Return the directory of one kind of file: ``profiles``, ``sky`` or ``requirements``.

    Raises:
        UsageError: the installation is incomplete.
    """
    for directory in _ROOTS[kind]:
        if directory.is_dir():
            return directory
    raise UsageError(f"this installation has no {kind}; reinstall skymark")


def checkout() -> Path | None:
    """Return the checkout that skymark runs from; None for an installed one."""
    root = _PACKAGE.parents[1]
    return root if (root / "pyproject.toml").is_file() and _PACKAGE.parent.name == "src" else None
