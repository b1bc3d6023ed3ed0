"""Layout of a run: names of its files and directories, and allowed paths."""

from __future__ import annotations

import re
import secrets
from datetime import datetime
from pathlib import Path

from skymark.model.record import FILE_NAME, UNSAFE

MANIFEST = "manifest.json"
SUMS = "SHA256SUMS"
"""The digests of all other files, for ``sha256sum --check``."""
FOLDERS = ("records", "samples", "logs", "rounds")

_NAME = FILE_NAME.pattern
RUN_FILE = re.compile(
    rf"{re.escape(MANIFEST)}|{SUMS}|records/{_NAME}\.json|samples/{_NAME}\.parquet"
    rf"|logs/{_NAME}\.log|rounds/{_NAME}/\d{{1,6}}\.json",
    re.ASCII,
)
"""Allowed paths of a run, relative to its directory."""

MOST_FILES = 500_000
MOST_BYTES = 50 << 30
"""Bounds of a whole run; larger runs are not read."""


def new_run_id(profile: str, now: datetime) -> str:
    """Return a unique id for a new run: time, profile and a random part.

    Args:
        profile: its name or its file.
        now: the time in UTC.
    """
    return f"{now:%Y%m%d-%H%M%S}-{name_in_id(profile)}-{secrets.token_hex(3)}"


def name_in_id(profile: str) -> str:
    """Return a profile's name as run ids have it."""
    return UNSAFE.sub("_", Path(profile).stem)[:100]


def cell_of(path: str) -> str:
    """Return the id of a file's cell; ``""`` for a file of the whole run."""
    folder, slash, rest = path.partition("/")
    if not slash:
        return ""
    return rest.partition("/")[0] if folder == "rounds" else rest.rpartition(".")[0]
