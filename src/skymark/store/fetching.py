"""Bring a run from a store into a directory. What comes from a store is data, never trusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter

from skymark.model.errors import StoreRefusedError, StoreUnavailableError
from skymark.run.directory import SUMS
from skymark.store.store import Source
from skymark.whole_files import LARGEST_FILE_BYTES, explained, write_whole

MOST_FILES = 500_000
MOST_BYTES = 50 << 30
"""Bounds of a whole run; beyond them it is none of skymark's."""
ATTEMPTS = 5

Result = TypeVar("Result")

_NAME = r"[\w@=+-][\w@=+.-]{0,240}"
RUN_FILE = re.compile(
    rf"manifest\.json|{SUMS}|records/{_NAME}\.json|samples/{_NAME}\.parquet|logs/{_NAME}\.log"
    rf"|rounds/{_NAME}/\d{{1,6}}\.json",
    re.ASCII,
)
"""The paths that a run has. Whatever else a store lists is left there."""


def fetch(
    source: Source,
    directory: Path,
    *,
    keep: bool = False,
    announce: Callable[[str], None] = lambda _: None,
    fetched: Callable[[str, bytes], None] = lambda *_: None,
) -> list[str]:
    """Bring every file of a run into a directory, and compare them with the run's own digests.

    The manifest comes last: a directory that has one has all the rest.

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
    sizes = _wanted(source)
    wanted = [path for path in sizes if not (keep and (directory / path).exists())]
    announce(f"fetching {len(wanted)} files from {source.url}")

    def bring(path: str) -> None:
        data = _again(lambda: source.get(path))
        with explained(directory / path):
            write_whole(directory / path, data, durable=False)
        fetched(path, data)

    with ThreadPoolExecutor(source.parallel) as pool:
        brought = [pool.submit(bring, path) for path in wanted if path != "manifest.json"]
        try:
            for one in brought:
                one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if "manifest.json" in wanted:
        bring("manifest.json")
    return _differing(directory, wanted)


def _wanted(source: Source) -> dict[str, int]:
    """Return the sizes of the run's files by path, once they are known to be acceptable."""
    listed = _again(source.sizes)
    sizes = {path: size for path, size in listed.items() if RUN_FILE.fullmatch(path)}
    if "manifest.json" not in sizes:
        raise FileNotFoundError(f"{source.url} holds no run: there is no manifest.json")
    largest = max(sizes, key=lambda path: sizes[path])
    total = sum(sizes.values())
    if sizes[largest] > LARGEST_FILE_BYTES or len(sizes) > MOST_FILES or total > MOST_BYTES:
        raise StoreRefusedError(
            f"{source.url} has {len(sizes):,} files of {total:,} bytes, the largest {largest} of "
            f"{sizes[largest]:,}: more than any run of skymark's; nothing was fetched"
        )
    return sizes


def _differing(directory: Path, fetched: Collection[str]) -> list[str]:
    """Return the fetched files that are not what the run's digests say, and those that lack."""
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


def _again(call: Callable[[], Result]) -> Result:
    """Return what a call returns, after a few attempts where the store is away."""
    retrying = Retrying(
        retry=retry_if_exception_type(StoreUnavailableError),
        wait=wait_exponential_jitter(multiplier=0.5, max=8),
        stop=stop_after_attempt(ATTEMPTS),
        reraise=True,
    )
    return retrying(call)
