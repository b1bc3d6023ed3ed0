"""Directories that results come home to: one is checked before hiring, and others stand in for it.

A machine's results are copied into a directory for incoming files, and from there to their place,
so they need twice their size for a while.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

from skymark.model.errors import UsageError

LEAST_FREE_BYTES = 256 << 20
"""Room that a directory of runs must have."""

PROBE_BYTES = 1 << 16


def check_home(results: Path) -> None:
    """Check before a machine is hired that its results can come home.

    Raises:
        UsageError: the directory cannot take them, or what fetches them is not installed.
    """
    for program in ("rsync", "ssh"):
        if shutil.which(program) is None:
            raise UsageError(
                f"nothing was hired: results come home with {program}, which is not installed "
                f"here; apt install {'openssh-client' if program == 'ssh' else program}"
            )
    if (fault := fault_of(results)) is not None:
        raise UsageError(
            f"nothing was hired: results could not come home to --output {results}: {fault}; "
            "choose another"
        )


def fault_of(results: Path) -> str | None:
    """Return why a directory could not take results, or None; it is not made yet.

    Tried are a directory of its name and a file, in the nearest directory above that is there.
    """
    there = results.absolute()
    missing: list[str] = []
    while not os.path.lexists(there):
        missing.append(there.name)
        there = there.parent
    if not there.is_dir():
        return f"{there} is no directory"
    try:
        with tempfile.TemporaryDirectory(prefix=".probe-", dir=there) as probe:
            inside = Path(probe, *reversed(missing))
            inside.mkdir(parents=True, exist_ok=True)
            with (inside / "probe").open("wb") as file:
                file.write(bytes(PROBE_BYTES))
                file.flush()
                os.fsync(file.fileno())
        free_bytes = shutil.disk_usage(there).free
    except OSError as error:
        return f"{there}: {error.strerror or error}"
    if free_bytes < LEAST_FREE_BYTES:
        return (
            f"{there} has {free_bytes >> 20} MiB left, and {LEAST_FREE_BYTES >> 20} MiB are needed"
        )
    return None


def homes(results: Path) -> Generator[Path, None, None]:
    """Yield directories of runs to bring results to, one after another until one works.

    The one that was asked for, one in the user's home, and a new one for temporary files.
    """
    yield results
    yield Path.home() / "skymark-results"
    try:
        new = Path(tempfile.mkdtemp(prefix="skymark-results-"))
    except OSError:  # there is no place for temporary files
        return
    try:
        yield new
    finally:
        with suppress(OSError):  # something came to it
            new.rmdir()
