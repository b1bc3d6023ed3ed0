"""Location of the cache, shared or private, and the rights on its files."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from skymark.machine.private_directory import other_hand
from skymark.model.errors import CacheError


def cache_directory() -> Path:
    """Return ``$SKYMARK_CACHE``, else ``skymark`` in the user's cache directory (XDG)."""
    if chosen := os.environ.get("SKYMARK_CACHE"):
        return Path(chosen).expanduser().resolve()
    return _usual()


def own_cache(cache: Path | None = None) -> Path:
    """Return the directory of code and keys: a cache, or the usual one where others may write.

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
    """Make a directory whose group may do what the group of the one above may."""
    missing = [one for one in (directory, *directory.parents) if not one.exists()]
    if not missing:
        return
    above = missing[-1].parent
    mode = stat.S_IMODE(above.stat().st_mode) & (stat.S_IRWXG | stat.S_ISGID)
    for made in reversed(missing):
        made.mkdir(mode=0o755, exist_ok=True)  # a umask of 0 would let everybody write
        with suppress(PermissionError):  # another user made it at the same moment, as widely
            _set_mode(made, mode)


def open_to_readers(directory: Path) -> None:
    """Let the group read a directory and all below it, and let not everybody write there."""
    for folder, _, names in os.walk(directory):
        _set_mode(Path(folder), stat.S_IRGRP | stat.S_IXGRP)
        for name in names:
            path = Path(folder, name)
            if not path.is_symlink():
                runs = path.stat().st_mode & stat.S_IXUSR
                _set_mode(path, stat.S_IRGRP | (stat.S_IXGRP if runs else 0))


def writable(directory: Path) -> None:
    """Give the right to write back to a directory and those below it, so that it can be removed."""
    for folder, _, _ in os.walk(directory):
        _set_mode(Path(folder), stat.S_IRWXU)


def refusal(directory: Path, error: OSError) -> str:
    """Return what keeps this user from writing an entry, and what to do."""
    asked = Path(error.filename or directory.parent)
    place = next(one for one in (asked, *asked.absolute().parents) if os.path.lexists(one))
    remedy = f"run `chmod -R g+w {place}`" if place == asked else f"make {asked} for your group"
    return (
        f"permission denied: {place} is {owner_of(place)}'s, and you may not build "
        f"{directory.name} there; have its owner build it or {remedy}, or name a directory of "
        "your own with --cache-root"
    )


def owner_of(path: Path) -> str:
    """Return the name of the user whose a file is, or the number of one without a name."""
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
