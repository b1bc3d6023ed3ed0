"""Install the suite of a package of its own, as its users would."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from uv import find_uv_bin

import skymark

SORTING_SUITE = Path(__file__).with_name("data") / "sorting_suite"


def install(suite: Path, python: Path, *options: str | os.PathLike[str]) -> None:
    """Build a suite's package and install it for an interpreter; nothing is fetched."""
    fetch_nothing = ("--no-deps", "--no-build-isolation", "--offline")
    _uv("pip", "install", "--python", python, *fetch_nothing, *options, suite)


def install_into(suite: Path, directory: Path) -> None:
    """Install a suite's package into a directory for the path of the tests' own interpreter."""
    install(suite, Path(sys.executable), "--target", directory)


def venv_with(suite: Path, directory: Path) -> Path:
    """Make a venv there with a suite's package; returns its interpreter.

    Everything else comes from the tests' own interpreter: the skymark that they import, and what
    it needs. So coverage sees the processes, too.
    """
    _uv("venv", "--python", sys.executable, directory)
    python = directory / "bin" / "python"
    (site_packages,) = directory.glob("lib/python*/site-packages")
    source, ours = Path(skymark.__file__).parents[1], sysconfig.get_path("purelib")
    (site_packages / "tests.pth").write_text(f"{source}\nimport site; site.addsitedir({ours!r})\n")
    install(suite, python)
    return python


def _uv(*arguments: str | os.PathLike[str]) -> None:
    command = [find_uv_bin(), *arguments, "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
