"""A run that several processes share: each claims free groups until none is left.

Processes may join at any time, on one machine or on several that share a disk. If one dies,
another takes over its groups and continues after the rounds on disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from skymark.execute.measurer import Measurer
from skymark.execute.session import FinishedRun, Session, begin_or_resume, held_in, write_end
from skymark.execute.slots import require_shareable
from skymark.execute.sweeps import run_sweeps
from skymark.execute.worker_pool import WorkerPool
from skymark.leases import Lease, Leases
from skymark.model.errors import SkymarkError, UsageError
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan, PlannedCell
from skymark.model.record import Cell, Record
from skymark.rundir.directory import RunDirectory, require_same_plan
from skymark.rundir.layout import MANIFEST, SUMS
from skymark.rundir.newest import runs_in
from skymark.rundir.writer_locks import JointWriter, joint_writer
from skymark.store.kinds import Store
from skymark.store.storing import Stored, Storing

POLL_S = 1.0
"""Time between two checks of groups that other processes hold."""


class TakenGroup(NamedTuple):
    """A group that this process has taken."""

    name: str
    cells: tuple[PlannedCell, ...]
    lease: Lease


class Groups:
    """The groups of a plan; each process claims the next free one."""

    def __init__(
        self,
        suite: str,
        cells: Sequence[PlannedCell],
        run: RunDirectory,
        leases: Leases,
    ) -> None:
        """Order the groups, longest first, so that all processes end at about the same time.

        Args:
            suite: name of the cells' suite.
            cells: cells to run, and cells whose set-up failed before.
            run: directory of the records.
            leases: leases shared by all processes that may run these groups, for any plan.
        """
        found: dict[str, list[PlannedCell]] = {}
        for planned in cells:
            found.setdefault(planned.group, []).append(planned)
        self._left = dict(sorted(found.items(), key=lambda one: -_guess_s(one[1])))
        self._again = {planned.cell.id for planned in cells if _was_not_set_up(run, planned)}
        self._suite = suite
        self._run = run
        self._leases = leases

    def take(self) -> Iterator[TakenGroup]:
        """Yield groups that have cells without a record; each is held until the next.

        When other processes hold all remaining groups, one process waits in case a holder dies,
        and the rest end.
        """
        watch: Lease | None = None
        try:
            while self._left:
                for name in list(self._left):
                    if (taken := self._take(name)) is None:
                        continue
                    if watch is not None:  # another process may wait meanwhile
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
                    time.sleep(POLL_S)
        finally:
            if watch is not None:
                watch.release()

    def _take(self, name: str) -> TakenGroup | None:
        """Take a group; forget it if it is done."""
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
        """Return the name of a group's lease; a group's own name may be any text."""
        return sha256(f"{self._suite}\0{name}".encode()).hexdigest()[:32]


def _guess_s(cells: Sequence[PlannedCell]) -> float:
    return sum(planned.guess.expected_s for planned in cells if planned.guess is not None)


def _was_not_set_up(run: RunDirectory, planned: PlannedCell) -> bool:
    record = run.record(planned.cell)
    return record is not None and record.was_not_set_up


CLAIMS = ".claims"
"""Directory of leases, beside the runs: two runs on one machine measure no group at once."""


class LeaseLostError(SkymarkError):
    """Another process has taken over the group, because this process made no progress."""


@dataclass(frozen=True)
class ClaimedGroups:
    """The strategy of processes that share a run: each claims groups until none is left.

    Records of the same cells in neighbouring runs are copied. The last process writes to stores
    that take only one writer.
    """

    names: Collection[str] = ()
    """Names of the groups to take; empty for all."""

    def carry_out(self, session: Session) -> FinishedRun:
        """Measure groups beside other processes; see `skymark.execute.session.run`.

        Returns:
            The records of this process's cells, and the run's copies in stores.

        Raises:
            UsageError: cells of the suite need the machine for themselves, or there is no such
                group.
        """
        instead = "leave out --share, or use --shard on several machines"
        require_shareable(session.plan, instead, session.suite)
        plan, path, suite = session.plan, session.path, session.suite
        announce, wait_s = session.observer.stage, session.results.store_wait_s
        interpreters = session.interpreters()
        cells = _cells_of(plan, self.names)
        every = session.open_stores(path)
        live = {url: store for url, store in every.items() if store.live and store.several_writers}
        records: list[Record] = []
        with joint_writer(path, announce) as writer:
            with closing(Storing(live, path)) as storing:
                directory = _begin(session, session.manifest(path, every), live, storing, writer)
                claims = Leases(path.parent / CLAIMS)
                groups = Groups(plan.suite, cells, directory, claims)
                with closing(WorkerPool(announce, keeps=suite.shares_process)) as workers:
                    for taken in groups.take():
                        announce(f"taking {taken.name}")
                        _take_from_others(directory, taken)
                        measurer = Measurer(
                            *(plan, suite, directory, session.cache, session.observer),
                            interpreters,
                            cells=taken.cells,
                            shared=True,
                            workers=workers,
                            before_round=partial(_require_held, taken.lease),
                        )
                        try:
                            records += run_sweeps(measurer)
                        except LeaseLostError:
                            announce(f"{taken.name} was taken over by another process")
                stored = storing.settle(wait_s)
            with writer.alone(leaving=True) as alone:
                if alone and not (directory.manifest().finished and not records):
                    records = write_end(directory, plan, suite, records)
                    stored = _store_all(session.open_stores(path), path, wait_s, announce)
        return FinishedRun(path, tuple(records), tuple(stored), ended=alone)


def _require_held(lease: Lease, cell: Cell) -> None:
    """Stop the work on a group that another process has taken over.

    Raises:
        LeaseLostError: another process has the group.
    """
    if not lease.is_held:
        raise LeaseLostError(f"{cell.id} is another process's now")


def _cells_of(plan: Plan, groups: Collection[str]) -> tuple[PlannedCell, ...]:
    there = {planned.group for planned in plan.cells}
    for name in groups:
        if name not in there:
            raise UsageError(f"the plan has no group {name!r}; it has {', '.join(sorted(there))}")
    return tuple(one for one in plan.cells if not groups or one.group in groups)


def _begin(
    session: Session,
    manifest: Manifest,
    stores: Mapping[str, Store],
    storing: Storing,
    writer: JointWriter,
) -> RunDirectory:
    """Begin or resume a run; if other processes already run it, join them."""
    path, announce = session.path, session.observer.stage
    with writer.alone() as alone:
        begins = alone or not (path / MANIFEST).exists()
        if begins:
            held = held_in(stores, announce)
            directory = begin_or_resume(
                path,
                manifest,
                held,
                storing,
                announce,
                resume=True,
                within=session.results.directory,
            )
        else:
            directory = RunDirectory.of(path, manifest)
            require_same_plan(directory.manifest(), manifest, str(path), resume=True)
    directory.changed = storing.changed
    if begins:
        directory.changed("", [MANIFEST, SUMS])
    return directory


def _take_from_others(run: RunDirectory, taken: TakenGroup) -> None:
    """Copy the records of a group's cells from neighbouring runs."""
    beside = [
        RunDirectory(path)
        for path in runs_in(run.path.absolute().parent)
        if path.name != run.path.name
    ]
    for planned in taken.cells:
        if run.record_path(planned.cell).exists():
            continue
        for other in beside:
            there = other.record_path(planned.cell).exists()
            if there and run.take_record(other, planned.cell) is not None:
                break


def _store_all(
    stores: Mapping[str, Store], path: Path, wait_s: float, announce: Callable[[str], None]
) -> list[Stored]:
    """Complete the run in every store; only the last process calls this."""
    with closing(Storing(stores, path)) as storing:
        for store, sizes in held_in(stores, announce).items():
            storing.expect(store, sizes or {})
        return storing.finish(wait_s, announce)
