"""Prepared caches: built once from a recipe, shared by all jobs, and never written to again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from skymark.cache.entry_building import build_entry
from skymark.cache.library_variables import library_variables
from skymark.cache.manifest import require_sound, verify_strangers
from skymark.cache.recipe import Recipe
from skymark.cache.source_changes import changes
from skymark.model.errors import CacheError

PREPARED = "prepared"
"""Folder of the cache's root that the entries lie in."""
GROWTH = 3.0
"""Disk that a build takes, by the size of its sources: the download, and the Arrow form of it."""


def prepared_entry(root: Path, recipe: Recipe, *, sealed: bool) -> Path:
    """Return the directory of a recipe's cache, there or not."""
    return root.resolve() / PREPARED / f"{recipe.name}{'-sealed' if sealed else ''}"


def build_prepared(
    root: Path,
    recipe: Recipe,
    *,
    policy: str,
    sealed: bool = False,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Build the cache of a recipe, if no process has, and return its directory.

    Raises:
        CacheError: it cannot be built, or its sources changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    entry = prepared_entry(root, recipe, sealed=sealed)

    build_entry(
        entry,
        recipe,
        lambda content: recipe.fill(library_variables(content, recipe.folder)),
        policy=policy,
        versions=recipe.versions,
        snippet=recipe.snippet,
        sealed=sealed,
        growth=GROWTH,
        title=f"building the cache of {recipe.data_set}",
        announce=announce,
    )
    return entry


def sealed_entry(
    root: Path, recipe: Recipe, announce: Callable[[str], None] = lambda _: None
) -> Path:
    """Return the sealed cache of a recipe, checked.

    Raises:
        CacheError: there is none, it is damaged, or its source has changed since; the message
            names it.
    """
    entry = prepared_entry(root, recipe, sealed=True)
    if entry.is_dir():
        require_sound(entry)
        verify_strangers(entry, announce)
        return entry
    for other in sorted(entry.parent.glob(f"{recipe.data_set}-*-sealed")):
        manifest = require_sound(other)
        if changed := next(changes(manifest.sources), None):
            raise CacheError(
                f"{changed.text}, since {other} was built; build it anew with `skymark cache build "
                "--cache-policy prebuilt`"
            )
    raise CacheError(
        f"there is no sealed cache of {recipe.data_set} in {entry.parent} for these sources and "
        f"{recipe.versions or 'this command'}; build it first: skymark cache build "
        "--cache-policy prebuilt, with the same options"
    )
