"""Fetching of data sets to this disk: by http, or from the Hugging Face Hub."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from skymark.cache.sharing import exclusively
from skymark.cache.sources import reached
from skymark.model.base import digest_of
from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import (
    CLASS_FILE,
    LANGUAGE_FILE,
    SHARD_COUNT_FILE,
    TEMPLATE_FILE,
    TYPE_FILE,
    shards_of,
)
from skymark.suites.clip.specification import ClipSpecification, Source

TIMEOUT_S = 60.0
"""Longest time without a byte from a server."""
ATTEMPTS = 3
BLOCK_BYTES = 1 << 20
NOT_FOUND = 404
METADATA = ("*.txt",)
"""Files beside the splits: class names, templates, the data set's type."""


def splits_of(specification: ClipSpecification) -> tuple[str, ...]:
    """Return the splits of a cell: first the scored split, then splits of its linear probe."""
    probe = specification.linear_probe
    if probe is None:
        return (specification.split,)
    others = (probe.train_split, *([probe.val_split] if probe.val_split else []))
    return (specification.split, *others)


def local_directory(source: Source, cache: Path) -> Path:
    """Return the directory of a data set, which may not be fetched yet.

    Raises:
        DataError: the data set is on the hub and was not fetched.
    """
    if source.kind == "directory":
        return Path(source.address)
    if source.kind == "hub":
        return snapshot(source.address, (), offline=True)
    slug = re.sub(r"[^\w.+-]", "_", source.name)[:80]
    return cache / "webdataset" / f"{slug}-{digest_of(source.address)[:12]}"


def fetch(
    source: Source,
    splits: tuple[str, ...],
    cache: Path,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Fetch missing splits of a data set, and return its directory.

    Raises:
        DataError: the hub or server is not available, or lacks the data set or split.
    """
    if source.kind == "hub":
        announce(f"fetching {source.name} from the hub")
        return snapshot(source.address, splits)
    if source.kind == "url":
        return download(source.address, splits, local_directory(source, cache), announce)
    directory = Path(source.address)
    if not directory.is_dir():
        raise DataError(f"{directory} is no directory; check the name of the data set")
    return directory


def download(
    address: str, splits: tuple[str, ...], directory: Path, announce: Callable[[str], None]
) -> Path:
    """Download the splits of a data set in CLIP_benchmark's layout to a directory.

    Processes that want the same data set wait for the first, so each file is fetched once.

    Raises:
        DataError: the server is not available, or lacks a file.
    """
    if urlsplit(address).scheme not in {"http", "https"}:
        raise DataError(f"{address} is no http or https address")
    directory.mkdir(parents=True, exist_ok=True)
    with exclusively(directory, announce):
        for name in (TYPE_FILE, LANGUAGE_FILE, CLASS_FILE, TEMPLATE_FILE):
            _fetch(address, name, directory, required=False)
        for split in splits:
            _fetch(address, f"{split}/{SHARD_COUNT_FILE}", directory)
            for shard in shards_of(directory, split):
                name = f"{split}/{shard.name}"
                if not (directory / name).exists():
                    announce(f"fetching {address}/{name}")
                _fetch(address, name, directory)
    return directory


def _fetch(address: str, name: str, directory: Path, *, required: bool = True) -> None:
    """Fetch a missing file; it gets its name when it is complete."""
    file = directory / name
    absent = file.with_name(f".{file.name}.absent")
    if file.exists() or (not required and absent.exists()):
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    url = f"{address.rstrip('/')}/{quote(name)}"
    for attempt in range(ATTEMPTS):
        try:
            _stream(url, file)
            return
        except HTTPError as error:
            if error.code == NOT_FOUND and not required:
                absent.touch()
                return
            if error.code < 500 or attempt == ATTEMPTS - 1:
                raise DataError(f"{url}: {error}; check the address of the data set") from error
        except (URLError, OSError, HTTPException, ValueError) as error:
            if attempt == ATTEMPTS - 1:
                raise DataError(f"{url} could not be fetched ({error}); run again") from error
        time.sleep(2.0**attempt)


def _stream(url: str, file: Path) -> None:
    part = file.with_name(f".{file.name}.{secrets.token_hex(4)}.part")
    request = Request(url, headers={"User-Agent": "skymark"})  # noqa: S310 -- http(s) was checked
    try:
        with urlopen(request, timeout=TIMEOUT_S) as answer, part.open("wb") as out:  # noqa: S310
            received = 0
            while block := answer.read(BLOCK_BYTES):
                received += out.write(block)
            expected = answer.headers.get("Content-Length")
            if expected is not None and int(expected) != received:
                raise OSError(f"{received:,} of {int(expected):,} bytes came")
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)


def snapshot(address: str, splits: tuple[str, ...], *, offline: bool = False) -> Path:
    """Return the directory of a data set from the hub, with the files of some splits.

    The hub's client fetches missing files, each whole or not at all; processes that want the same
    file wait for one another.

    Args:
        address: ``OWNER/NAME``, or ``OWNER/NAME@REVISION``.
        splits: to fetch.
        offline: use this disk only.

    Raises:
        DataError: the hub is not available, lacks the data set, or the disk does not have it.
    """
    if not offline and (there := _complete(address, splits)) is not None:
        return there
    name, _, revision = address.partition("@")
    patterns = [*METADATA, *(f"{split}/*" for split in splits)]
    with reached(address) as hub:
        found = Path(
            hub.snapshot_download(
                name,
                repo_type="dataset",
                revision=revision or None,
                allow_patterns=patterns,
                local_files_only=offline,
            )
        )
    for split in splits:
        if not (found / split).is_dir():
            raise DataError(f"{address} has no split {split!r} on the hub")
    return found


def _complete(address: str, splits: tuple[str, ...]) -> Path | None:
    """Return the directory if this disk has all shards of the splits: the hub may be offline.

    The client gives a file its name when it is complete.
    """
    try:
        found = snapshot(address, (), offline=True)
        shards = [shard for split in splits for shard in shards_of(found, split)]
    except DataError:
        return None
    return found if all(shard.exists() for shard in shards) else None
