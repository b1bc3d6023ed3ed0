"""A run's directory while it is written to: its manifest, its stores, and runs taken up again."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from skymark.execute.observer import Observer
from skymark.machine.facts import capture
from skymark.model.errors import (
    DamagedManifestError,
    RunDirectoryError,
    StoreUnavailableError,
    UsageError,
)
from skymark.model.manifest import RUN_ID, Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.rundir.directory import TOO_LARGE, RunDirectory, require_same_plan
from skymark.rundir.layout import MANIFEST, SUMS
from skymark.rundir.mending import damaged_logs, damages, mend
from skymark.rundir.writer_locks import sole_writer
from skymark.store.fetching import fetch, manifest_in
from skymark.store.store import Store
from skymark.store.storing import Stored, Storing
from skymark.suite.contract import Suite

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

    What a store has and the directory has not, or has damaged, is brought first. What is damaged
    everywhere is set aside and measured again, and a manifest made anew.

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
                observer.stage(f"{', '.join(damaged)} damaged in {path}; looking in {store.url}")
            whole = set(RunDirectory(path).files()) - damaged.keys()
            seen = partial(storing.seen, store)
            fetch(store, path, keep=whole, announce=observer.stage, fetched=seen)
            damaged = damages(path)
    if resume:
        for mended in mend(path, manifest, damaged):
            observer.stage(mended)
    return RunDirectory.create(path, manifest, resume=resume)


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


def _sizes(store: Store, observer: Observer) -> Mapping[str, int] | None:
    """Return what a store holds of the run; None if it is away, which need not stay so."""
    try:
        store.check()
        return store.sizes() if store.live else {}
    except StoreUnavailableError as error:
        observer.stage(f"{error}; going on, and trying again while the run goes")
        return None


def _require_same_plan_in(store: Store, manifest: Manifest, *, resume: bool) -> None:
    """Refuse a store that holds another plan's run, or what cannot be told to be this one's."""
    theirs = manifest_in(store)
    if theirs is not None:
        require_same_plan(theirs, manifest, store.url, resume=resume)
    elif not resume:
        raise RunDirectoryError(
            f"{store.url} holds no readable run; add --resume to continue what is there, choose "
            "another --output, or remove it"
        )


def begun(
    plan: Plan,
    suite: Suite,
    path: Path,
    cache: Path,
    stores: Mapping[str, Store],
    cache_policy: str | None = None,
) -> Manifest:
    """Return the manifest of a run that begins now on this machine.

    Raises:
        UsageError: its directory's name is none for a run.
    """
    return Manifest(
        run_id=run_id_of(path),
        created_at=datetime.now(UTC),
        plan=plan,
        plan_hash=plan.hash,
        declaration=suite.declared(planned.cell for planned in plan.cells),
        machine=capture(cache),
        stores=tuple(store.url for store in stores.values()),
        cache_policy=cache_policy,
    )


def write_end(run: RunDirectory, plan: Plan, records: Iterable[Record] = ()) -> None:
    """Write the manifest and the digests of a run that came to its end here.

    Args:
        run: its directory.
        plan: the run's.
        records: those that need no reading.
    """
    known = {record.cell_hash: record for record in records}
    cells = [planned.cell for planned in plan.cells]
    found = [known.get(cell.hash) or run.record(cell) for cell in cells]
    run.write_manifest(_ended(run, found))
    # What is there of a cell without a record is damaged, or another machine writes it.
    lost = [cell for cell, record in zip(cells, found, strict=True) if record is None]
    run.write_sums({path for cell in lost for path in run.result_paths(cell)})


def _ended(run: RunDirectory, found: Sequence[Record | None]) -> Manifest:
    """Return the manifest of a run that came to its end here; another shard may be missing."""
    return run.manifest().model_copy(
        update={
            "ended_at": datetime.now(UTC),
            "finished": None not in found,
            "counts": dict(Counter(record.status for record in found if record is not None)),
        }
    )


def run_id_of(path: Path) -> str:
    """Return the id of the run in a directory: its manifest's, or that of a run begun there.

    Raises:
        UsageError: the directory's name is none for a run.
    """
    with suppress(RunDirectoryError):
        return RunDirectory(path).manifest().run_id
    name = path.resolve().name
    if not RUN_ID.fullmatch(name):
        raise UsageError(
            f"--output {path}: a run is called after its directory, and {name!r} begins with a "
            "dot or a space, is longer than 200 characters or has some that no name has; choose "
            "another"
        )
    return name


@dataclass(frozen=True)
class OpenedRun:
    """A run that this process alone writes to."""

    directory: RunDirectory
    storing: Storing

    def leave(self, observer: Observer) -> None:
        """Send what can be sent at once of a run that is interrupted."""
        for url in self.storing.flush():
            observer.stage(f"{url} lacks results that are in {self.directory.path}")

    def finish(
        self, plan: Plan, records: Sequence[Record], wait_s: float, observer: Observer
    ) -> list[Stored]:
        """Write the end of the run, and return what each store holds of it.

        Args:
            plan: the run's.
            records: those that need no reading.
            wait_s: how long slow stores are waited for, seconds.
            observer: told what is waited for.
        """
        write_end(self.directory, plan, records)
        for path in self.directory.oversized():
            observer.stage(f"{self.directory.path / path} {TOO_LARGE}: it stays there alone")
        return self.storing.finish(wait_s, observer.stage)


@contextmanager
def opened_run(
    path: Path,
    manifest: Manifest,
    stores: Mapping[str, Store],
    observer: Observer,
    *,
    resume: bool,
) -> Iterator[OpenedRun]:
    """Begin a run in a directory and its stores, or take it up, as the only one that writes there.

    Args:
        path: the run's directory, made if absent.
        manifest: of the run as it would begin here.
        stores: where else results go, by the address the user named.
        observer: told how it goes.
        resume: go on with a run of the same plan.

    Raises:
        RunDirectoryError: the directory, or a store, holds another plan's run, or this one without
            `resume`, or cannot be written.
        StoreRefusedError: a store will not take the run.
    """
    held = held_in(stores, observer)
    with (
        sole_writer(path, wait=resume, announce=observer.stage),
        closing(Storing(stores, path)) as storing,
    ):
        run = begin_or_resume(path, manifest, held, storing, observer, resume=resume)
        run.changed = storing.changed
        run.changed("", [MANIFEST, SUMS])
        yield OpenedRun(run, storing)
