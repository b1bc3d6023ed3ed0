"""Location of the cache: data sets and adapters' venvs."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """Return ``$SKYMARK_CACHE``, else ``skymark`` in the user's cache directory (XDG)."""
    if chosen := os.environ.get("SKYMARK_CACHE"):
        return Path(chosen).expanduser().resolve()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "skymark"
