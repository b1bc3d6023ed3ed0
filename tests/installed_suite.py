"""A venv in which skymark is installed, and beside it the suite of a package of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from uv import find_uv_bin

import skymark

SORTING_SUITE = Path(__file__).with_name("data") / "sorting_suite"


def venv_with(suite: Path, directory: Path) -> Path:
    """Make a venv there with a suite's package; returns its interpreter.

    Everything else comes from the tests' own interpreter: the skymark that they import, and what
    it needs. So nothing is fetched, and coverage sees the processes.
    """
    uv = find_uv_bin()
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, directory], check=True)
    python = directory / "bin" / "python"
    (site_packages,) = directory.glob("lib/python*/site-packages")
    source, ours = Path(skymark.__file__).parents[1], sysconfig.get_path("purelib")
    (site_packages / "tests.pth").write_text(
        f"{source}\nimport site; site.addsitedir({os.fspath(ours)!r})\n"
    )
    install = ["pip", "install", "--quiet", "--python", python, "--no-deps", "--no-build-isolation"]
    subprocess.run([uv, *install, "--offline", suite], check=True)
    return python
