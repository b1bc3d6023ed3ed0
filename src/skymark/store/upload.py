"""Upload of a run's files to one store while the run goes, each file read back."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tenacity import stop_when_event_set
from tenacity.nap import sleep_using_event

from skymark.model.errors import StoreError, StoreRefusedError, StoreUnavailableError
from skymark.model.schema import parse_record
from skymark.plain_files import TooLargeError, read_below
from skymark.rundir.directory import RunDirectory
from skymark.rundir.layout import cell_of
from skymark.store.kinds import LONGEST_WAIT_S, Store, attempts

ORDER = ("samples", "logs", "records", "rounds")
"""A record goes after what belongs to it, so a stored record is whole; its rounds go last."""


class Upload:
    """Upload of a run's directory to one store, in threads of its own.

    Files that changed are sent cell by cell; a path that is not on disk is removed from the store.
    Failed files are sent again until `stop`.
    """

    def __init__(
        self, store: Store, directory: Path, longest_wait_s: float = LONGEST_WAIT_S
    ) -> None:
        """Start the threads; they wait for work.

        Args:
            store: where to.
            directory: the run's directory.
            longest_wait_s: between two attempts; the first waits are much shorter.
        """
        self.store = store
        self.problem: StoreError | None = None
        """Reason of the last attempt's failure; None after a success."""
        self._directory = directory
        self._longest_wait_s = longest_wait_s
        self._pending: dict[str, dict[str, None]] = {}
        self._sending: set[str] = set()
        self._requests = 0
        self._stored: dict[str, str] = {}
        self._there: Mapping[str, int] | None = None
        self._withheld: frozenset[str] = frozenset()
        self._sent: set[str] = set()
        self._open = True
        self._state = threading.Condition()
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, name=f"upload-{number}", daemon=True)
            for number in range(store.parallel)
        ]
        for thread in self._threads:
            thread.start()

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Take the sizes of stored files, which are compared before they are sent."""
        self._there = sizes

    def seen(self, path: str, data: bytes) -> None:
        """Take bytes just read from the store: the file counts as stored without reading it."""
        self._stored[path] = sha256(data).hexdigest()

    def withhold(self, paths: Collection[str]) -> None:
        """Do not change files in the store, because the local copies are damaged."""
        self._withheld = frozenset(paths)

    def changed(self, cell: str, paths: Sequence[str]) -> None:
        """Queue files of one cell (or of none, ``""``); they are sent together and in order."""
        with self._state:
            for path in paths:
                self._stored.pop(path, None)
            self._pending.setdefault(cell, {}).update(dict.fromkeys(paths))
            self._state.notify_all()

    def pause(self, patience_s: float) -> bool:
        """Begin no further request; return whether those under way ended in time."""
        with self._state:
            self._open = False
            return self._state.wait_for(lambda: self._requests == 0, patience_s)

    def resume(self) -> None:
        """Go on after a pause."""
        with self._state:
            self._open = True
            self._state.notify_all()

    def await_idle(self, end: float) -> None:
        """Wait until nothing is left to send, or until the monotonic clock shows `end`, in s."""
        with self._state:
            left = max(0.0, end - time.monotonic())
            self._state.wait_for(self._has_nothing_to_do, left)

    def _has_nothing_to_do(self) -> bool:
        return self._stopped.is_set() or not (self._pending or self._sending)

    @property
    def stored(self) -> int:
        """The number of files read back from the store."""
        return len(self._stored)

    @property
    def left(self) -> bool:
        """Whether files wait or are on their way."""
        with self._state:
            return bool(self._pending or self._sending)

    def unstored(self) -> list[str]:
        """Return the paths on disk that have not been read back from the store, in order."""
        return [
            path
            for path in RunDirectory(self._directory).files()
            if path not in self._withheld and not self._is_stored(path)
        ]

    def drain(self, wait_s: float) -> list[str]:
        """Send every file that is not stored; return the paths that are left after that time."""
        end = time.monotonic() + wait_s
        self.resume()
        self.await_idle(end)
        for path in [*self.unstored(), *self._replaced_rounds()]:
            self.changed(cell_of(path), [path])
        self.await_idle(end)
        return self.unstored()

    def _replaced_rounds(self) -> list[str]:
        """Return the store's rounds of cells with a record."""
        files = set(RunDirectory(self._directory).files()) - self._withheld
        return [
            path
            for path in self._there or ()
            if path.startswith("rounds/") and f"records/{cell_of(path)}.json" in files
        ]

    def stop(self) -> None:
        """End the threads; a request under way ends by itself, in the store's own time."""
        self._stopped.set()
        with self._state:
            self._state.notify_all()

    # In the threads

    def _work(self) -> None:
        until_stopped = attempts(
            stop_when_event_set(self._stopped),
            after=StoreError,
            longest_wait_s=self._longest_wait_s,
            sleep=sleep_using_event(self._stopped),
        )
        while not self._stopped.is_set():
            try:
                until_stopped(self._send_next)
            except StoreError:
                return  # stopped while the store was away; `problem` says why

    def _send_next(self) -> None:
        """Send the files of the cell that waits longest; on failure it waits again, at the end."""
        with self._state:
            self._state.wait_for(lambda: self._stopped.is_set() or self._next() is not None)
            cell = self._next()
            if cell is None:
                return
            paths = self._pending.pop(cell)
            self._sending.add(cell)
        try:
            for path in sorted(paths, key=_rank):
                self._send(path)
                del paths[path]
            self.problem = None
        except StoreError as error:
            self.problem = error
            raise
        finally:
            with self._state:
                self._sending.discard(cell)
                if paths:
                    self._pending.setdefault(cell, {}).update(paths)
                self._state.notify_all()

    def _next(self) -> str | None:
        return next((cell for cell in self._pending if cell not in self._sending), None)

    def _send(self, path: str) -> None:
        """Make the store's file equal to the one on disk, and read it back."""
        if path in self._withheld:
            return
        try:
            data = self._on_disk(path)
        except TooLargeError:  # `Storing` says so
            return
        except FileNotFoundError:
            if self._there is None or path in self._there or path in self._sent:
                with self._request():
                    self.store.delete(path)
            self._stored.pop(path, None)  # it was on its way when it went from the disk
            return
        digest = sha256(data).hexdigest()
        if self._there and self._there.get(path) == len(data) and self._read(path) == data:
            self._stored[path] = digest
            return
        self._put(path, data)
        stored = self._read(path)
        while stored == data and (samples := self._replaced_samples(path)) is not None:
            self._put(samples, self._on_disk(samples))
            self._put(path, data)  # the record last, each time: whoever's stands has its samples
            stored = self._read(path)
        if stored == data:
            self._stored[path] = digest
        elif stored is not None and _is_another_workers(path, stored, data):
            self._stored[path] = digest  # it finished the same cell after this one: theirs stands
        else:
            raise StoreUnavailableError(f"{self.store.url} gave back other bytes of {path}")

    def _replaced_samples(self, path: str) -> str | None:
        """Return the path of a record's samples if another worker's are in their place."""
        folder, _, name = path.partition("/")
        samples = f"samples/{name.removesuffix('.json')}.parquet"
        if folder != "records" or samples not in self._stored:
            return None
        ours = self._on_disk(samples)
        return None if self._read(samples) == ours else samples

    def _put(self, path: str, data: bytes) -> None:
        self._sent.add(path)  # whatever comes of it
        with self._request():
            self.store.put(path, data)

    @contextmanager
    def _request(self) -> Iterator[None]:
        """Wait while uploads pause, then count as under way."""
        with self._state:
            self._state.wait_for(lambda: self._open or self._stopped.is_set())
            if self._stopped.is_set():
                raise StoreUnavailableError(f"{self.store.url}: the time to store was over")
            self._requests += 1
        try:
            yield
        finally:
            with self._state:
                self._requests -= 1
                self._state.notify_all()

    def _read(self, path: str) -> bytes | None:
        with self._request():
            try:
                return self.store.get(path)
            except FileNotFoundError:
                return None

    def _is_stored(self, path: str) -> bool:
        try:
            return self._stored.get(path) == sha256(self._on_disk(path)).hexdigest()
        except TooLargeError:  # it has grown meanwhile
            return False

    def _on_disk(self, path: str) -> bytes:
        try:
            return read_below(self._directory, path)
        except (FileNotFoundError, TooLargeError):
            raise
        except OSError as error:
            raise StoreRefusedError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise StoreRefusedError(f"{path} {error}") from error


def _is_another_workers(path: str, theirs: bytes, ours: bytes) -> bool:
    """Whether the stored record is another worker's of the same cell."""
    if not path.startswith("records/"):
        return False
    try:
        return parse_record(theirs).cell_hash == parse_record(ours).cell_hash
    except ValueError:
        return False


def _rank(path: str) -> int:
    folder = path.partition("/")[0]
    return ORDER.index(folder) if folder in ORDER else 0
