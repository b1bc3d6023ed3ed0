"""Code of another revision of skymark's own checkout, laid out in the cache for workers."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import skymark
from skymark.cache.building import build_once
from skymark.cache.location import own_cache
from skymark.machine.facts import PROGRAM_VARIABLES, git_state, run_program
from skymark.machine.private_directory import own_folder, require_own
from skymark.model.base import Frozen
from skymark.model.errors import CacheError, UsageError

REVISIONS = "revisions"
"""Folder of the cache."""

WORKER = "execute/worker.py"
"""Path of the worker in a revision's package; this skymark sends it requests."""

REQUIREMENTS = "requirements"


class Revision(Frozen):
    """A commit of the checkout that skymark lies in."""

    name: str
    """As the user wrote it."""
    commit: str
    """Its full hash."""
    checkout: Path
    package: str
    """The package's path in the checkout."""
    dirty: bool
    """Whether the checkout has changes that are in no commit."""

    @property
    def short(self) -> str:
        """The commit as people write it."""
        return self.commit[:12]


class RevisionCode(Frozen):
    """The files of a revision, on disk."""

    package: Path
    """The directory of the package `skymark`."""
    requirements: Path
    """The directory of the adapters' pins."""


def find_revision(name: str, package: Path = Path(skymark.__file__).parent) -> Revision:
    """Return the revision that a name stands for in the checkout of a package.

    Raises:
        UsageError: there is no checkout or no such revision, it is a release of a library, or its
            code is too old to have a worker.
    """
    git = ["git", "-C", os.fspath(package)]
    state = git_state(run_program, package)
    prefix = run_program([*git, "rev-parse", "--show-prefix"])
    root = run_program([*git, "rev-parse", "--show-toplevel"])
    if state is None or not prefix or not root:
        raise UsageError(
            f"--against {name} is a revision of skymark's checkout, and the skymark that runs is "
            "in none; install it from a clone with `pip install --editable .`"
        )
    found = (
        None
        if name.startswith("-")
        else run_program([*git, "rev-parse", "--verify", "--quiet", f"{name}^{{commit}}"])
    )
    if not found:
        raise UsageError(_unknown(name))
    commit, folder = found.strip(), prefix.strip().rstrip("/")
    for path in (f"{folder}/{WORKER}", REQUIREMENTS):
        if run_program([*git, "cat-file", "-t", f"{commit}:{path}"]) is None:
            raise UsageError(
                f"--against {name}: {commit[:12]} has no {path}, so it is too old to be measured "
                "by this skymark; choose a later revision"
            )
    return Revision(
        name=name,
        commit=commit,
        checkout=Path(root.strip()),
        package=folder,
        dirty=state.dirty,
    )


def code_of(revision: Revision, cache: Path, announce: Callable[[str], None]) -> RevisionCode:
    """Return a revision's files, taken from git into the cache on first use.

    Raises:
        CacheError: git does not give them, or they cannot be written.
    """
    directory = own_folder(own_cache(cache) / REVISIONS) / f"skymark-{revision.short}"
    require_own(directory, missing_ok=True)

    def make(place: Path) -> None:
        announce(f"taking the code of {revision.short} from git (once)")
        _extract(revision, place)

    build_once(directory, make, announce=announce)
    require_own(directory)
    return RevisionCode(package=directory / revision.package, requirements=directory / REQUIREMENTS)


def _extract(revision: Revision, place: Path) -> None:
    command = ["git", "-C", os.fspath(revision.checkout), "archive", "--format=tar"]
    done = subprocess.run(
        [*command, revision.commit, revision.package, REQUIREMENTS],
        capture_output=True,
        check=False,
        env={name: os.environ[name] for name in PROGRAM_VARIABLES if name in os.environ},
    )
    if done.returncode != 0:
        reason = done.stderr.decode(errors="replace").strip()
        raise CacheError(f"git gives no files of {revision.short}: {reason}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        # Before Python 3.11.4 there is no filter; git archives no path outside the tree.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(place)  # noqa: S202  # see above


def _unknown(name: str) -> str:
    """Return the reason why a name is no revision, and the next step."""
    slug, at, version = name.partition("@")
    if at and slug and version and not version.startswith("{"):
        return (
            f"--against {name} is no revision of skymark's checkout. Releases of a library are "
            f"adapters, measured in turn and ranked in one run: --adapters {slug} {name}"
        )
    return (
        f"--against {name}: skymark's checkout has no such revision; name a commit, tag or branch. "
        f"A shallow clone lacks most: git fetch --deepen 50, or git fetch origin {name}"
    )
