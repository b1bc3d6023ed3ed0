"""The remote stores of a run: uploads while it goes, completion and verification at its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tenacity import stop_after_delay

from skymark.model.errors import DamagedManifestError, StoreError
from skymark.rundir.directory import TOO_LARGE, RunDirectory
from skymark.rundir.layout import SUMS
from skymark.rundir.mending import damages
from skymark.rundir.reader import read_manifest
from skymark.store.fetching import recover_manifest, require_same_run
from skymark.store.kinds import FINISH_S, STALL_VARIABLE, Store, attempts, open_store
from skymark.store.upload import Upload

POLL_S = 0.5
PATIENCE_S = 1.0
"""Longest wait of a round for uploads under way to end; then it is measured all the same."""
HELD_S = 20.0
"""Longest time that uploads are held over rounds of one worker: the loss with a lost machine."""
RESPITE_S = 0.1
"""Wait of a round after that time, in which uploads go on."""
STALLED_S = 30.0
"""Time without progress of a store at the end of a run, after which a message reports it."""
NAMED_FILES = 5
STALLED = "NOT STORED YET"
"""Start of that message."""
FLUSH_S = 15.0
"""`FINISH_S` of a run that was interrupted: a preempted machine has 30 s or more."""


def stalled(token: str | None) -> str:
    """Return the beginning of the message about a stalled store.

    Args:
        token: of `STALL_VARIABLE`: a client that follows the run looks for the message with it.
    """
    return f"{STALLED} ({token}) in" if token else f"{STALLED} in"


@dataclass(frozen=True)
class Stored:
    """Outcome of storing a run in one store."""

    address: str
    """The address that the user gave."""
    url: str
    """The run's address in the store."""
    files: int = 0
    missing: tuple[str, ...] = ()
    """Paths that were not read back from the store."""
    problem: str | None = None
    """Why the run is not, or not wholly, in the store; None if all of it was read back."""
    note: str | None = None
    """A message of the store, such as the address of the run's page."""

    @property
    def ok(self) -> bool:
        """Whether everything was read back and compared."""
        return self.problem is None


class Storing:
    """Uploads of a run to all its stores."""

    def __init__(self, stores: Mapping[str, Store], directory: Path) -> None:
        """Start the uploads; they wait for changes.

        Args:
            stores: by the address that the user named.
            directory: the run's directory.
        """
        self._stores = stores
        self._directory = directory
        live = [store for store in stores.values() if store.live]
        self._uploads = {store: Upload(store, directory) for store in live}
        self._held_at: float | None = None

    def expect(self, store: Store, sizes: Mapping[str, int]) -> None:
        """Tell the upload to a store the sizes of its files, in bytes."""
        if store in self._uploads:
            self._uploads[store].expect(sizes)

    def seen(self, store: Store, path: str, data: bytes) -> None:
        """Tell the upload to a store the bytes just read from it."""
        if store in self._uploads:
            self._uploads[store].seen(path, data)

    def withhold(self, paths: Collection[str]) -> None:
        """Do not change files in any store, because the local copies are damaged."""
        for upload in self._uploads.values():
            upload.withhold(paths)

    def changed(self, cell: str, paths: Sequence[str]) -> None:
        """Send changed files to every store. Fits `RunDirectory.changed`."""
        for upload in self._uploads.values():
            upload.changed(cell, paths)

    def hold(self) -> list[str]:
        """Pause uploads for a round; return the addresses of late uploads.

        They pause during all rounds of a worker, so no round waits for files of the round before.
        After `HELD_S` they continue for `RESPITE_S`.
        """
        uploads, now = self._uploads.values(), time.monotonic()
        if self._held_at is not None and now - self._held_at > HELD_S:
            self.release()
            for upload in uploads:
                upload.await_idle(now + RESPITE_S)
        if self._held_at is None:
            self._held_at = now
        patience = time.monotonic() + PATIENCE_S
        return [
            store.url
            for store, upload in self._uploads.items()
            if not upload.pause(max(0.0, patience - time.monotonic()))
        ]

    def release(self) -> None:
        """Resume uploads, because nothing is measured for a while."""
        self._held_at = None
        for upload in self._uploads.values():
            upload.resume()

    def finish(
        self, wait_s: float = FINISH_S, announce: Callable[[str], None] = lambda _: None
    ) -> list[Stored]:
        """Send the remaining files, complete the run in each store, and return the outcomes."""
        deadline = time.monotonic() + wait_s
        if not self._stores:
            return []
        with ThreadPoolExecutor(len(self._stores)) as pool:  # one that is away delays no other
            outcomes = pool.map(
                lambda named: self._finish(named[0], named[1], deadline, announce),
                self._stores.items(),
            )
            try:
                return list(outcomes)
            except BaseException:  # Ctrl-C waits for none of them
                for upload in self._uploads.values():
                    upload.stop()
                raise

    def settle(self, wait_s: float) -> list[Stored]:
        """Send the files that changed, and no others, and return the outcome of each store.

        For a process that wrote some of a run's cells, beside others that write the rest.
        """
        deadline = time.monotonic() + wait_s
        outcomes = []
        for address, store in self._stores.items():
            if (upload := self._uploads.get(store)) is None:
                continue
            upload.resume()
            upload.await_idle(deadline)
            why = upload.problem or "the time to store was over"
            problem = str(why) if upload.left else None
            outcomes.append(Stored(address, store.url, upload.stored, problem=problem))
        return outcomes

    def flush(self, wait_s: float = FLUSH_S) -> list[str]:
        """Send the remaining files of an interrupted run; return incomplete addresses."""
        if not self._uploads:
            return []
        with ThreadPoolExecutor(len(self._uploads)) as pool:
            missing = pool.map(lambda upload: upload.drain(wait_s), self._uploads.values())
            return [store.url for store, some in zip(self._uploads, missing, strict=True) if some]

    def close(self) -> None:
        """Stop all threads and give the stores back."""
        for upload in self._uploads.values():
            upload.stop()
        for store in self._stores.values():
            store.close()

    def _finish(
        self, address: str, store: Store, deadline: float, announce: Callable[[str], None]
    ) -> Stored:
        announce(f"storing in {store.url}")
        upload = self._uploads.get(store)
        with _told_when_stalled(store, upload, announce), ThreadPoolExecutor(1) as pool:
            draining = pool.submit(upload.drain, deadline - time.monotonic()) if upload else None
            note, problem = self._complete(store, deadline)
            missing = tuple(draining.result()) if draining else ()
        if upload and missing:
            problem = str(upload.problem or "there was not enough time")
        if left := RunDirectory(self._directory).oversized():
            named = f"{', '.join(left[:NAMED_FILES])} {TOO_LARGE} and was left out"
            problem = named if problem is None else f"{problem}; {named}"
        return Stored(address, store.url, upload.stored if upload else 0, missing, problem, note)

    def _complete(self, store: Store, deadline: float) -> tuple[str | None, str | None]:
        """Complete a run in a store; return its note or None, and the problem or None."""

        def left_s() -> float:
            return max(0.0, deadline - time.monotonic())

        until_then = attempts(
            stop_after_delay(left_s()), sleep=lambda wait_s: time.sleep(min(wait_s, left_s()))
        )
        try:
            return until_then(store.complete, self._directory), None
        except StoreError as error:
            return None, str(error)


def store_run(
    directory: Path,
    address: str,
    wait_s: float,
    announce: Callable[[str], None],
    warn: Callable[[str], None],
) -> tuple[Stored, dict[str, str]]:
    """Put a run that is on disk into a store: all of it, or what was not stored before.

    Args:
        directory: the run's. A damaged manifest is taken from the store.
        address: the store's.
        wait_s: seconds to wait for a slow or absent store.
        announce: gets the progress.
        warn: gets the message about a damaged manifest.

    Returns:
        The outcome, and the damaged files, which are not sent, each with the reason.

    Raises:
        DamagedManifestError: the manifest is damaged here, and in the store.
        RunDirectoryError: the store holds another plan's run.
        StoreError: the store does not answer, or takes no run with damaged files.
    """
    try:
        run_id = read_manifest(directory).run_id
    except DamagedManifestError as error:
        run_id = directory.resolve().name
        with closing(open_store(address, run_id)) as source:
            if not recover_manifest(source, directory):
                raise
        warn(f"{error}\n  taken from {source.url}")
    store = open_store(address, run_id)
    damaged = damages(directory)
    with closing(Storing({address: store}, directory)) as storing:
        store.check()
        sizes = store.sizes() if store.live else {}
        require_same_run(store, sizes, read_manifest(directory))
        if not store.live and set(damaged.values()) - {TOO_LARGE}:
            raise StoreError(not_sent(damaged, directory))
        storing.expect(store, sizes)
        # The list of digests would name files that the store has not.
        storing.withhold([*damaged, SUMS] if damaged else ())
        (stored,) = storing.finish(wait_s, announce)
    return stored, damaged


def not_sent(damaged: Mapping[str, str], directory: Path) -> str:
    """Return the message about the damaged files of a run, which a store does not get."""
    head = f"NOT sent, because damaged in {directory}; the store's own copies stay:"
    lines = [f"  {path}: {reason}" for path, reason in damaged.items()]
    more = len(lines) - NAMED_FILES
    return "\n".join((head, *lines[:NAMED_FILES], *([f"  and {more} more"] if more > 0 else ())))


@contextmanager
def _told_when_stalled(
    store: Store, upload: Upload | None, announce: Callable[[str], None]
) -> Iterator[None]:
    """Say once that a store is stalled: it takes no file, or does not complete the run."""
    over = threading.Event()

    def watch() -> None:
        stored, since_s = -1, time.monotonic()
        while not over.wait(POLL_S):
            now = 0 if upload is None else upload.stored
            if now != stored:
                stored, since_s = now, time.monotonic()
            still_s = time.monotonic() - since_s
            if still_s > FINISH_S or (still_s > STALLED_S and upload and upload.left):
                said = stalled(os.environ.get(STALL_VARIABLE))
                announce(f"{said} {store.url}: it takes nothing; trying again")
                return

    watching = threading.Thread(target=watch, name="stalled-store", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()
