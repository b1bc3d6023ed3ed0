"""The directory that goes to a machine: copies of the files that may leave this one, and no others.

A machine's set-up installs skymark from this directory, with pins from ``requirements/``. The
directory has its digest in its name and stays in the cache, because SkyPilot reads it again for
each machine of a managed job.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import file_digest, sha256
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

import skymark
from skymark.cache.location import own_cache
from skymark.cloud.sent_files import (
    PACKAGE,
    SentFiles,
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
from skymark.model.plan import Plan
from skymark.resources import REQUIREMENTS_ARCHIVE, archived_requirements

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
class SentSource:
    """Directory to send, with additional named files."""

    directory: Path | None = None
    """None for skymark's own files alone, or nothing."""
    named: SentFiles = field(default_factory=SentFiles)
    size_bytes: int = 0
    """Of the named files."""
    left: SentFiles = field(default_factory=SentFiles)
    """With the files that stay here, of skymark's source too."""


def source_directory() -> Path:
    """Return a directory with skymark's own files.

    Raises:
        UsageError: a file contains a secret.
    """
    return made_directory(own_files().files)


def source_with(names: Sequence[Path]) -> SentSource:
    """Return a directory with skymark's own files and the files of local paths.

    Raises:
        UsageError: a path does not exist or lies outside the current directory, or a file contains
            a secret.
    """
    return _source(own_files(), named_files(names, Path.cwd()))


def source_for(
    plans: Iterable[Plan], files: Sequence[Path], *, with_source: bool = True
) -> SentSource:
    """Return the files for a job of some plans: named files, and files that the plans read.

    Args:
        plans: the plans of the job.
        files: named for it.
        with_source: False for a machine with a container image.

    Raises:
        UsageError: a plan reads files that the machine would not get, or one may not be sent.
    """
    if files and not with_source:
        raise UsageError(
            f"--sync {files[0]}: a machine with --image gets no local files; leave out --sync or "
            "--image"
        )
    needed = dict.fromkeys(
        Path(file) for plan in plans for planned in plan.cells for file in planned.local_files
    )
    for path in needed:
        _require_sendable(path, files, with_source=with_source)
    names = [*files, *(path for path in needed if path.is_file())]
    if names:
        return source_with(names)
    return SentSource(left=own_files()) if with_source else SentSource()


def source_of_job(directory: Path | None, names: Sequence[Path]) -> SentSource:
    """Return a directory with the files of a user's own directory and of named paths.

    Raises:
        UsageError: as with `source_with`.
    """
    own = SentFiles() if directory is None else directory_files(directory)
    return _source(SentFiles(), merged(own, named_files(names, Path.cwd())))


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
            _unpack_requirements(made)
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


def _source(own: SentFiles, named: SentFiles) -> SentSource:
    whole = merged(own, named)
    directory = made_directory(whole.files)
    sizes = ((directory / name).stat().st_size for name in named.files)
    return SentSource(directory, named, sum(sizes), whole)


def _require_sendable(path: Path, named: Sequence[Path], *, with_source: bool) -> None:
    if not with_source:
        raise UsageError(
            f"{path} lies on this machine, and a container image gets nothing of it; give an "
            "address such as hf://owner/name"
        )
    if path.is_absolute():
        raise UsageError(
            f"{path} lies on this machine, and a rented machine gets only files below the current "
            "directory; give a relative path, or an address such as hf://owner/name"
        )
    sent = (name.expanduser().absolute() for name in named)
    if not path.is_file() and not any(path.absolute().is_relative_to(place) for place in sent):
        raise UsageError(
            f"{path} lies on this machine; add --sync {path} to send it, or give an address such "
            "as hf://owner/name"
        )


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


def _unpack_requirements(directory: Path) -> None:
    """Write the requirement files of an installed skymark, which a machine's set-up reads."""
    for name, text in archived_requirements(REQUIREMENTS_ARCHIVE).items():
        path = directory / "requirements" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


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
