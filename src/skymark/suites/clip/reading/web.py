"""Data sets below an address, fetched file by file: each whole or not at all."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from skymark.cache.sharing import exclusively
from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import (
    CLASS_FILE,
    LANGUAGE_FILE,
    SHARD_COUNT_FILE,
    TEMPLATE_FILE,
    TYPE_FILE,
    shards_of,
)

TIMEOUT_S = 60.0
"""Time without a byte after which a server counts as away."""
ATTEMPTS = 3
BLOCK_BYTES = 1 << 20
NOT_FOUND = 404


def download(
    address: str, splits: tuple[str, ...], directory: Path, announce: Callable[[str], None]
) -> Path:
    """Bring the splits of a data set in CLIP_benchmark's layout to a directory.

    Processes that want the same data set wait for the first, so each file is fetched once.

    Raises:
        DataError: the server is away, or lacks a file.
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
    """Fetch one file, if it is not there; it gets its name when all its bytes have come."""
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
