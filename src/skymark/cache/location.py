"""Location of the cache: of data, which may be shared, and of code and keys, which may not."""

from __future__ import annotations

import os
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
