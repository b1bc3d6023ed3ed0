"""Continuation of runs: from their directory, and from the stores that hold more of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from skymark.model.errors import (
    DamagedManifestError,
    RunDirectoryError,
    StoreUnavailableError,
)
from skymark.model.manifest import Manifest
from skymark.model.requests import DEFAULT_RESULTS
from skymark.rundir.directory import RunDirectory, require_same_plan
from skymark.rundir.layout import MANIFEST
from skymark.rundir.mending import damaged_logs, damages, mend
from skymark.rundir.newest import point_at
from skymark.store.fetching import fetch, manifest_in
from skymark.store.store import Store
from skymark.store.storing import Storing

Held = Mapping[Store, Mapping[str, int] | None]
"""Sizes in bytes of the run's files by path in each store; None of a store that is away."""


def held_in(stores: Mapping[str, Store], announce: Callable[[str], None]) -> Held:
    """Return the run's files in each store, after a test that the store accepts more.

    Raises:
        StoreRefusedError: a store will not take the run.
    """
    return {store: _sizes(store, announce) for store in stores.values()}


def begin_or_resume(
    path: Path,
    manifest: Manifest,
    held: Held,
    storing: Storing,
    announce: Callable[[str], None],
    *,
    resume: bool,
    within: Path = DEFAULT_RESULTS,
) -> RunDirectory:
    """Return the directory of a new run, or of the same plan's run that continues.

    Files that are absent or damaged in the directory come from a store first. A file that is
    damaged everywhere is set aside and its cell measured again; a manifest is made anew.

    Args:
        path: the run's directory.
        manifest: manifest of a new run here.
        held: result of `held_in`.
        storing: uploader, which learns the stores' present contents.
        announce: callback for messages about fetched files.
        resume: go on with a run of the same plan.
        within: directory of runs, whose link to the newest leads to this one.

    Raises:
        RunDirectoryError: the directory or a store holds another plan's run, or this one without
            `resume`, or the directory cannot be written.
        StoreUnavailableError: there is no run here, and a store that may have it is unavailable.
    """
    require_same_plan_here(path, manifest, resume=resume)
    stored = [store for store, sizes in held.items() if sizes and MANIFEST in sizes]
    damaged = damages(path) if stored else damaged_logs(path) if resume else {}
    for store, sizes in held.items():
        storing.expect(store, sizes or {})
        if sizes is None and resume and not (path / MANIFEST).exists():
            raise StoreUnavailableError(
                f"there is no run in {path} to continue, and {store.url} cannot be read now; try "
                "again later, or leave out --resume to begin anew"
            )
        if store in stored:
            _require_same_plan_in(store, manifest, resume=resume)
            if damaged:
                announce(f"{', '.join(damaged)} damaged in {path}; looking in {store.url}")
            whole = set(RunDirectory(path).files()) - damaged.keys()
            seen = partial(storing.seen, store)
            fetch(store, path, keep=whole, announce=announce, fetched=seen)
            damaged = damages(path)
    if resume:
        for mended in mend(path, manifest, damaged):
            announce(mended)
    directory = RunDirectory.create(path, manifest, resume=resume)
    if manifest.duet is None or manifest.duet.side == "candidate":
        point_at(path, within)
    return directory


def require_same_plan_here(path: Path, manifest: Manifest, *, resume: bool) -> None:
    """Refuse a directory of another plan, before anything in it is touched.

    Args:
        path: the run's directory.
        manifest: of the run as it would begin here.
        resume: go on with a run of the same plan.

    Raises:
        RunDirectoryError: it holds another plan's run, or this one without `resume`.
    """
    try:
        theirs = RunDirectory(path).manifest()
    except DamagedManifestError:
        if not resume:
            raise
    except RunDirectoryError:
        if os.path.lexists(path / MANIFEST):
            raise
    else:
        require_same_plan(theirs, manifest, os.fspath(path), resume=resume)


def _sizes(store: Store, announce: Callable[[str], None]) -> Mapping[str, int] | None:
    """Return the run's files in a store, with sizes; None if it is unavailable for now."""
    try:
        store.check()
        return store.sizes() if store.live else {}
    except StoreUnavailableError as error:
        announce(f"{error}; going on, and trying again while the run goes")
        return None


def _require_same_plan_in(store: Store, manifest: Manifest, *, resume: bool) -> None:
    """Refuse a store that holds another plan's run, or files of an unknown run."""
    theirs = manifest_in(store)
    if theirs is not None:
        require_same_plan(theirs, manifest, store.url, resume=resume)
    elif not resume:
        raise RunDirectoryError(
            f"{store.url} holds no readable run; add --resume to continue what is there, choose "
            "another --output, or remove it"
        )
