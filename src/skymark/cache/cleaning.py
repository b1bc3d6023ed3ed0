"""Cleaning of the cache: entries go when nobody alive has them, and what dead builders left."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from skymark.cache.building import remove
from skymark.cache.entries import OF_RUNS, RUNS, Entry, entries, entry_of_leftover, leftovers
from skymark.cache.jobs import sweep_jobs
from skymark.cache.sharing import removing
from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class Cleaned(Frozen):
    """What became of an entry."""

    name: str
    size_bytes: int
    kept: str | None = None
    """Why it is still there."""


def clean(
    root: Path,
    names: Collection[str] = (),
    kinds: Collection[str] = (),
    unused_days: float = 0,
    *,
    dry: bool = False,
) -> Iterator[Cleaned]:
    """Remove entries that nobody alive uses; yields each as it goes.

    Args:
        root: directory of the caches.
        names: of the entries, as `entries` has them; none means all.
        kinds: of the entries; none means any.
        unused_days: leave those that were used later.
        dry: remove nothing, and say what would go.

    Raises:
        UsageError: there is no such entry.
    """
    found = list(entries(root))
    if unknown := set(names) - {one.name for one in found}:
        raise UsageError(f"{root} has no {min(unknown)}; `skymark cache list` shows all")
    before = datetime.now(UTC) - timedelta(days=unused_days)
    if not dry:
        for name in sweep_jobs(root):
            yield Cleaned(name=f"jobs/{name}", size_bytes=_size(found, f"jobs/{name}"))
        yield from _sweep(root)
    for one in found:
        wanted = (not names or one.name in names) and (not kinds or one.kind in kinds)
        if not wanted or one.last_used > before or one.kind == "job":
            continue
        yield _clean_one(root, one, dry=dry)


def _clean_one(root: Path, entry: Entry, *, dry: bool) -> Cleaned:
    done = Cleaned(name=entry.name, size_bytes=entry.size_bytes)
    if entry.lease is not None:
        return done.model_copy(update={"kept": entry.lease})
    if os.geteuid() not in {0, entry.path.lstat().st_uid}:
        return done.model_copy(update={"kept": f"it is {entry.owner}'s, who alone may remove it"})
    if dry:
        return done
    with ExitStack() as stack:
        free = stack.enter_context(removing(entry.path))
        if free and entry.kind in OF_RUNS:
            free = stack.enter_context(removing(root / RUNS))
        if not free:
            return done.model_copy(update={"kept": "somebody has just begun to use it"})
        remove(entry.path)
    return done


def _sweep(root: Path) -> Iterator[Cleaned]:
    """Remove what dead builders left."""
    for path in leftovers(root):
        with removing(entry_of_leftover(path)) as free:
            if free:
                remove(path)
                yield Cleaned(name=str(path.relative_to(root)), size_bytes=0)


def _size(found: list[Entry], name: str) -> int:
    return next((one.size_bytes for one in found if one.name == name), 0)
