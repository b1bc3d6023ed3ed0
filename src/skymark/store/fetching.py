"""Fetching of a run from a store into a directory; its paths and bytes are never trusted."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

from tenacity import Retrying, stop_after_attempt

from skymark.model.errors import StoreRefusedError
from skymark.run.layout import MANIFEST, RUN_FILE, SUMS
from skymark.store.attempts import attempts
from skymark.store.store import RunSource
from skymark.whole_files import LARGEST_FILE_BYTES, explained, write_whole

MOST_FILES = 500_000
MOST_BYTES = 50 << 30
"""Bounds of a whole run; a larger one is refused."""
ATTEMPTS = 5
LONGEST_WAIT_S = 8.0
"""Between two attempts to read from a store that is away."""


def fetch(
    source: RunSource,
    directory: Path,
    *,
    keep: bool = False,
    announce: Callable[[str], None] = lambda _: None,
    fetched: Callable[[str, bytes], None] = lambda *_: None,
) -> list[str]:
    """Fetch every file of a run into a directory, and compare them with the run's own digests.

    What else the store lists is left there. The manifest comes last: a directory that has one has
    all the rest.

    Args:
        source: where the run lies.
        directory: made if absent.
        keep: leave files that are there already as they are, because they are newer.
        announce: told what is being fetched.
        fetched: told the path and content of each file, from several threads.

    Returns:
        The paths whose content does not agree with the run's digests, or is not there.

    Raises:
        FileNotFoundError: there is no run.
        StoreRefusedError: what lies there is no run of skymark's: too large, or without a manifest.
        StoreError: the store cannot be read.
        StorageFullError: the directory cannot be written.
    """
    sizes = _acceptable(source)
    wanted = [path for path in sizes if not (keep and (directory / path).exists())]
    announce(f"fetching {len(wanted)} files from {source.url}")

    def bring(path: str) -> None:
        data = _attempts()(source.get, path)
        with explained(directory / path):
            write_whole(directory / path, data, durable=False)
        fetched(path, data)

    with ThreadPoolExecutor(source.parallel) as pool:
        brought = [pool.submit(bring, path) for path in wanted if path != MANIFEST]
        try:
            for one in brought:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if MANIFEST in wanted:
        bring(MANIFEST)
    return _differing(directory, wanted)


def _acceptable(source: RunSource) -> dict[str, int]:
    """Return the sizes of the run's files by path, or refuse a run that is too large."""
    listed = _attempts()(source.sizes)
    sizes = {path: size for path, size in listed.items() if RUN_FILE.fullmatch(path)}
    if MANIFEST not in sizes:
        raise FileNotFoundError(f"{source.url} holds no run: there is no {MANIFEST}")
    largest = max(sizes, key=lambda path: sizes[path])
    total = sum(sizes.values())
    if sizes[largest] > LARGEST_FILE_BYTES or len(sizes) > MOST_FILES or total > MOST_BYTES:
        raise StoreRefusedError(
            f"{source.url} has {len(sizes):,} files of {total:,} bytes, the largest {largest} of "
            f"{sizes[largest]:,}: more than any run of skymark's; nothing was fetched"
        )
    return sizes


def _differing(directory: Path, fetched: Collection[str]) -> list[str]:
    """Return the files that differ from the run's digests: of those fetched, or missing."""
    try:
        lines = (directory / SUMS).read_text("utf-8").splitlines()
    except FileNotFoundError:  # the run was interrupted
        return []
    digests = {path: digest for digest, _, path in (line.partition("  ") for line in lines)}
    return [
        path
        for path, digest in digests.items()
        if RUN_FILE.fullmatch(path)
        and (path in fetched or not (directory / path).exists())
        and digest != _digest(directory / path)
    ]


def _digest(path: Path) -> str | None:
    return sha256(path.read_bytes()).hexdigest() if path.exists() else None


def _attempts() -> Retrying:
    return attempts(stop_after_attempt(ATTEMPTS), longest_wait_s=LONGEST_WAIT_S)
