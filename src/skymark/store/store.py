"""Protocols of a remote store, `Store` and its reading side `RunSource`, and repeated attempts.

A class that inherits from one has its defaults.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skymark.model.errors import StoreError, StoreUnavailableError

if TYPE_CHECKING:
    from tenacity import Retrying
    from tenacity.stop import stop_base

FINISH_S = 120.0
"""Longest wait at the end of a run for stores that are slow or away."""
STORE_WAIT_VARIABLE = "SKYMARK_STORE_WAIT_S"
"""Another wait in seconds, where `skymark run --store-wait` says none."""
STALL_VARIABLE = "SKYMARK_STALL_TOKEN"
"""A word with which a run says that a store takes nothing, for a client that follows it."""


class RunSource(Protocol):
    """Files of one stored run: the reading side of a store."""

    @property
    def url(self) -> str:
        """The run's address as ``skymark fetch`` takes it; holds no secret."""

    @property
    def parallel(self) -> int:
        """The useful and allowed number of threads that use the store at a time."""
        return 1

    def get(self, path: str) -> bytes:
        """Read one file of at most `LARGEST_FILE_BYTES`.

        Raises:
            FileNotFoundError: there is none.
        """

    def sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of every file of the run, by path; empty for an unknown run."""

    def close(self) -> None:
        """Give back connections and processes, if any; nothing may be called afterwards."""
        return


class Store(RunSource, Protocol):
    """Files of one run in a remote place, addressed by their paths in the run's directory.

    `parallel` calls may be under way at a time. Every method returns within a bounded time, and
    raises `StoreUnavailableError` where trying again later may help, `StoreRefusedError` where
    only the user can help. No method trusts a success status where it can read back instead.
    """

    @property
    def live(self) -> bool:
        """Whether files can be put one by one; else all go with `complete`."""
        return True

    @property
    def several_writers(self) -> bool:
        """Whether several processes may put different files of one run at a time."""
        return True

    def check(self) -> None:
        """Prove that the store can be written and read, before anything is measured."""

    def put(self, path: str, data: bytes) -> None:
        """Write or replace one file, whole or not at all."""

    def delete(self, path: str) -> None:
        """Remove one file; no error if there is none."""

    def complete(self, directory: Path) -> str | None:
        """Finish storing a run, and read the result back.

        Called when the run's files no longer change, while the last of them are still being put;
        may be called again where it raised.

        Args:
            directory: the run's directory on disk.

        Returns:
            A line about the result for the user, or None.
        """
        del directory  # where every file was put by itself, nothing is left to do
        return None


LONGEST_WAIT_S = 30.0


def attempts(
    stop: stop_base,
    *,
    after: type[StoreError] = StoreUnavailableError,
    longest_wait_s: float = LONGEST_WAIT_S,
    sleep: Callable[[float], None] = time.sleep,
) -> Retrying:
    """Return a caller that repeats a call after an error, and raises the last error at the end.

    Args:
        stop: when to give up.
        after: the errors after which to call again.
        longest_wait_s: between two attempts; the first waits are much shorter.
        sleep: waits that many seconds.
    """
    from tenacity import Retrying, retry_if_exception_type, wait_exponential_jitter

    return Retrying(
        retry=retry_if_exception_type(after),
        wait=wait_exponential_jitter(multiplier=0.5, max=longest_wait_s),
        stop=stop,
        sleep=sleep,
        reraise=True,
    )
