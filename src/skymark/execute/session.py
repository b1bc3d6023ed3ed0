"""Session: carries out a plan into run directories and stores, by a given strategy."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Protocol

from skymark.cache.entries import RUNS
from skymark.cache.location import cache_directory
from skymark.cache.sharing import using
from skymark.execute.accelerator import require_accelerator, target_of
from skymark.execute.asking import Interpreters
from skymark.execute.measurer import Measurer, Observer
from skymark.execute.revision import RevisionCode
from skymark.execute.venvs import Venvs
from skymark.machine.facts import capture
from skymark.machine.measuring_lock import measuring
from skymark.model.errors import (
    DamagedManifestError,
    RunDirectoryError,
    StoreError,
    StoreUnavailableError,
    UsageError,
)
from skymark.model.manifest import RUN_ID, Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.model.requests import DEFAULT_RESULTS, Results
from skymark.rundir.directory import TOO_LARGE, RunDirectory, require_same_plan
from skymark.rundir.layout import MANIFEST, SUMS, new_run_id
from skymark.rundir.mending import damaged_logs, damages, mend
from skymark.rundir.newest import own_directory, point_at
from skymark.rundir.writer_locks import sole_writer
from skymark.statistics.borrowing import judged_together
from skymark.store.fetching import fetch, manifest_in
from skymark.store.kinds import Store, open_store
from skymark.store.storing import Stored, Storing
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named


@dataclass(frozen=True)
class FinishedRun:
    """A run that came to its end here, and its copies in stores."""

    path: Path
    """Its directory."""
    records: tuple[Record, ...]
    """Records of the cells that were run here, in the plan's order."""
    stored: tuple[Stored, ...]
    """Copies that were read back from each remote store."""
    ended: bool = True
    """Whether the run came to its end; False while other processes go on with it."""
    baseline: FinishedRun | None = None
    """The run of the revision that it was measured in pairs with; None for a run by itself."""


class Strategy(Protocol):
    """An order in which a session's cells are measured."""

    def carry_out(self, session: Session) -> FinishedRun:
        """Measure the session's plan, and end its runs."""


def run(
    plan: Plan,
    results: Results,
    observer: Observer,
    strategy: Strategy,
    *,
    own: bool = True,
    cache_policy: str | None = None,
) -> FinishedRun:
    """Carry out a plan into a directory, and into remote stores besides.

    Args:
        plan: the cells.
        results: its directory and stores, and whether to continue a run of the same plan there.
        observer: callbacks for progress.
        strategy: `Sweeps` for a run or a shard of one, `Pairs` to compare it with a revision,
            `ClaimedGroups` to share it with other processes.
        own: give each adapter a venv of its own. False uses the running interpreter.
        cache_policy: the place of libraries' caches, for the manifest.

    Raises:
        UsageError: the strategy cannot measure the plan, or this machine does not meet the needs of
            its platform; nothing was measured.
        RunDirectoryError: the directory or a store holds another plan's run, or a run of this plan
            without `results.resume`, or cannot be written.
        StoreRefusedError: a store will not take the run; nothing was measured.
        StorageFullError: the disk became full; the files written before are intact.
    """
    require_accelerator(plan.platform, observer.stage, own=own, asks=False)
    session = Session(plan, results, observer, own, cache_policy)
    with using(session.cache / RUNS, observer.stage):
        return strategy.carry_out(session)


@dataclass(frozen=True)
class Session:
    """A plan that is carried out, with the common parts of its runs."""

    plan: Plan
    results: Results
    observer: Observer
    own: bool
    """Whether each adapter gets a venv of its own."""
    cache_policy: str | None = None

    @cached_property
    def cache(self) -> Path:
        """The cache's directory."""
        return cache_directory()

    @cached_property
    def path(self) -> Path:
        """The run's directory."""
        new = new_run_id(self.plan.profile, datetime.now(UTC))
        if self.results.output is not None:
            return own_directory(self.results.output)
        return self.results.directory / new

    @cached_property
    def suite(self) -> Suite:
        """The suite that planned the cells."""
        return suite_named(self.plan.suite)

    def open_stores(self, path: Path) -> dict[str, Store]:
        """Open the stores of a run by the address that the user named; contacts nobody yet."""
        return {url: open_store(url, run_id_of(path)) for url in self.results.stores}

    def manifest(self, path: Path, stores: Mapping[str, Store]) -> Manifest:
        """Return the manifest of a run that begins now in a directory of this machine.

        Raises:
            UsageError: the directory's name is none for a run.
        """
        return Manifest(
            run_id=run_id_of(path),
            created_at=datetime.now(UTC),
            plan=self.plan,
            plan_hash=self.plan.hash,
            declaration=self.suite.declared(planned.cell for planned in self.plan.cells),
            machine=capture(self.cache),
            stores=tuple(store.url for store in stores.values()),
            cache_policy=self.cache_policy,
        )

    @contextmanager
    def opened(
        self, path: Path, stores: Mapping[str, Store], manifest: Manifest
    ) -> Iterator[OpenedRun]:
        """Begin a run in a directory and its stores, or take it up, as its only writer.

        Args:
            path: the directory, made if absent.
            stores: the run's stores by the address that the user named.
            manifest: of the run as it would begin here.

        Raises:
            RunDirectoryError: the directory or a store holds another plan's run, or a run of this
                plan without `results.resume`, or cannot be written.
            StoreRefusedError: a store will not take the run.
        """
        announce, resume = self.observer.stage, self.results.resume
        held = held_in(stores, announce)
        with (
            sole_writer(path, wait=resume, announce=announce),
            closing(Storing(stores, path)) as storing,
        ):
            directory = begin_or_resume(
                path,
                manifest,
                held,
                storing,
                announce,
                resume=resume,
                within=self.results.directory,
            )
            directory.changed = storing.changed
            directory.changed("", [MANIFEST, SUMS])
            yield OpenedRun(self, directory, storing)

    def interpreters(self, code: RevisionCode | None = None) -> Interpreters:
        """Return the interpreters of workers, with a revision's code and pins or with these."""
        requirements, package = (None, None) if code is None else (code.requirements, code.package)
        return Interpreters(
            Venvs(self.cache, self.observer.stage, requirements) if self.own else None,
            Path(sys.executable),
            target_of(self.plan.platform),
            package,
        )

    def measurer(
        self, directory: RunDirectory, code: RevisionCode | None = None, **more: Any
    ) -> Measurer:
        """Return the measurer of a run.

        Args:
            directory: of the run.
            code: of the revision that workers run; None for this one.
            **more: further fields of `Measurer`.
        """
        parts = self.plan, self.suite, directory, self.cache, self.observer
        return Measurer(*parts, self.interpreters(code), **more)

    @contextmanager
    def measuring(self, runs: Sequence[OpenedRun]) -> Iterator[None]:
        """Hold the machine's measuring lock; if interrupted, flush the stores of runs."""
        try:
            with measuring(announce=self.observer.stage):
                yield
        except BaseException:
            for opened in runs:
                for url in opened.storing.flush():
                    self.observer.stage(f"{url} lacks results that are in {opened.directory.path}")
            raise


@dataclass(frozen=True)
class OpenedRun:
    """A run that this process alone writes to."""

    session: Session
    directory: RunDirectory
    storing: Storing

    def finish(self, records: Sequence[Record]) -> FinishedRun:
        """Write the end of the run, complete its copies in stores, and return it.

        Args:
            records: records of the cells that were run here.
        """
        session = self.session
        announce = session.observer.stage
        records = write_end(self.directory, session.plan, session.suite, records)
        for path in self.directory.oversized():
            announce(f"{self.directory.path / path} {TOO_LARGE}: it stays there alone")
        stored = self.storing.finish(session.results.store_wait_s, announce)
        return FinishedRun(self.directory.path, tuple(records), tuple(stored))

    def bring_other_parts(self, stores: Iterable[Store]) -> bool:
        """Fetch the parts of other workers from a store, if every cell has a record then.

        Call it after this worker's part is stored, so that the last worker finds all parts. Two
        workers that end at the same moment may both fetch them and write the same end. If a store
        cannot be read, this worker's part stays unchanged.

        Args:
            stores: stores that all workers share.

        Returns:
            Whether the run has become complete here.
        """
        announce = self.session.observer.stage
        own = set(self.directory.files())
        lacking = {f"records/{planned.cell.id}.json" for planned in self.session.plan.cells} - own
        for store in stores if lacking else ():
            if not (store.live and store.several_writers):
                continue
            try:
                if lacking <= store.sizes().keys():
                    fetch(
                        store,
                        self.directory.path,
                        keep=own,
                        only=lambda path: path not in {MANIFEST, SUMS},
                        announce=announce,
                        fetched=partial(self.storing.seen, store),
                    )
                    return True
            except (StoreError, FileNotFoundError) as error:
                announce(f"could not fetch the other workers' parts: {error}")
        return False


def write_end(
    directory: RunDirectory, plan: Plan, suite: Suite, records: Sequence[Record] = ()
) -> list[Record]:
    """Write the manifest and the digests of a run that came to its end here.

    Before, records are rewritten whose intervals borrow from other cells. Another shard may be
    missing.

    Args:
        directory: of the run.
        plan: the run's.
        suite: the suite that planned it.
        records: records that need no reading.

    Returns:
        The same records as they are now.
    """
    known = {record.cell_hash: record for record in records}
    cells = [planned.cell for planned in plan.cells]
    found = [known.get(cell.hash) or directory.record(cell) for cell in cells]
    read = [record for record in found if record is not None]
    metrics, deciding = suite.declaration.metrics, suite.deciding_metric
    ended = judged_together(read, metrics, plan.bounds, deciding)
    for before, after in zip(read, ended, strict=True):
        if after != before:
            directory.rewrite_record(after)
    # The files of a cell without a record are damaged, or another machine writes them.
    lost = [cell for cell, record in zip(cells, found, strict=True) if record is None]
    end = {
        "ended_at": datetime.now(UTC),
        "finished": not lost,
        "counts": dict(Counter(record.status for record in found if record is not None)),
    }
    directory.write_manifest(directory.manifest().model_copy(update=end))
    directory.write_sums({path for cell in lost for path in directory.result_paths(cell)})
    rewritten = {record.cell_hash: record for record in ended}
    return [rewritten[record.cell_hash] for record in records]


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
            f"--output {path}: a run takes its name from its directory, and {name!r} begins with a "
            "dot or a space, has more than 200 characters, or has invalid ones; choose another"
        )
    return name


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
