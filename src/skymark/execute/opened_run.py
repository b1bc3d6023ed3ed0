"""A run's directory while it is written to, with the stores that its files go to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from skymark.execute.observer import Observer
from skymark.execute.resuming import begin_or_resume, held_in
from skymark.execute.run_manifest import write_end
from skymark.model.manifest import Manifest
from skymark.model.plan import Plan
from skymark.model.record import Record
from skymark.run.directory import TOO_LARGE, RunDirectory
from skymark.run.layout import MANIFEST, SUMS
from skymark.run.sole_writer import sole_writer
from skymark.store.store import Store
from skymark.store.storing import Stored, Storing


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
