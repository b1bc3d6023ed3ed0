"""Fetching of a run from a store into a directory; its paths and bytes are never trusted."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from tenacity import Retrying, stop_after_attempt

from skymark.model.errors import (
    DamagedManifestError,
    RunDirectoryError,
    StoreRefusedError,
    UsageError,
)
from skymark.model.manifest import Manifest
from skymark.model.sizes import count_of
from skymark.plain_files import LARGEST_FILE_BYTES, explained, read_below, write_below
from skymark.rundir.directory import TOO_LARGE, RunDirectory
from skymark.rundir.layout import MANIFEST, MOST_BYTES, MOST_FILES, RUN_FILE, SUMS
from skymark.rundir.mending import require_records_of
from skymark.rundir.reader import parsed_manifest, read_sums
from skymark.store.kinds import RunSource, attempts

LAST = (SUMS, MANIFEST)
ATTEMPTS = 5
LONGEST_WAIT_S = 8.0
"""Longest wait between two attempts to read from an unreachable store."""


def require_empty(directory: Path) -> None:
    """Refuse a directory for a fetched run that has something in it.

    Raises:
        UsageError: it has, or it is no directory.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise UsageError(f"{directory} is not empty; name a new directory")


def fetch(
    source: RunSource,
    directory: Path,
    *,
    keep: Collection[str] = (),
    only: Callable[[str], bool] = lambda _: True,
    announce: Callable[[str], None] = lambda _: None,
    fetched: Callable[[str, bytes], None] = lambda *_: None,
) -> list[str]:
    """Fetch every file of a run into a directory, and compare them with the run's own digests.

    Other files in the store are ignored. The digests and the manifest come last and survive a power
    cut, so a directory with a manifest is complete.

    Args:
        source: the stored run.
        directory: made if absent.
        keep: intact paths on disk, which may be newer and stay.
        only: selects the paths to fetch.
        announce: gets messages about the progress.
        fetched: gets the path and content of each file, from several threads.

    Returns:
        The paths of missing, too large or damaged files, by the run's digests. The list of digests
        itself if it is unreadable.

    Raises:
        FileNotFoundError: there is no run.
        StoreRefusedError: it is no run of skymark's: too large, or without a manifest.
        StoreError: the store cannot be read.
        StorageFullError: the directory cannot be written.
    """
    sizes, oversized = _acceptable(source)
    wanted = [path for path in sizes if path not in keep and only(path)]
    announce(f"fetching {count_of(len(wanted), 'file')} from {source.url}")
    left = [path for path in oversized if path not in keep and only(path)]
    for path in left:
        announce(f"{source.url}/{path} {TOO_LARGE}: it stays there")

    def bring(path: str) -> None:
        data = _attempts()(source.get, path)
        with explained(directory / path):
            write_below(directory, path, data)
        fetched(path, data)

    with ThreadPoolExecutor(source.parallel) as pool:
        brought = [pool.submit(bring, path) for path in wanted if path not in LAST]
        try:
            for bringing in brought:
                bringing.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    for path in LAST:
        if path in wanted:
            bring(path)
    differing = _differing(directory, wanted)
    return [*differing, *(path for path in left if path not in differing)]


def manifest_in(source: RunSource) -> Manifest | None:
    """Return the manifest of a stored run; None if it is damaged.

    Raises:
        FileNotFoundError: there is none.
        RunDirectoryError: a newer skymark made it.
        StoreError: the store cannot be read.
    """
    data = _attempts()(source.get, MANIFEST)
    try:
        return parsed_manifest(data, source.url)
    except DamagedManifestError:
        return None


def recover_manifest(source: RunSource, directory: Path) -> bool:
    """Take the manifest of a run from a store; returns whether it was whole.

    Raises:
        RunDirectoryError: the store's is of another plan than the records on disk.
        StoreError: the store cannot be read.
    """
    try:
        data = _attempts()(source.get, MANIFEST)
        manifest = parsed_manifest(data, source.url)
    except (FileNotFoundError, DamagedManifestError):
        return False
    with explained(directory / MANIFEST):
        require_records_of(RunDirectory(directory), manifest)
        write_below(directory, MANIFEST, data)
    return True


def require_same_run(source: RunSource, sizes: Mapping[str, int], manifest: Manifest) -> None:
    """Refuse to replace another plan's run; a damaged manifest does not count.

    Raises:
        RunDirectoryError: it holds another plan's run.
        StoreError: the store cannot be read.
    """
    theirs = manifest_in(source) if MANIFEST in sizes else None
    if theirs is not None and theirs.plan_hash != manifest.plan_hash:
        cells = count_of(len(theirs.cells), "cell")
        raise RunDirectoryError(
            f"{source.url} holds another plan's run ({theirs.profile}, {cells}), "
            "which is not replaced; choose another address"
        )


def _acceptable(source: RunSource) -> tuple[dict[str, int], list[str]]:
    """Return the sizes of the run's files by path, and the paths of files that are too large."""
    listed = _attempts()(source.sizes)
    sizes = {path: size for path, size in listed.items() if RUN_FILE.fullmatch(path)}
    if MANIFEST not in sizes:
        raise FileNotFoundError(f"{source.url} holds no run: there is no {MANIFEST}")
    if not all(isinstance(size, int) and size >= 0 for size in sizes.values()):
        raise StoreRefusedError(
            f"{source.url} lists files of impossible sizes; nothing was fetched"
        )
    oversized = [path for path in sizes if sizes[path] > LARGEST_FILE_BYTES and path not in LAST]
    for path in oversized:
        del sizes[path]
    total = sum(sizes.values())
    most = max(sizes[path] for path in LAST if path in sizes)
    if most > LARGEST_FILE_BYTES or len(sizes) > MOST_FILES or total > MOST_BYTES:
        raise StoreRefusedError(
            f"{source.url} has {len(sizes):,} files of {total:,} bytes, its {MANIFEST} or {SUMS} "
            f"of {most:,}: more than any run of skymark's; nothing was fetched"
        )
    return sizes, oversized


def _differing(directory: Path, fetched: Collection[str]) -> list[str]:
    """Return the fetched or missing files that differ from the run's digests."""
    try:
        digests = read_sums(directory)
    except FileNotFoundError:  # the run was interrupted
        return []
    except (OSError, ValueError):
        return [SUMS]
    return [
        path
        for path, digest in digests.items()
        if (path in fetched or not os.path.lexists(directory / path))
        and digest != _digest(directory, path)
    ]


def _digest(directory: Path, path: str) -> str | None:
    try:
        return sha256(read_below(directory, path)).hexdigest()
    except (OSError, ValueError):
        return None


def _attempts() -> Retrying:
    return attempts(stop_after_attempt(ATTEMPTS), longest_wait_s=LONGEST_WAIT_S)
