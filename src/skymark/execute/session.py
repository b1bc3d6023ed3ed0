"""A whole run: directory, stores, measuring lock, engine, final manifest."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType

from skymark.cache.location import cache_directory
from skymark.execute.accelerator import require_accelerator
from skymark.execute.engine import Engine
from skymark.execute.interpreters import Interpreters
from skymark.execute.observer import Observer
from skymark.execute.partition import Shard
from skymark.execute.resuming import begin_or_resume, held_in
from skymark.execute.targets import target_of
from skymark.execute.venvs import Venvs
from skymark.machine.facts import capture
from skymark.machine.measuring_lock import measuring
from skymark.model.errors import RunDirectoryError, UsageError
from skymark.model.manifest import RUN_ID, Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record, Status
from skymark.run.directory import RunDirectory
from skymark.run.layout import SUMS
from skymark.run.sole_writer import sole_writer
from skymark.store.store import FINISH_S, Store
from skymark.store.storing import Stored, Storing
from skymark.suite.registry import suite_named


@dataclass(frozen=True)
class FinishedRun:
    """A run that came to its end here, and its copies in stores."""

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

    Raises:
        UsageError: this machine has not what the plan's platform asks for; nothing was measured.
        RunDirectoryError: the directory, or a store, holds another plan's run, or this one without
            `resume`, or cannot be written.
        StoreRefusedError: a store will not take the run; nothing was measured.
        StorageFullError: a write was refused in the middle; what was written is intact.
    """
    require_accelerator(plan.platform, observer.stage, own=own)
    cache = cache_directory()
    suite = suite_named(plan.suite)
    held = held_in(stores, observer)
    with (
        sole_writer(path, wait=resume, announce=observer.stage),
        closing(Storing(stores, path)) as storing,
    ):
        manifest = Manifest(
            run_id=run_id_of(path),
            created_at=datetime.now(UTC),
            plan=plan,
            plan_hash=plan.hash,
            declaration=suite.declared(planned.cell for planned in plan.cells),
            machine=capture(cache),
            stores=tuple(store.url for store in stores.values()),
        )
        run = begin_or_resume(path, manifest, held, storing, observer, resume=resume)
        run.changed = storing.changed
        run.changed("", ["manifest.json", SUMS])
        interpreters = Interpreters(
            Venvs(cache, observer.stage) if own else None,
            Path(sys.executable),
            target_of(plan.platform),
        )
        engine = Engine(
            plan, suite, run, cache, observer, interpreters, shard=shard, uploads=storing
        )
        try:
            with measuring(announce=observer.stage):
                records = engine.run(retry)
        except BaseException:
            for url in storing.flush():
                observer.stage(f"{url} lacks results that are in {path}")
            raise
        known = {record.cell_hash: record for record in records}
        cells = [planned.cell for planned in plan.cells]
        found = [known.get(cell.hash) or run.record(cell) for cell in cells]
        run.write_manifest(_ended(run, found))
        # What is there of a cell without a record is damaged, or another machine writes it.
        lost = [cell for cell, record in zip(cells, found, strict=True) if record is None]
        run.write_sums({path for cell in lost for path in run.result_paths(cell)})
        return FinishedRun(tuple(records), tuple(storing.finish(store_wait_s, observer.stage)))


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
