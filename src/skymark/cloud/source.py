"""The directory that goes to a machine: copies of files, for one run or for jobs sent together.

A machine's set-up installs skymark from this directory, with pins from ``requirements/``. The
directory has its digest in its name and stays in the cache, because SkyPilot reads it again for
each machine of a managed job.

SkyPilot sends every job's source into one directory, so that a job that waits or runs gets the
source of the next one. Here each job runs the code that was sent with it.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import skymark
from skymark.cache.location import own_cache
from skymark.cloud.sent_files import (
    PACKAGE,
    Selection,
    directory_files,
    merged,
    named_files,
    own_files,
    require_no_secret_directory,
    secret_in,
)
from skymark.machine.facts import git_state, run_program
from skymark.machine.private_directory import own_folder
from skymark.model.errors import UsageError

PROJECT_FILE = "pyproject.toml"
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
"""Of an installed skymark. Without dependencies: a set-up installs pinned ones."""

GROUP_OF_SCRIPTS = "console_scripts"

IGNORED_BY_SKYPILOT = ".skyignore"
"""Without this file, SkyPilot would leave out what a ``.gitignore`` in the directory names."""
UNUSED_DAYS = 30
"""After which a directory is removed."""


@dataclass(frozen=True)
class Source:
    """A directory that is sent, and the files that were named for it."""

    directory: Path
    named: Selection
    size_bytes: int
    """Of the named files."""
    left: Selection
    """With the files that stay here, of skymark's source too."""


def source_directory() -> Path:
    """Return a directory with skymark's own files.

    Raises:
        UsageError: one of them holds a secret.
    """
    return made_directory(own_files().files)


def source_with(names: Sequence[Path]) -> Source:
    """Return a directory with skymark's own files, and those of paths from the current directory.

    Raises:
        UsageError: a path is not there or lies elsewhere, or a file holds a secret.
    """
    return _source(own_files(), named_files(names, Path.cwd()))


def source_of_job(directory: Path | None, names: Sequence[Path]) -> Source:
    """Return a directory with the files of a user's own one, and those of named paths.

    Raises:
        UsageError: as with `source_with`.
    """
    own = Selection() if directory is None else directory_files(directory)
    return _source(Selection(), merged(own, named_files(names, Path.cwd())))


def checked_copy(path: Path) -> Path:
    """Return a copy of a file or a directory that may be sent.

    Raises:
        UsageError: it holds a secret, or is not there.
    """
    if path.is_dir():
        return made_directory(directory_files(path).files)
    require_no_secret_directory(path)
    return made_directory({path.name: path.resolve()}) / path.name


def made_directory(files: Mapping[str, Path]) -> Path:
    """Return the directory in the cache with copies of files.

    Args:
        files: by their path in it.

    Raises:
        UsageError: one holds a secret, or cannot be read.
    """
    directory = own_folder(own_cache() / "source")
    _remove_unused(directory)
    with tempfile.TemporaryDirectory(dir=directory) as place:
        made = Path(place, "made")
        made.mkdir(mode=0o700)
        for name, path in files.items():
            _copy(path, made / name)
        if f"{PACKAGE}/__init__.py" in files and PROJECT_FILE not in files:
            (made / PROJECT_FILE).write_text(_project_file())
        (made / IGNORED_BY_SKYPILOT).write_text("# all of this directory is sent\n")
        digest = _digest(made)
        found = directory / f"skymark-{skymark.__version__}-{digest[:16]}"
        if not found.is_dir() or _digest(found) != digest:
            _refuse_secrets(made, files)  # of the copies: a file may change meanwhile
            shutil.rmtree(found, ignore_errors=True)  # damaged
            try:
                made.rename(found)
            except OSError:
                if not found.is_dir():  # else another process has just made it
                    raise
    os.utime(found)
    return found


def commit() -> str:
    """Return the commit that is sent, with ``-dirty`` where files were changed; empty for none."""
    state = git_state(run_program)
    return "" if state is None else f"{state.commit}{'-dirty' if state.dirty else ''}"


def _source(own: Selection, named: Selection) -> Source:
    whole = merged(own, named)
    directory = made_directory(whole.files)
    sizes = ((directory / name).stat().st_size for name in named.files)
    return Source(directory, named, sum(sizes), whole)


def _copy(path: Path, target: Path) -> None:
    """Copy a regular file with its permission to be executed, and nothing that took its place."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(opened, "rb") as file, target.open("xb") as copy:
            shutil.copyfileobj(file, copy)
            os.fchmod(copy.fileno(), 0o755 if os.fstat(opened).st_mode & 0o100 else 0o644)
    except OSError as error:
        raise UsageError(f"{path} cannot be sent: {error.strerror}") from error


def _refuse_secrets(made: Path, files: Mapping[str, Path]) -> None:
    for name, path in files.items():
        if reason := secret_in(name, made / name):
            raise UsageError(
                f"{path} would leave this machine, and {reason}; move it away, or name less. Keys "
                "that a job needs are given with --secret"
            )


def _digest(directory: Path) -> str:
    """Return the digest of all names, permissions and contents below a directory."""
    digest = sha256()
    for path in sorted(directory.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                inner = file_digest(file, "sha256").hexdigest()
        elif path.is_dir() and not path.is_symlink():
            continue
        else:
            inner = "of no file that was put here"
        digest.update(
            f"{path.relative_to(directory)}\0{path.lstat().st_mode:o}\0{inner}\n".encode()
        )
    return digest.hexdigest()


def _remove_unused(directory: Path) -> None:
    before_s = time.time() - UNUSED_DAYS * 24 * 3600
    for one in directory.iterdir():
        with suppress(OSError):  # another process removes it
            if one.stat().st_mtime < before_s:
                shutil.rmtree(one)


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


SOURCES = "skymark-source"
"""Directory of submissions below the home that SSH logs in to."""

INTERPRETERS = ("$HOME/skymark-venv/bin", "/opt/skymark/bin")
"""Where a machine's set-up and a container image have skymark."""


def new_submission() -> str:
    """Return a name for a submission."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def source_place(submission: str) -> str:
    """Return the directory of a submission's source, below the home that SSH logs in to."""
    return f"{SOURCES}/{submission}"


def within(submission: str, run: str) -> str:
    """Return a script that does what another one does, with and in the source of a submission.

    On Slurm a job's home is not the one that SSH logs in to.
    """
    place = source_place(submission)
    path = ":".join(INTERPRETERS)
    return f"""\
source=$(getent passwd "$(id -u)" | cut -d: -f6)/{place}
[ -d "$source" ] || source=~/{place}
cd "$source" || exit 1
export PYTHONPATH="$source/src" PATH="{path}:$PATH"
{run}"""


def beside_others(run: str) -> str:
    """Return a script whose measurements wait for those on the same cards, and for no others.

    By itself a measurement waits for any other one on the machine. A job that was given some of the
    cards runs beside those that have the others.
    """
    return f"""\
cards=${{CUDA_VISIBLE_DEVICES:-}}
[ -z "$cards" ] || export SKYMARK_LOCK=~/.skymark-cards-${{cards//,/-}}.lock
{run}"""


def job_name(text: str) -> str:
    """Return a name that SkyPilot takes for a job."""
    return re.sub("[^A-Za-z0-9]+", "-", text).strip("-")
