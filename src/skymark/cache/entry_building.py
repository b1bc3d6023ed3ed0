"""Building of entries that a recipe fills: verified against their sources, with a manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from skymark.cache.building import build_once, explained_if_full
from skymark.cache.manifest import (
    CONTENT,
    CacheManifest,
    digests_of,
    is_whole,
    verify_strangers,
    write_manifest,
)
from skymark.cache.recipe import Recipe
from skymark.cache.source_changes import changes
from skymark.model.errors import CacheError


def build_entry(
    entry: Path,
    recipe: Recipe,
    fill: Callable[[Path], None],
    *,
    policy: str,
    versions: Mapping[str, str],
    snippet: str,
    sealed: bool,
    growth: float,
    title: str,
    announce: Callable[[str], None],
) -> None:
    """Build an entry, if no process has.

    Args:
        entry: its directory.
        recipe: of the data set.
        fill: fills the empty directory of its content.
        policy: that it is built for.
        versions: of the libraries that build it.
        snippet: the call that reads it.
        sealed: whether nobody may write to it afterwards.
        growth: disk that it takes, by the size of its sources.
        title: of the work, as it is announced.
        announce: told what is done.

    Raises:
        CacheError: it cannot be built, or its sources changed meanwhile.
        StorageFullError: the disk has no room for it.
    """

    def make(part: Path) -> None:
        announce(f"{title} in {entry}")
        content = part / CONTENT
        content.mkdir()
        fill(content)
        if changed := next(changes(recipe.sources), None):
            raise CacheError(f"{changed.text}, while the cache was built; build it again")
        manifest = CacheManifest(
            data_set=recipe.data_set,
            fingerprint=recipe.fingerprint,
            policy=policy,
            sources=recipe.sources,
            versions=dict(versions),
            built_at=datetime.now(UTC),
            sealed=sealed,
            snippet=snippet,
            files=digests_of(content),
        )
        write_manifest(part, manifest)

    known = sum(one.size_bytes or 0 for one in recipe.sources)  # of some the size is not told
    needed = int(growth * known)
    with explained_if_full(entry):
        build_once(entry, make, is_whole=is_whole, needed_bytes=needed, announce=announce)
    verify_strangers(entry, announce)
