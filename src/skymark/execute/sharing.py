"""A run that several processes share: each takes groups that nobody has, until none is left.

They may come at any time, on one machine or on several that share a disk. Who dies loses what it
held: another one takes over its groups and goes on with the rounds that it left.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from contextlib import closing
from pathlib import Path

from skymark.cache.entries import RUNS
from skymark.cache.location import cache_directory
from skymark.cache.sharing import using
from skymark.execute.accelerator import require_accelerator
from skymark.execute.engine import Engine
from skymark.execute.groups import Groups, TakenGroup
from skymark.execute.interpreters import Interpreters
from skymark.execute.observer import Observer
from skymark.execute.resuming import begin_or_resume, held_in
from skymark.execute.run_manifest import begun, write_end
from skymark.execute.session import FinishedRun
from skymark.execute.targets import target_of
from skymark.execute.venvs import Venvs
from skymark.execute.worker_pool import WorkerPool
from skymark.leases import Lease, Leases
from skymark.model.cell import Cell
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Record
from skymark.run.directory import RunDirectory, require_same_plan
from skymark.run.joint_writer import JointWriter, joint_writer
from skymark.run.layout import MANIFEST, SUMS
from skymark.store.store import FINISH_S, Store
from skymark.store.storing import Stored, Storing
from skymark.suite.registry import suite_named

CLAIMS = ".claims"
"""Directory of leases, beside the runs: two runs on one machine measure no group at once."""


class LeaseLostError(SkymarkError):
    """Another process has taken over the group, because this one stood still for long."""


def run_shared(
    plan: Plan,
    path: Path,
    observer: Observer,
    *,
    open_stores: Callable[[], Mapping[str, Store]] = dict,
    own: bool = True,
    groups: Collection[str] = (),
    store_wait_s: float = FINISH_S,
    cache_policy: str | None = None,
) -> FinishedRun:
    """Carry out a plan beside other processes that do the same into the same directory.

    A cell that a run beside this one has measured already is taken from there.

    Args:
        plan: what to run.
        path: the run's directory, made if absent.
        observer: told how it goes.
        open_stores: returns where else results go, as soon as a cell ends, by the address the user
            named. Stores that take one writer only get the run from the last process.
        own: give each adapter an environment of its own; else use the running one.
        groups: those to take; none means any.
        store_wait_s: how long the end waits for stores.
        cache_policy: where libraries keep their caches, for the manifest.

    Returns:
        The records of the cells that this process has measured or found, and what was stored.

    Raises:
        UsageError: cells of the suite need the machine for themselves, there is no such group, or
            this machine has not what the plan's platform asks for; nothing was measured.
        RunDirectoryError: the directory, or a store, holds another plan's run, or cannot be
            written.
        StoreRefusedError: a store will not take the run; nothing was measured.
        StorageFullError: a write was refused in the middle; what was written is intact.
    """
    suite = suite_named(plan.suite)
    if not suite.shares_machine:
        raise UsageError(
            f"cells of {plan.suite} are measured one at a time on a machine, or their figures "
            "would tell of each other's load; leave out --share, or use --shard on several machines"
        )
    if plan.allotment is not None:
        raise UsageError(
            "--time is spent on cells that are compared with one another, and each process of "
            "--share has only some of those; leave out one of the two, or use --shard"
        )
    cells = _cells_of(plan, groups)
    require_accelerator(plan.platform, observer.stage, own=own, asks=False)
    cache = cache_directory()
    venvs = Venvs(cache, observer.stage) if own else None
    interpreters = Interpreters(venvs, Path(sys.executable), target_of(plan.platform))
    opened = open_stores()
    now = {url: store for url, store in opened.items() if store.live and store.several_writers}
    records: list[Record] = []
    with using(cache / RUNS, observer.stage), joint_writer(path, observer.stage) as writer:
        with closing(Storing(now, path)) as storing:
            manifest = begun(plan, suite, path, cache, opened, cache_policy)
            run = _begin(path, manifest, now, storing, observer, writer)
            taking = Groups(plan.suite, cells, run, Leases(path.parent / CLAIMS))
            with closing(WorkerPool(observer.stage, keeps=suite.shares_process)) as workers:
                for taken in taking.take():
                    observer.stage(f"taking {taken.name}")
                    _take_from_others(run, taken)
                    engine = Engine(
                        *(plan, suite, run, cache, Watched(observer, taken.lease), interpreters),
                        cells=taken.cells,
                        shared=True,
                        workers=workers,
                    )
                    try:
                        records += engine.run()
                    except LeaseLostError:
                        observer.stage(f"{taken.name} was taken over by another process")
            stored = storing.settle(store_wait_s)
        with writer.alone(leaving=True) as alone:
            if alone and not (run.manifest().finished and not records):
                write_end(run, plan, records)
                stored = _store_all(open_stores(), path, store_wait_s, observer)
    return FinishedRun(tuple(records), tuple(stored), ended=alone)


class Watched:
    """An observer that stops the work on a group which another process has taken over."""

    def __init__(self, observer: Observer, lease: Lease) -> None:
        """Tell an observer what comes as long as a lease is held."""
        self._observer = observer
        self._lease = lease
        self.stage = observer.stage
        self.planned = observer.planned
        self.measured = observer.measured
        self.ended = observer.ended

    def measuring(self, cell: Cell, round: int) -> None:
        """Tell that a cell's round begins.

        Raises:
            LeaseLostError: another process has the group.
        """
        if not self._lease.is_held:
            raise LeaseLostError(f"{cell.id} is another process's now")
        self._observer.measuring(cell, round)


def _cells_of(plan: Plan, groups: Collection[str]) -> tuple[PlannedCell, ...]:
    there = {planned.group for planned in plan.cells}
    for name in groups:
        if name not in there:
            raise UsageError(f"the plan has no group {name!r}; it has {', '.join(sorted(there))}")
    return tuple(one for one in plan.cells if not groups or one.group in groups)


def _begin(
    path: Path,
    manifest: Manifest,
    stores: Mapping[str, Store],
    storing: Storing,
    observer: Observer,
    writer: JointWriter,
) -> RunDirectory:
    """Begin a run, or take it up where no other process is at it; else join those."""
    with writer.alone() as alone:
        begins = alone or not (path / MANIFEST).exists()
        if begins:
            held = held_in(stores, observer)
            run = begin_or_resume(path, manifest, held, storing, observer, resume=True)
        else:
            columns = manifest.declaration.sample_columns
            run = RunDirectory(path, manifest.machine.hardware_key, sample_columns=columns)
            require_same_plan(run.manifest(), manifest, str(path), resume=True)
    run.changed = storing.changed
    if begins:
        run.changed("", [MANIFEST, SUMS])
    return run


def _take_from_others(run: RunDirectory, taken: TakenGroup) -> None:
    """Take the records of a group's cells that runs beside this one have."""
    beside = [
        RunDirectory(manifest.parent)
        for manifest in sorted(run.path.absolute().parent.glob(f"*/{MANIFEST}"))
        if manifest.parent.name != run.path.name
    ]
    for planned in taken.cells:
        if run.record_path(planned.cell).exists():
            continue
        for other in beside:
            there = other.record_path(planned.cell).exists()
            if there and run.take_record(other, planned.cell) is not None:
                break


def _store_all(
    stores: Mapping[str, Store], path: Path, wait_s: float, observer: Observer
) -> list[Stored]:
    """Complete the run in every store; the last of its processes does."""
    with closing(Storing(stores, path)) as storing:
        for store, sizes in held_in(stores, observer).items():
            storing.expect(store, sizes or {})
        return storing.finish(wait_s, observer.stage)
