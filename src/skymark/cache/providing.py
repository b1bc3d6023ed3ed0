"""Caches prepared from a recipe once, and provided to one job: before it, and after."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from skymark.cache.building import build_entry
from skymark.cache.jobs import job_directory
from skymark.cache.location import DATA_VARIABLE, MODULES, Policy, folder_of, library_variables
from skymark.cache.manifest import (
    CONTENT,
    is_strangers,
    lay_over,
    require_sound,
    verify_strangers,
)
from skymark.cache.recipe import Recipe
from skymark.cache.sharing import root_of_jobs, using
from skymark.cache.sources import changes, require_unchanged
from skymark.model.errors import CacheError, UsageError

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
    sealed: bool = False,
    announce: Callable[[str], None] = lambda _: None,
) -> Path:
    """Build the cache of a recipe, if no process has, and return its directory.

    Raises:
        CacheError: it cannot be built, or its sources changed meanwhile.
        StorageFullError: the disk has no room for it.
    """
    entry = prepared_entry(root, recipe, sealed=sealed)

    def fill(content: Path) -> None:
        announce(f"building the cache of {recipe.data_set} in {entry}")
        recipe.fill(library_variables(content, recipe.folder))
        require_unchanged(recipe.sources)

    described = partial(recipe.manifest, versions=recipe.versions, sealed=sealed)
    needed_bytes = int(GROWTH * recipe.known_bytes)
    build_entry(entry, fill, described, needed_bytes=needed_bytes, announce=announce)
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


PLAIN = "plain"
"""Folder that libraries share on their own, under `Policy.STAGGERED`."""
STAGGER_S = 5.0
"""Seconds between the starts of two jobs, under `Policy.STAGGERED`."""


@contextmanager
def provided(
    policy: Policy,
    recipe: Recipe | None,
    root: Path,
    variables: Mapping[str, str],
    announce: Callable[[str], None] = lambda _: None,
    *,
    addresses: Sequence[str] = (),
    turn: int = 0,
    stagger_s: float = STAGGER_S,
) -> Iterator[dict[str, str]]:
    """Prepare a cache for a job, protect it from removal, and clean up after the job.

    Args:
        policy: any policy except `Policy.AUTO`, which the caller resolves.
        recipe: recipe of the data set; None if the policy needs none.
        root: directory of the caches.
        variables: environment variables, which identify the job.
        announce: callback for messages about progress.
        addresses: addresses of the data set, without a recipe.
        turn: number of jobs that start before this one.
        stagger_s: seconds between the starts of two jobs.

    Yields:
        The variables to give to the job.

    Raises:
        UsageError: the policy needs a data set.
        CacheError: the cache cannot be built or used.
        StorageFullError: the disk has no room for it.
    """
    root = root.resolve()
    if policy.needs_data_set and recipe is None:
        raise UsageError(f"--cache-policy {policy} prepares a data set; name its files")
    asked = addresses if recipe is None else [source.address for source in recipe.sources]
    place = root_of_jobs(root, policy, asked, announce)
    with ExitStack() as stack:
        lower, more = None, {}
        if recipe is not None and policy.converts:
            from skymark.cache.conversion import convert, converted_recipe

            converted = convert(root, recipe, stack, announce=announce)
            more[DATA_VARIABLE] = str(converted)
            recipe = converted_recipe(recipe, converted)
        if recipe is not None and policy in {Policy.SHARED, Policy.PARQUET_SHARED}:
            stack.enter_context(using(prepared_entry(root, recipe, sealed=False), announce))
            lower = build_prepared(root, recipe, announce=announce)
        elif recipe is not None and policy is Policy.PREBUILT:
            stack.enter_context(using(prepared_entry(root, recipe, sealed=True), announce))
            lower = sealed_entry(root, recipe, announce)
        if policy is Policy.STAGGERED:
            wait_for_turn(turn, stagger_s, announce=announce)
            directory = root / PLAIN
        else:
            directory = stack.enter_context(job_directory(place, variables, announce))
        if lower is not None:
            lay_over(lower / CONTENT, directory)
            if is_strangers(lower):
                shutil.rmtree(directory / MODULES, ignore_errors=True)
        announce(f"cache policy {policy}: {lower or directory}")
        folder = folder_of(addresses) if recipe is None else recipe.folder
        yield {**library_variables(directory, folder), **more}


def wait_for_turn(
    turn: int,
    stagger_s: float = STAGGER_S,
    *,
    announce: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait for this job's turn, so that simultaneous jobs start one after another."""
    if turn:
        announce(f"waiting {turn * stagger_s:g} s, for {turn} jobs come first")
        time.sleep(turn * stagger_s)
