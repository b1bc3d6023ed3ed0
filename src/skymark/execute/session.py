"""A whole run: directory, stores, measuring lock, engine, final manifest."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType

from skymark.cache.entries import RUNS
from skymark.cache.location import cache_directory
from skymark.cache.sharing import using
from skymark.execute.accelerator import require_accelerator, target_of
from skymark.execute.asking import Interpreters
from skymark.execute.engine import Engine
from skymark.execute.observer import Observer
from skymark.execute.partition.shard import Shard
from skymark.execute.resuming import begun, opened_run
from skymark.execute.venvs import Venvs
from skymark.machine.measuring_lock import measuring
from skymark.model.errors import StoreError
from skymark.model.plan import Plan
from skymark.model.record import Record, Status, is_well
from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import MANIFEST, SUMS
from skymark.store.fetching import fetch
from skymark.store.store import FINISH_S, Store
from skymark.store.storing import Stored, Storing
from skymark.suite.registry import suite_named


def bring_other_parts(
    run: RunDirectory, plan: Plan, stores: Iterable[Store], storing: Storing, observer: Observer
) -> bool:
    """Bring what other workers stored of a run, if with it every cell has a record.

    Call it when this worker's part is stored: then the last one finds all others'. Where two end
    at the same moment, both may; they write the same.

    Args:
        run: the directory of this worker.
        plan: of all workers.
        stores: where all of them store.
        storing: told what was read.
        observer: told what is fetched, and which store cannot be read: that spoils no part.

    Returns:
        Whether the run is whole here by that, and was not before.
    """
    own = set(run.files())
    lacking = {f"records/{planned.cell.id}.json" for planned in plan.cells} - own
    if not lacking:
        return False
    for store in stores:
        if not (store.live and store.several_writers):
            continue
        try:
            if lacking <= store.sizes().keys():
                fetch(
                    store,
                    run.path,
                    keep=own,
                    only=lambda path: path not in {MANIFEST, SUMS},
                    announce=observer.stage,
                    fetched=partial(storing.seen, store),
                )
                return True
        except (StoreError, FileNotFoundError) as error:
            observer.stage(f"the other workers' parts are not here: {error}")
    return False


@dataclass(frozen=True)
class FinishedRun:
    """A run that came to its end here, and its copies in stores."""

    records: tuple[Record, ...]
    """Of the cells that were to be run here, in the plan's order."""
    stored: tuple[Stored, ...]
    """What was read back from each remote store."""
    ended: bool = True
    """Whether the run came to its end; else others of those that share it go on."""

    @property
    def all_well(self) -> bool:
        """Whether the cells are well (`is_well`) and every store has everything."""
        return is_well(self.records) and all(one.ok for one in self.stored)


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
    cache_policy: str | None = None,
) -> FinishedRun:
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
        cache_policy: where libraries keep their caches, for the manifest.

    Raises:
        UsageError: this machine has not what the plan's platform asks for; nothing was measured.
        RunDirectoryError: the directory, or a store, holds another plan's run, or this one without
            `resume`, or cannot be written.
        StoreRefusedError: a store will not take the run; nothing was measured.
        StorageFullError: a write was refused in the middle; what was written is intact.
    """
    require_accelerator(plan.platform, observer.stage, own=own, asks=False)
    cache = cache_directory()
    suite = suite_named(plan.suite)
    manifest = begun(plan, suite, path, cache, stores, cache_policy)
    with (
        using(cache / RUNS, observer.stage),
        opened_run(path, manifest, stores, observer, resume=resume) as opened,
    ):
        run, storing = opened.directory, opened.storing
        interpreters = Interpreters(
            Venvs(cache, observer.stage) if own else None,
            Path(sys.executable),
            target_of(plan.platform),
        )
        part = None if shard is None else shard.take(plan.cells)
        engine = Engine(
            plan, suite, run, cache, observer, interpreters, cells=part, uploads=storing
        )
        try:
            with measuring(announce=observer.stage):
                records = engine.run(retry)
        except BaseException:
            opened.leave(observer)
            raise
        stored = opened.finish(plan, records, store_wait_s, observer)
        if part is not None and bring_other_parts(run, plan, stores.values(), storing, observer):
            stored = opened.finish(plan, records, store_wait_s, observer)
        return FinishedRun(tuple(records), tuple(stored))
