"""A run that several processes share: each takes groups that nobody has, until none is left.

They may come at any time, on one machine or on several that share a disk. Who dies loses what it
held: another one takes over its groups and goes on with the rounds that it left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from skymark.cache.entries import RUNS
from skymark.cache.location import cache_directory
from skymark.cache.sharing import using
from skymark.execute.accelerator import require_accelerator, target_of
from skymark.execute.asking import Interpreters
from skymark.execute.engine import Engine
from skymark.execute.observer import Observer
from skymark.execute.resuming import begin_or_resume, begun, held_in, write_end
from skymark.execute.session import FinishedRun
from skymark.execute.venvs import Venvs
from skymark.execute.worker_pool import WorkerPool
from skymark.leases import Lease, Leases
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cell, Record
from skymark.rundir.directory import RunDirectory, require_same_plan
from skymark.rundir.layout import MANIFEST, SUMS
from skymark.rundir.writer_locks import JointWriter, joint_writer
from skymark.store.store import FINISH_S, Store
from skymark.store.storing import Stored, Storing
from skymark.suite.registry import suite_named

POLL_S = 1.0
"""Between two looks at groups that others have."""


class TakenGroup(NamedTuple):
    """A group that this process has taken."""

    name: str
    cells: tuple[PlannedCell, ...]
    lease: Lease


class Groups:
    """The groups of a plan, of which each process takes the next that nobody has."""

    def __init__(
        self,
        suite: str,
        cells: Sequence[PlannedCell],
        run: RunDirectory,
        leases: Leases,
        poll_s: float = POLL_S,
    ) -> None:
        """Order the groups, those that take the longest first: the last ones end soon then.

        Args:
            suite: of the cells.
            cells: those that are to be run; one that could not be set up, once more.
            run: where their records go.
            leases: of all processes that may run one of these groups, for this plan or another.
            poll_s: between two looks at what others have.
        """
        found: dict[str, list[PlannedCell]] = {}
        for planned in cells:
            found.setdefault(planned.group, []).append(planned)
        self._left = dict(sorted(found.items(), key=lambda one: -_guess_s(one[1])))
        self._again = {planned.cell.id for planned in cells if _was_not_set_up(run, planned)}
        self._suite = suite
        self._run = run
        self._leases = leases
        self._poll_s = poll_s

    def take(self) -> Iterator[TakenGroup]:
        """Yield groups that have cells without a record, each held until the next is asked for.

        When all that are left are held by others, one process waits, to take over those of any
        that dies; the others have nothing to do here.
        """
        watch: Lease | None = None
        try:
            while self._left:
                for name in list(self._left):
                    if (taken := self._take(name)) is None:
                        continue
                    if watch is not None:  # another one may wait meanwhile
                        watch.release()
                        watch = None
                    try:
                        yield taken
                    finally:
                        taken.lease.release()
                    break
                else:
                    if not self._left:
                        return
                    if watch is None:
                        watch = self._leases.take(self._key(f"{self._run.path.name}/waits"))
                    if watch is None:
                        return
                    time.sleep(self._poll_s)
        finally:
            if watch is not None:
                watch.release()

    def _take(self, name: str) -> TakenGroup | None:
        """Take a group; one that is done is forgotten."""
        cells = self._left[name]
        if self._is_done(cells):
            del self._left[name]
            return None
        if (lease := self._leases.take(self._key(name))) is None:
            return None
        del self._left[name]
        if self._is_done(cells):  # meanwhile
            lease.release()
            return None
        return TakenGroup(name, tuple(cells), lease)

    def _is_done(self, cells: Sequence[PlannedCell]) -> bool:
        return all(
            planned.cell.id not in self._again and self._run.record_path(planned.cell).exists()
            for planned in cells
        )

    def _key(self, name: str) -> str:
        """Return the name of a group's lease; names of groups are any text."""
        return sha256(f"{self._suite}\0{name}".encode()).hexdigest()[:32]


def _guess_s(cells: Sequence[PlannedCell]) -> float:
    return sum(planned.guess.expected_s for planned in cells if planned.guess is not None)


def _was_not_set_up(run: RunDirectory, planned: PlannedCell) -> bool:
    record = run.record(planned.cell)
    return record is not None and record.was_not_set_up


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
