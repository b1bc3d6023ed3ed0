"""Private overlays: directories of a job's own over a shared cache, whose files are links.

A library may add files and locks as it likes, and none of them reaches the cache. Lock files are
not linked: libraries refuse to open a link as a lock.
"""

from __future__ import annotations

import os
from pathlib import Path

LOCK = ".lock"


def lay_over(lower: Path, directory: Path) -> None:
    """Fill a directory with the folders of another, and links to its files."""
    for folder, folders, names in os.walk(lower):
        place = directory / os.path.relpath(folder, lower)
        place.mkdir(parents=True, exist_ok=True)
        for name in [*names, *(one for one in folders if Path(folder, one).is_symlink())]:
            source = Path(folder, name)
            if name.endswith(LOCK):
                continue
            # A link of the cache's own, such as the hub's, leads to a file in the overlay, too.
            target = source.readlink() if source.is_symlink() else source
            (place / name).symlink_to(target)
