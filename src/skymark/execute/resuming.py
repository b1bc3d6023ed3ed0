"""Take up a run where it was left: from its directory, and from the stores that hold more of it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from skymark.execute.observer import Observer
from skymark.model.errors import RunDirectoryError, StoreUnavailableError
from skymark.model.manifest import Manifest
from skymark.model.schema import parse_manifest
from skymark.run.directory import RunDirectory, require_same_plan
from skymark.store.fetching import fetch
from skymark.store.store import Store
from skymark.store.storing import Storing

Held = Mapping[Store, Mapping[str, int] | None]
"""Sizes in bytes of the run's files by path in each store; None of a store that is away."""


def held_in(stores: Mapping[str, Store], observer: Observer) -> Held:
    """Return what each store holds of the run, once it is proved to take more.

    Raises:
        StoreRefusedError: a store will not take the run.
    """
    return {store: _sizes(store, observer) for store in stores.values()}


def begin_or_resume(
    path: Path,
    manifest: Manifest,
    held: Held,
    storing: Storing,
    observer: Observer,
    *,
    resume: bool,
) -> RunDirectory:
    """Return the directory of a run that begins, or of the same plan's run that goes on.

    What a store has and the directory has not is brought first.

    Args:
        path: the run's directory.
        manifest: of the run as it would begin here.
        held: of `held_in`.
        storing: told what the stores hold already.
        observer: told what is fetched.
        resume: go on with a run of the same plan.

    Raises:
        RunDirectoryError: the directory or a store holds another plan's run, or this one without
            `resume`, or the directory cannot be written.
        StoreUnavailableError: there is no run here to go on with, and a store that may have it is
            away.
    """
    for store, sizes in held.items():
        storing.expect(store, sizes or {})
        if sizes is None and resume and not (path / "manifest.json").exists():
            raise StoreUnavailableError(
                f"there is no run in {path} to continue, and {store.url} cannot be read now; try "
                "again later, or leave out --resume to begin anew"
            )
        if sizes and "manifest.json" in sizes:
            require_same_plan(_manifest_in(store), manifest.plan_hash, store.url, resume=resume)
            seen = partial(storing.seen, store)
            fetch(store, path, keep=True, announce=observer.stage, fetched=seen)
    return RunDirectory.create(path, manifest, resume=resume)


def _sizes(store: Store, observer: Observer) -> Mapping[str, int] | None:
    """Return what a store holds of the run; None if it is away, which need not stay so."""
    try:
        store.check()
        return store.sizes() if store.live else {}
    except StoreUnavailableError as error:
        observer.stage(f"{error}; going on, and trying again while the run goes")
        return None


def _manifest_in(store: Store) -> Manifest:
    try:
        return parse_manifest(store.get("manifest.json"))
    except ValueError as error:
        raise RunDirectoryError(
            f"{store.url} holds no readable run; choose another --output, or remove what is there"
        ) from error
