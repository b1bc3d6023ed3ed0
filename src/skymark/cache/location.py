"""Places of caches: shared or private, by policy, with their rights and variables."""

from __future__ import annotations

import os
import re
import stat
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from skymark.machine.private_directory import other_hand, own_folder, private_directory
from skymark.model.base import digest_of
from skymark.model.errors import CacheError, UnknownNameError, UsageError


def cache_directory() -> Path:
    """Return ``$SKYMARK_CACHE``, else ``skymark`` in the user's cache directory (XDG)."""
    if chosen := os.environ.get("SKYMARK_CACHE"):
        return Path(chosen).expanduser().resolve()
    return _usual()


def root_of(chosen: Path | None) -> Path:
    """Return the directory of the caches: the chosen directory, else this user's."""
    return (chosen or cache_directory()).expanduser().resolve()


def require_policy(policy: str | None, root: object) -> None:
    """Refuse an unknown policy, and a directory of caches without a policy.

    Raises:
        UsageError: the policy is unknown or missing.
    """
    if policy is None and root is not None:
        raise UsageError(
            "--cache-root goes with --cache-policy; without, SKYMARK_CACHE is the place"
        )
    if policy is not None and policy not in set(Policy):
        raise UnknownNameError("cache policy", policy, [one.value for one in Policy])


def own_cache(cache: Path | None = None) -> Path:
    """Return the directory of code and keys: the cache, or the default if others may write to it.

    Args:
        cache: the directory of data; None for `cache_directory`.

    Raises:
        CacheError: others may write to both.
    """
    faults = []
    for place in dict.fromkeys(((cache or cache_directory()).absolute(), _usual().absolute())):
        if (fault := other_hand(place)) is None:
            return place
        faults.append(fault)
    raise CacheError(
        f"{'; '.join(faults)}: skymark keeps no code or keys there. Set SKYMARK_CACHE to a "
        "directory that only you can write to, or take the right away: chmod go-w"
    )


def _usual() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "skymark"


def make_shared_folder(directory: Path) -> None:
    """Make a directory with the group's rights of the directory above."""
    missing = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    if not missing:
        return
    above = missing[-1].parent
    mode = stat.S_IMODE(above.stat().st_mode) & (stat.S_IRWXG | stat.S_ISGID)
    for made in reversed(missing):
        made.mkdir(mode=0o755, exist_ok=True)  # a umask of 0 would let everybody write
        with suppress(PermissionError):  # another user made it at the same moment, as widely
            _set_mode(made, mode)


def open_to_readers(directory: Path) -> None:
    """Let the group read a directory and all below it, and stop others from writing there."""
    for folder, _, names in os.walk(directory):
        _set_mode(Path(folder), stat.S_IRGRP | stat.S_IXGRP)
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                runs = path.stat().st_mode & stat.S_IXUSR
                _set_mode(path, stat.S_IRGRP | (stat.S_IXGRP if runs else 0))


def writable(directory: Path) -> None:
    """Restore the right to write to a directory and its subdirectories, so it can be removed."""
    for folder, _, _ in os.walk(directory):
        _set_mode(Path(folder), stat.S_IRWXU)


def refusal(directory: Path, error: OSError) -> str:
    """Return the reason why this user may not write an entry, and the next step."""
    asked = Path(error.filename or directory.parent)
    place = next(path for path in (asked, *asked.absolute().parents) if os.path.lexists(path))
    remedy = f"run `chmod -R g+w {place}`" if place == asked else f"make {asked} for your group"
    return (
        f"permission denied: {place} is {owner_of(place)}'s, and you may not build "
        f"{directory.name} there; have its owner build it or {remedy}, or name a directory of "
        "your own with --cache-root"
    )


def owner_of(path: Path) -> str:
    """Return the name of a file's owner, or the number of an owner without a name."""
    try:
        return path.owner()
    except (KeyError, OSError):
        return f"user {path.lstat().st_uid}" if os.path.lexists(path) else "nobody"


def _set_mode(path: Path, more: int) -> None:
    """Add rights, and take away everybody's right to write."""
    mode = stat.S_IMODE(path.stat().st_mode)
    wanted = (mode | more) & ~stat.S_IWOTH
    if wanted != mode:
        path.chmod(wanted)


class Policy(StrEnum):
    """A way to separate or share the caches of many jobs."""

    AUTO = "auto"
    PER_JOB = "per-job"
    SHARED = "shared"
    PREBUILT = "prebuilt"
    PARQUET = "parquet"
    PARQUET_SHARED = "parquet+shared"
    STAGGERED = "staggered"

    @property
    def needs_data_set(self) -> bool:
        """Whether it prepares a named data set."""
        return self in {Policy.SHARED, Policy.PREBUILT, Policy.PARQUET, Policy.PARQUET_SHARED}

    @property
    def needs_data_of_run(self) -> bool:
        """Whether a run needs data named by its user for it."""
        return self is Policy.PREBUILT or self.converts

    @property
    def converts(self) -> bool:
        """Whether it converts the data set to Parquet."""
        return self in {Policy.PARQUET, Policy.PARQUET_SHARED}


DATA_VARIABLE = "SKYMARK_CACHE_DATA"
"""Directory of the converted data set, under the policies that convert it."""
JOB_VARIABLE = "SKYMARK_CACHE_JOB"
"""Directory of the job, for libraries that take theirs as an argument (`streaming`)."""
HUGGING_FACE = "huggingface"
MODULES = f"{HUGGING_FACE}/modules"
"""Code that the libraries of Hugging Face fetch and import."""
SHARDS = "webdataset"
LONGEST_NAME = 60


def folder_of(addresses: Sequence[str]) -> str:
    """Return the name of the folder for the shards of a data set, unique to it."""
    if not addresses:
        return "data"
    last = addresses[0].partition("?")[0].rpartition("/")[2]  # a query may hold a key
    first = re.sub(r"[^A-Za-z0-9_-]+", "_", last)[:LONGEST_NAME]
    return f"{first}-{digest_of(list(addresses))[:12]}"


def library_variables(directory: Path, folder: str) -> dict[str, str]:
    """Return the variables that put every library's cache below one directory; make the folders.

    ``HF_HOME`` stays, because the user's token is there; every cache in it has a variable of its
    own. Code goes to a directory that only the user may write to.

    Args:
        directory: directory of a job or a build.
        folder: folder of the data set's tar shards, because shards of two data sets may have the
            same names; see `folder_of`.
    """
    home = directory / HUGGING_FACE
    places = {
        "HF_DATASETS_CACHE": home / "datasets",
        "HF_HUB_CACHE": home / "hub",
        "HF_XET_CACHE": home / "xet",
        "HF_ASSETS_CACHE": home / "assets",
        "HF_MODULES_CACHE": _modules_for(directory),
        "WDS_CACHE": directory / SHARDS / folder,
        "LITDATA_CACHE_DIR": directory / "litdata",
        "DATA_OPTIMIZER_CACHE_FOLDER": directory / "litdata" / "chunks",
        "DATA_OPTIMIZER_DATA_CACHE_FOLDER": directory / "litdata" / "data",
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return {JOB_VARIABLE: str(directory), **{name: str(place) for name, place in places.items()}}


def _modules_for(directory: Path) -> Path:
    modules = directory / MODULES
    if other_hand(modules) is None:
        return modules
    try:
        return own_folder(own_cache() / MODULES)
    except (CacheError, UsageError):  # a user without a home
        return private_directory([Path(tempfile.gettempdir(), f"skymark-modules-{os.getuid()}")])


FILES = "rows-*.parquet"
KEPT_VARIABLE = "SKYMARK_CACHE_ROWS"
"""Directory of the files."""
OF_VARIABLE = "SKYMARK_CACHE_ROWS_OF"
"""Fingerprint of the data that the files stand in for, so that no run of other data uses them."""


def stand_in(fingerprint: str | None, variables: Mapping[str, str]) -> list[Path]:
    """Return the kept files for data of a fingerprint, in order, if any."""
    directory = variables.get(KEPT_VARIABLE)
    if directory is None or fingerprint is None or variables.get(OF_VARIABLE) != fingerprint:
        return []
    return sorted(Path(directory).glob(FILES))
