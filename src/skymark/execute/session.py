"""A whole run: directory, stores, machine lock, engine, final manifest."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from skymark.cache.location import cache_directory
from skymark.execute.engine import Engine, Observer
from skymark.execute.partition import Shard
from skymark.execute.planner import suite_named
from skymark.execute.venvs import Venvs
from skymark.machine.facts import capture
from skymark.machine.measuring_lock import measuring
from skymark.model.errors import RunDirectoryError, StoreUnavailableError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record, Status
from skymark.run.directory import SUMS, RunDirectory
from skymark.run.sole_writer import sole_writer
from skymark.store.fetching import fetch
from skymark.store.store import FINISH_S, Store
from skymark.store.storing import Stored, Storing


@dataclass(frozen=True)
class Ended:
    """A run that came to its end."""

    records: tuple[Record, ...]
    """Of the cells that were to be run here, in the plan's order."""
    stored: tuple[Stored, ...]
    """What was read back from each remote store."""

    @property
    def all_well(self) -> bool:
        """Whether no cell ended badly and every store has everything."""
        no_bad = not any(record.status.is_bad for record in self.records)
        return no_bad and all(one.ok for one in self.stored)


def run_plan(
    plan: Plan,
    path: Path,
    observer: Observer,
    *,
    stores: Mapping[str, Store] = MappingProxyType({}),
    resume: bool = False,
    retry: Collection[Status] = (),
    own: bool = True,
    shard: Shard | None = None,
    store_wait_s: float = FINISH_S,
) -> Ended:
    """Carry out a plan into a directory, and into remote stores besides.

    Args:
        plan: what to run.
        path: the run's directory, made if absent.
        observer: told how it goes.
        stores: where else results go, as soon as a cell ends, by the address the user named.
        resume: continue a run of the same plan, from the directory and from the stores.
        retry: statuses whose cells are to be run again.
        own: give each adapter an environment of its own; else use the running one.
        shard: the part of the plan to run here; the records of others are left to them.
        store_wait_s: how long the end of the run waits for stores.

    Raises:
        RunDirectoryError: the directory, or a store, holds another plan's run, or this one without
            `resume`, or cannot be written.
        StoreRefusedError: a store will not take the run; nothing was measured.
        StorageFullError: a write was refused in the middle; what was written is intact.
    """
    cache = cache_directory()
    suite = suite_named(plan.cells[0].cell.suite)
    held = {store: _check(store, observer) for store in stores.values()}
    with (
        sole_writer(path, wait=resume, announce=observer.stage),
        closing(Storing(stores, path)) as storing,
    ):
        for store, sizes in held.items():
            storing.expect(store, sizes or {})
            seen = partial(storing.seen, store)
            _take_up(store, sizes, path, plan, resume=resume, observer=observer, seen=seen)
        manifest = Manifest(
            run_id=run_id_of(path),
            created_at=datetime.now(UTC),
            plan=plan,
            plan_hash=plan.hash,
            machine=capture(cache),
            stores=tuple(store.url for store in stores.values()),
        )
        run = RunDirectory.create(path, manifest, plan, resume=resume)
        run.changed = storing.changed
        run.changed("", ["manifest.json", SUMS])
        environments = Venvs(cache, observer.stage) if own else None
        python = Path(sys.executable)
        engine = Engine(
            plan,
            suite,
            run,
            cache,
            observer,
            environments,
            python,
            shard=shard,
            uploads=storing,
        )
        try:
            with measuring(announce=observer.stage):
                records = engine.run(retry)
        except BaseException:
            for url in storing.flush():
                observer.stage(f"{url} lacks results that are in {path}")
            raise
        run.write_manifest(_ended(run, plan, records))
        run.write_sums()
        return Ended(tuple(records), tuple(storing.finish(store_wait_s, observer.stage)))


def _ended(run: RunDirectory, plan: Plan, ours: Sequence[Record]) -> Manifest:
    """Return the manifest of a run that came to its end here; another shard may be missing."""
    known = {record.cell_hash: record for record in ours}
    found = [known.get(one.cell.hash) or run.record(one.cell) for one in plan.cells]
    return run.manifest().model_copy(
        update={
            "ended_at": datetime.now(UTC),
            "finished": None not in found,
            "counts": dict(Counter(record.status for record in found if record is not None)),
        }
    )


def run_id_of(path: Path) -> str:
    """Return the id of the run in a directory: its manifest's, or that of a run begun there."""
    try:
        return RunDirectory(path).manifest().run_id
    except RunDirectoryError:
        return path.resolve().name


def _check(store: Store, observer: Observer) -> Mapping[str, int] | None:
    """Return what a store holds of the run; None if it is away, which need not stay so."""
    try:
        store.check()
        return store.sizes() if store.live else {}
    except StoreUnavailableError as error:
        observer.stage(f"{error}; going on, and trying again while the run goes")
        return None


def _take_up(
    store: Store,
    sizes: Mapping[str, int] | None,
    path: Path,
    plan: Plan,
    *,
    resume: bool,
    observer: Observer,
    seen: Callable[[str, bytes], None],
) -> None:
    """Bring what a store has of a run that is to be continued."""
    if sizes is None and resume and not (path / "manifest.json").exists():
        raise StoreUnavailableError(
            f"there is no run in {path} to continue, and {store.url} cannot be read now; try again "
            "later, or leave out --resume to begin anew"
        )
    if not sizes or "manifest.json" not in sizes:
        return
    try:
        theirs = Manifest.model_validate_json(store.get("manifest.json"))
    except ValidationError as error:
        raise RunDirectoryError(
            f"{store.url} holds no readable run; choose another --output, or remove what is there"
        ) from error
    if theirs.plan_hash != plan.hash:
        raise RunDirectoryError(
            f"{store.url} holds another plan ({theirs.profile}, {len(theirs.cells)} cells); "
            "choose another --output, or the options that made it"
        )
    if not resume:
        raise RunDirectoryError(
            f"{store.url} holds this plan already; add --resume to continue it, "
            "or choose another --output"
        )
    fetch(store, path, keep=True, announce=observer.stage, fetched=seen)
