"""Kept image features in a bucket: fetched before workers start, and stored when they have ended.

Workers have no keys of a bucket: they read and write a directory of the cache.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from skymark.model.base import digest_of
from skymark.model.errors import StoreError, UsageError
from skymark.model.record import Cell
from skymark.plain_files import write_whole
from skymark.suites.clip.reading.fetching import splits_of
from skymark.suites.clip.reading.opening import slug_of
from skymark.suites.clip.specification import ClipSpecification

if TYPE_CHECKING:
    from skymark.store.kinds import Store

ADDRESS = "://"
SUFFIX = ".safetensors"
UNSAFE = re.compile(r"[^\w.+-]")


def checked_address(address: str) -> str:
    """Return the address of a bucket or a mounted directory for features.

    Raises:
        UsageError: it names no such store.
    """
    from skymark.store.kinds import kind_of  # workers have no clients of stores

    if not kind_of(address).address.startswith(("s3://", "file://")):
        raise UsageError(f"--features {address}: give a directory or s3://BUCKET/PREFIX")
    if not address.rstrip("/").partition(ADDRESS)[2].partition("/")[2]:
        raise UsageError(f"--features {address} needs a prefix, such as {address}/features")
    return address.rstrip("/")


def features_directory(place: str, cache: Path) -> Path:
    """Return the directory that workers read and write: the user's own, or one of the cache."""
    if ADDRESS not in place:
        return Path(place)
    return cache / "clip" / "features" / digest_of(place)[:16]


def beginning_of(slug: str, model: str) -> str:
    """Return the beginning of the names of files with a split's features of a model.

    Args:
        slug: of the split.
        model: name of the architecture.
    """
    return f"{slug}.{UNSAFE.sub('_', model)[:100]}."


def fetch_features(cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
    """Fetch the features that cells may use, from all their stores.

    Raises:
        StoreError: a store cannot be read.
    """
    for place, beginnings in _by_place(cells).items():
        directory = features_directory(place, cache)
        with closing(_store(place)) as store:
            for name, size in store.sizes().items():
                file = directory / name
                is_whole = file.exists() and file.stat().st_size == size
                if name.startswith(beginnings) and name.endswith(SUFFIX) and not is_whole:
                    announce(f"fetching {place}/{name}")
                    directory.mkdir(parents=True, exist_ok=True)
                    write_whole(file, store.get(name), durable=False)


def store_features(cells: Iterable[Cell], cache: Path, announce: Callable[[str], None]) -> None:
    """Store new features of cells; a store that takes none is said, and stops nothing."""
    for place, beginnings in _by_place(cells).items():
        directory = features_directory(place, cache)
        try:
            with closing(_store(place)) as store:
                known = store.sizes()
                for file in sorted(directory.glob(f"*{SUFFIX}")):
                    is_new = known.get(file.name) != file.stat().st_size
                    if file.name.startswith(beginnings) and is_new:
                        store.put(file.name, file.read_bytes())
        except (StoreError, OSError) as error:
            announce(f"features in {directory} are not stored in {place}: {error}")


def _by_place(cells: Iterable[Cell]) -> dict[str, tuple[str, ...]]:
    """Return the beginnings of the names of cells' features, by the address of their store."""
    found: dict[str, dict[str, None]] = {}
    for cell in cells:
        if cell.reuse is not None and ADDRESS in cell.reuse:
            one = ClipSpecification.of(cell)
            for split in splits_of(one):
                name = beginning_of(slug_of(one.source, split), one.model.architecture)
                found.setdefault(cell.reuse, {})[name] = None
    return {place: tuple(names) for place, names in found.items()}


def _store(place: str) -> Store:
    from skymark.store.kinds import open_store

    address, _, name = place.rpartition("/")
    return open_store(address, name)
