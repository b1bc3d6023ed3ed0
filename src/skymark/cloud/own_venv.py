"""Venv of SkyPilot and its directory; SkyPilot needs older packages than skymark's tools."""

from __future__ import annotations

import os
import shlex
import sys
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import skymark
from skymark.model.errors import UsageError, VenvBuildError
from skymark.resources import checkout, requirement_text

VARIABLE = "SKYMARK_CLOUD_VENV"


def has_skypilot() -> bool:
    """Whether SkyPilot can be imported here; a folder named sky is not it."""
    found = find_spec("sky")
    return found is not None and found.origin is not None


def cloud_venv() -> Path:
    """Return the directory of SkyPilot's venv: named, in the checkout, or in the cache.

    The name depends on the files of an installed skymark, so a newer version gets a new venv.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named).absolute()
    if (root := checkout()) is not None:
        return root / ".venv-cloud"
    from importlib.metadata import distribution

    from skymark.cache.location import own_cache
    from skymark.machine.private_directory import require_own

    files = distribution("skymark").read_text("RECORD") or skymark.__version__
    digest = sha256(files.encode()).hexdigest()[:12]
    venv = own_cache() / "cloud" / f"skymark-{skymark.__version__}-{digest}"
    require_own(venv, missing_ok=True)
    return venv


def program_there() -> Path | None:
    """Return skymark's program in SkyPilot's venv; None if the venv does not exist.

    Raises:
        UsageError: the variable names a directory without the program.
    """
    venv = cloud_venv()
    program = venv / "bin" / "skymark"
    if program.is_file() and any(venv.glob("lib/python*/site-packages/sky/__init__.py")):
        return program
    if os.environ.get(VARIABLE):
        raise UsageError(
            f"{VARIABLE} names {venv}, where skymark and SkyPilot are not installed; unset it, and "
            f"{how_to_make_it()}"
        )
    return None


def how_to_make_it() -> str:
    """Return the command that makes the venv of SkyPilot, from this directory."""
    root = checkout()
    if root is None:
        return "make it, once: skymark env cloud"
    there = "" if root == Path.cwd() else f" -C {shlex.quote(str(root))}"
    return f"make it, once: make{there} cloud"


def make_cloud_venv() -> Path:
    """Make the venv of SkyPilot with pinned packages and this very skymark; returns its place.

    Raises:
        VenvBuildError: uv failed; it has said why.
    """
    from filelock import FileLock

    from skymark.cloud.source import source_directory
    from skymark.machine.private_directory import own_folder

    venv, root = cloud_venv(), checkout()
    if root is None and VARIABLE not in os.environ:
        own_folder(venv.parent)
    venv.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{venv}.lock"), TemporaryDirectory() as place:
        pins = Path(place, "cloud.txt")
        pins.write_text(requirement_text(pins.name))
        _uv("venv", "--allow-existing", "--python", sys.executable, str(venv))
        install = ("pip", "install", "--python", str(venv / "bin" / "python"))
        # Where Python may not write bytecode, each command would compile SkyPilot anew.
        compiled = ("--compile-bytecode",) if sys.dont_write_bytecode else ()
        _uv(*install, *compiled, "--require-hashes", "-r", str(pins))
        # Last, so that its program is there only where everything is.
        itself = [str(source_directory())] if root is None else ["--editable", str(root)]
        _uv(*install, "--no-deps", "--no-build-isolation", *itself)
    return venv


def _uv(*arguments: str) -> None:
    from uv import find_uv_bin

    from skymark.machine.children import run_tied, uv_variables

    command = [find_uv_bin(), *arguments, "--quiet"]
    done = run_tied(command, uv_variables(), Path("/"), shows=True, umask=0o022)
    if done.returncode:
        raise VenvBuildError(
            f"uv could not make the venv of SkyPilot: `uv {' '.join(arguments[:2])}` exited with "
            f"{done.returncode}"
        )
