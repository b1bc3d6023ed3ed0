"""Files that may leave this machine: skymark's own files, and the paths that a user names.

A checkout of skymark sends its tracked files, in their present state, that the list in
``pyproject.toml`` allows; wheel and sdist use the same list. An installed skymark sends the files
of its ``RECORD``. A named directory sends its tracked files, or all files where git tracks none.
A link is followed only to a file that is sent anyway.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

from skymark.machine.facts import run_program
from skymark.model.errors import UsageError
from skymark.resources import checkout

PACKAGE = "src/skymark"
MADE_AGAIN = ("__pycache__", ".git")
"""Directories that no list has."""


@dataclass(frozen=True)
class SentFiles:
    """Files to send, by their path on the machine, and files that stay."""

    files: Mapping[str, Path] = field(default_factory=dict)
    untracked: tuple[str, ...] = ()
    """Untracked files that git does not ignore."""
    links: tuple[str, ...] = ()
    """Links to other places, and entries that are no regular files."""

    def below(self, place: str) -> SentFiles:
        """Return the same files below a directory."""
        if place == ".":
            return self
        return SentFiles(
            {f"{place}/{name}": path for name, path in self.files.items()},
            tuple(f"{place}/{name}" for name in self.untracked),
            tuple(f"{place}/{name}" for name in self.links),
        )


def own_files() -> SentFiles:
    """Return skymark's own files, laid out like a checkout.

    Raises:
        UsageError: nothing tells which files the installation has.
    """
    root = checkout()
    if root is None:
        return SentFiles(_installed_files())
    listed = _listed_files(root)
    tracked = _git_files(root)
    if tracked is None or f"{PACKAGE}/__init__.py" not in tracked:  # an unpacked sdist
        tracked = listed
    untracked = tuple(sorted(listed - tracked))
    return _regular_files(root, listed & tracked, untracked)


def named_files(names: Iterable[Path], root: Path) -> SentFiles:
    """Return the files of paths that a user names; each has the same path on the machine.

    Args:
        names: files and directories.
        root: the current directory, with no link in its path.

    Raises:
        UsageError: one is not there, is a link, or lies elsewhere.
    """
    whole = SentFiles()
    for name in names:
        path = Path(os.path.normpath(root / name.expanduser()))
        if not path.is_relative_to(root):
            raise UsageError(
                f"{name} lies outside {root}; a machine gets only files below the current "
                "directory. Change to a directory above that file"
            )
        place = path.relative_to(root).as_posix()
        require_no_secret_directory(path)
        if not path.exists():
            raise UsageError(f"{name} is not there; name a file or a directory of {root}")
        if path.resolve() != path:
            raise UsageError(f"{name} is a link to {path.resolve()}; name a copy of that instead")
        if path.is_dir():
            files = directory_files(path).below(place)
        else:
            files = _regular_files(root, {place}, ())
        whole = merged(whole, files)
    return whole


def directory_files(directory: Path) -> SentFiles:
    """Return the tracked files of a directory, or all files if git tracks none.

    Raises:
        UsageError: it is a directory of credentials, or git does not list its work tree.
    """
    require_no_secret_directory(directory)
    tracked = _git_files(directory, "--recurse-submodules")
    if tracked is None and any((one / ".git").exists() for one in (directory, *directory.parents)):
        raise UsageError(
            f"git does not list the files of {directory}, so nothing tells which of them may be "
            f"sent; `git -C {directory} ls-files` says why"
        )
    if tracked:
        others = _git_files(directory, "--others", "--exclude-standard") or set()
        return _regular_files(directory, tracked, tuple(sorted(others)))
    names: set[str] = set()
    for parent, directories, files in os.walk(directory):
        inner = Path(parent).relative_to(directory)
        links = [name for name in directories if Path(parent, name).is_symlink()]
        directories[:] = [name for name in directories if name not in {*MADE_AGAIN, *links}]
        names |= {(inner / name).as_posix() for name in (*files, *links)}
    return _regular_files(directory, names, ())


def require_no_secret_directory(path: Path) -> None:
    """Refuse a directory of credentials, and a file in one, wherever the current directory is.

    Raises:
        UsageError: it is one.
    """
    if directory := secret_directory_in(f"{path.resolve()}/any"):
        raise UsageError(
            f"{path} would leave this machine, and {directory}/ is a directory of credentials; "
            "name another file. Keys that a job needs are given with --secret"
        )


def merged(first: SentFiles, second: SentFiles) -> SentFiles:
    """Return the files of two selections.

    Raises:
        UsageError: both have a file of the same path, and it is not the same file.
    """
    for place in first.files.keys() & second.files.keys():
        if first.files[place].resolve() != second.files[place].resolve():
            raise UsageError(
                f"{second.files[place]} would be {place} on the machine, which is a file of "
                "skymark's source there; give it another name"
            )
    return SentFiles(
        {**first.files, **second.files},
        tuple(
            name
            for name in dict.fromkeys((*first.untracked, *second.untracked))
            if name not in {*first.files, *second.files}
        ),
        (*first.links, *second.links),
    )


def _regular_files(root: Path, places: Iterable[str], untracked: tuple[str, ...]) -> SentFiles:
    """Select the regular files of a list, and the links to files of the list."""
    real = root.resolve()
    files: dict[str, Path] = {}
    links: dict[str, str] = {}
    for place in sorted(places):
        path = root / place
        target = path.resolve()
        if not path.exists() and not path.is_symlink():
            continue  # removed here, and still on git's list
        if target == real / place and path.is_file():
            files[place] = path
        elif target.is_relative_to(real):
            links[place] = target.relative_to(real).as_posix()
        else:
            links[place] = ""
    followed = {place: files[target] for place, target in links.items() if target in files}
    return SentFiles(
        {**files, **followed},
        untracked,
        tuple(place for place in links if place not in followed),
    )


def _listed_files(root: Path) -> set[str]:
    """Return the files that the list of a checkout allows, whether git tracks them or not."""
    build = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    found = (path for pattern in build["include"] for path in root.glob(pattern.lstrip("/")))
    return {path.relative_to(root).as_posix() for path in found}


def _installed_files() -> dict[str, Path]:
    recorded = [PurePosixPath(file) for file in distribution("skymark").files or ()]
    inside = [file for file in recorded if file.parts[0] == "skymark" and file.suffix != ".pyc"]
    if not inside:
        raise UsageError("nothing tells which files skymark has installed here; reinstall it")
    here = {file: Path(str(distribution("skymark").locate_file(file))) for file in inside}
    return {f"src/{file}": path for file, path in here.items()}


def _git_files(directory: Path, *options: str) -> set[str] | None:
    """Return the files that git lists for a directory; None where it lists none for it."""
    # No program of a repository's own settings: the directory may be somebody else's.
    git = ("git", "-c", "core.fsmonitor=false", "-C", os.fspath(directory))
    listed = run_program((*git, "ls-files", "-z", *options))
    return None if listed is None else {name for name in listed.split("\0") if name}


DIRECTORIES = (
    ".aws",
    ".azure",
    ".cloudflare",
    ".config/gcloud",
    ".config/vastai",
    ".docker",
    ".gnupg",
    ".kube",
    ".lambda_cloud",
    ".runpod",
    ".sky",
    ".ssh",
)
"""Directories of credentials, wherever they lie."""

NAMES = (
    ".boto",
    ".dockercfg",
    ".env*",
    ".git-credentials",
    ".htpasswd",
    ".my.cnf",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".s3cfg",
    "*.env",
    "*.jks",
    "*.kdbx",
    "*.key",
    "*.keystore",
    "*.p12",
    "*.pem",
    "*.pfx",
    "*.ppk",
    "*.tfstate",
    "*_token",
    "_netrc",
    "application_default_credentials.json",
    "client_secret*.json",
    "core",
    "core.[0-9]*",
    "credentials",
    "credentials.*",
    "id_[!.]*",
    "kubeconfig",
    "lambda_keys",
    "service[-_]account*.json",
    "stored_tokens",
    "token",
    "token.json",
    "vast_api_key",
)
"""Names of files with credentials, in lower case, and of core dumps, which may hold any."""

DATA = (".csv", ".py", ".pyi", ".parquet", ".rst", ".md")
"""Suffixes of harmless files with names such as ``id_map.csv`` or ``credentials.py``."""

CONTENTS = {
    "a private key": rb"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
    rb"|[P]uTTY-User-Key-File-",
    "a key of AWS": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a secret key of AWS": rb"(?i)aws_secret_access_key['\"]?\s*[=:]\s*['\"]?[0-9a-z/+]{40}",
    "a key of Google": rb"\bAIza[0-9A-Za-z_-]{35}\b",
    "a token of Hugging Face": rb"\bhf_[A-Za-z]{34}\b",
    "a token of GitHub": rb"\b(?:gh[pousr]_[0-9A-Za-z]{36}|github_pat_[0-9A-Za-z_]{60})",
    "a token of GitLab": rb"\bglpat-[0-9A-Za-z_-]{20}",
    "a token of Slack": rb"\bxox[abprs]-[0-9A-Za-z-]{10}",
    "a key of W&B": rb"(?i)(?:wandb_api_key['\"]?\s*[=:]\s*['\"]?"
    rb"|api\.wandb\.ai\s[^#]{0,80}password\s+)(?:(?:local-)?[0-9a-f]{40}|wandb_v1_\w{20})",
    "a token of a package registry": rb"\bpypi-[0-9A-Za-z_-]{50}|\bnpm_[0-9A-Za-z]{36}\b"
    rb"|_authToken=\S{8}",
}
"""Credentials in a file of any name."""

LOOK_BYTES = 1 << 20
"""Largest content to search: credentials lie in small files, and data sets are large."""
_ELF, _ELF_TYPE, _ELF_CORE = b"\x7fELF", slice(16, 18), ({b"\x04\x00", b"\x00\x04"})


def secret_in(place: str, path: Path) -> str | None:
    """Return the reason why a file holds credentials; None where it does not seem to.

    Args:
        place: the file's original path.
        path: the file or its copy, whose content is read.
    """
    if directory := secret_directory_in(place):
        return f"{directory}/ is a directory of credentials"
    own_name = PurePosixPath(place.casefold()).name
    for name in NAMES:
        if fnmatchcase(own_name, name) and not own_name.endswith(DATA):
            return f"its name is that of a file with credentials ({name})"
    with path.open("rb") as file:
        head = file.read(LOOK_BYTES)
    if head.startswith(_ELF) and head[_ELF_TYPE] in _ELF_CORE:
        return "it is a core dump, which may hold any key"
    for kind, pattern in CONTENTS.items():
        if re.search(pattern, head):
            return f"{kind} stands in it"
    return None


def secret_directory_in(place: str) -> str | None:
    """Return the directory of credentials that a file lies in, by its path; None for none."""
    parts = PurePosixPath(place.casefold()).parts
    for directory in DIRECTORIES:
        names = PurePosixPath(directory).parts
        if any(parts[at : at + len(names)] == names for at in range(len(parts) - len(names))):
            return directory
    return None
