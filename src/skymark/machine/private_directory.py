"""Directories that are this user's alone, so that nobody else can put anything into them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path

from skymark.model.errors import UsageError

OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def private_directory(candidates: Iterable[Path]) -> Path:
    """Return the first directory that is this user's alone; one that is absent is made.

    Raises:
        UsageError: none is, because they are links, or somebody else's.
    """
    tried = []
    for directory in candidates:
        try:
            directory.mkdir(mode=0o700, exist_ok=True)
            found = directory.lstat()
        except OSError as error:
            tried.append(f"{directory}: {error.strerror}")
            continue
        if not stat.S_ISDIR(found.st_mode):
            tried.append(f"{directory}: no directory")
        elif found.st_uid != os.getuid() or found.st_mode & OTHERS_MAY_WRITE:
            tried.append(f"{directory}: others may write there")
        else:
            return directory
    raise UsageError(
        f"there is no directory of your own ({'; '.join(tried)}); remove what is there"
    )
