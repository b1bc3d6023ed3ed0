"""Data sets that lie elsewhere, brought to this disk: each once, in a directory of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from skymark.model.base import digest_of
from skymark.model.errors import DataError
from skymark.suites.clip.specification import ClipSpecification, Source


def splits_of(specification: ClipSpecification) -> tuple[str, ...]:
    """Return the splits that a cell reads, the one to score first."""
    probe = specification.linear_probe
    if probe is None:
        return (specification.split,)
    others = (probe.train_split, *([probe.val_split] if probe.val_split else []))
    return (specification.split, *others)


def local_directory(source: Source, cache: Path) -> Path:
    """Return where a data set lies, or would lie once it is fetched.

    Raises:
        DataError: it is on the hub and was not fetched.
    """
    if source.kind == "directory":
        return Path(source.address)
    if source.kind == "hub":
        from skymark.suites.clip.reading.elsewhere import snapshot

        return snapshot(source.address, (), offline=True)
    slug = re.sub(r"[^\w.+-]", "_", source.name)[:80]
    return cache / "webdataset" / f"{slug}-{digest_of(source.address)[:12]}"


def fetch(
    source: Source,
    splits: tuple[str, ...],
    cache: Path,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Bring splits of a data set to this disk, if they are not there; returns its directory.

    Raises:
        DataError: the hub or server is away, or has no such data set or split.
    """
    if source.kind == "hub":
        from skymark.suites.clip.reading.elsewhere import snapshot

        announce(f"fetching {source.name} from the hub")
        return snapshot(source.address, splits)
    if source.kind == "url":
        from skymark.suites.clip.reading.elsewhere import download

        return download(source.address, splits, local_directory(source, cache), announce)
    directory = Path(source.address)
    if not directory.is_dir():
        raise DataError(f"{directory} is no directory; check the name of the data set")
    return directory
