"""The source of skymark that goes to a machine: the checkout, or what is installed here.

A machine's set-up installs it from a directory, with pins from ``requirements/``. An installed
skymark is laid out like a checkout for that, so that a machine runs exactly the version that is
here.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from hashlib import sha256
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import skymark
from skymark.cache.location import own_cache
from skymark.machine.facts import git_state, run_program
from skymark.machine.private_directory import own_folder
from skymark.resources import resource_directory

PACKAGE = Path(skymark.__file__).parent

PROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "skymark"
version = {version}
requires-python = {python}

{entry_points}
[tool.hatch.build.targets.wheel]
packages = ["src/skymark"]
"""
"""Without dependencies: a set-up installs pinned ones."""

GROUP_OF_SCRIPTS = "console_scripts"


def source_directory() -> Path:
    """Return the directory that is sent to a machine: the checkout, else a bundle in the cache."""
    checkout = PACKAGE.parents[1]
    if (checkout / "pyproject.toml").is_file() and PACKAGE.parent.name == "src":
        return checkout
    return make_bundle(own_folder(own_cache() / "source"))


def make_bundle(directory: Path) -> Path:
    """Lay the installed skymark out like a checkout; returns where it lies.

    Args:
        directory: bundles, each named for its contents; one that is there already is used again.
    """
    project = _project_file()
    files = {
        path.relative_to(PACKAGE): path
        for path in sorted(PACKAGE.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    digest = sha256(project.encode())
    for name, path in files.items():
        digest.update(f"{name}\0{sha256(path.read_bytes()).hexdigest()}\n".encode())
    bundle = directory / f"skymark-{skymark.__version__}-{digest.hexdigest()[:16]}"
    if bundle.is_dir():
        return bundle
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as place:
        made = Path(place, "made")
        for name, path in files.items():
            target = made / "src" / "skymark" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
        shutil.copytree(resource_directory("requirements"), made / "requirements")
        (made / "pyproject.toml").write_text(project)
        try:
            made.rename(bundle)
        except OSError:
            if not bundle.is_dir():  # else another process made the same one meanwhile
                raise
    return bundle


def commit() -> str:
    """Return the commit that is sent, with ``-dirty`` where files were changed; empty for none."""
    state = git_state(run_program)
    return "" if state is None else f"{state.commit}{'-dirty' if state.dirty else ''}"


def _project_file() -> str:
    """Return a project file with the commands and plug-ins of the installed skymark."""
    installed = distribution("skymark")
    groups: dict[str, list[EntryPoint]] = {}
    for one in installed.entry_points:
        groups.setdefault(one.group, []).append(one)
    lines: list[str] = []
    for group, found in sorted(groups.items()):
        scripts = group == GROUP_OF_SCRIPTS
        lines.append("[project.scripts]" if scripts else f'[project.entry-points."{group}"]')
        lines += [f"{json.dumps(one.name)} = {json.dumps(one.value)}" for one in sorted(found)]
        lines.append("")
    return PROJECT.format(
        version=json.dumps(skymark.__version__),
        python=json.dumps(installed.metadata["Requires-Python"] or ">=3.11"),
        entry_points="\n".join(lines),
    )
