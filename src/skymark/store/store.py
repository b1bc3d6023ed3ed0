"""What a remote store can do, and how one is opened from its address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from skymark.model.errors import UsageError

OPENERS: dict[str, str] = {
    "file": "skymark.store.directory:open_directory",
    "s3": "skymark.store.bucket.store:open_bucket",
    "wandb": "skymark.store.wandb.store:open_run_files",
}
"""Opener by scheme, as ``module:function`` so that no client is imported before it is needed."""

SOURCES: dict[str, str] = {
    "file": "skymark.store.directory:open_directory",
    "s3": "skymark.store.bucket.store:open_bucket",
}
"""Opener by scheme of stores whose runs are found as ``ADDRESS/RUN-ID``."""

LISTERS: dict[str, str] = {
    "file": "skymark.store.directory:list_runs",
    "s3": "skymark.store.bucket.store:list_runs",
}
"""By scheme: what names the runs at an address."""

FINISH_S = 120.0
"""How long the end of a run waits for stores that are slow or away."""


class Source(Protocol):
    """What a run can be fetched from: the reading side of a store."""

    @property
    def url(self) -> str:
        """Where the run lies, as a user would name it to ``skymark fetch``; holds no secret."""

    @property
    def parallel(self) -> int:
        """How many threads may, and are worth it to, use the store at a time."""

    def get(self, path: str) -> bytes:
        """Read one file of at most `LARGEST_FILE_BYTES`.

        Raises:
            FileNotFoundError: there is none.
        """

    def sizes(self) -> Mapping[str, int]:
        """Return the size in bytes of every file of the run, by path; empty for an unknown run."""

    def close(self) -> None:
        """Give back connections and processes; nothing may be called afterwards."""


class Store(Source, Protocol):
    """The files of one run in a remote place, addressed by their paths in the run's directory.

    `parallel` calls may be under way at a time. Every method returns within a bounded time, and
    raises `StoreUnavailableError` where trying again later may help, `StoreRefusedError` where
    only the user can help. No method trusts a success status where it can read back instead.
    """

    @property
    def live(self) -> bool:
        """Whether files can be put one by one; else all go with `complete`."""

    def check(self) -> None:
        """Prove that the store can be written and read, before anything is measured."""

    def put(self, path: str, data: bytes) -> None:
        """Write one file, whole or not at all, in place of what was there."""

    def delete(self, path: str) -> None:
        """Remove one file; no error if there is none."""

    def complete(self, directory: Path) -> str | None:
        """Do what this store does with a finished run, and read back what that wrote.

        Called when the run's files no longer change, while the last of them are still being put;
        may be called again where it raised.

        Args:
            directory: the run's directory on disk.

        Returns:
            A line that tells the user what came of it, or None.
        """


def open_store(url: str, run_id: str) -> Store:
    """Open the store of a run; contacts nobody yet.

    Args:
        url: ``s3://bucket/prefix``, ``wandb`` or ``file:///directory``.
        run_id: the run's name; its files lie below it.

    Raises:
        UsageError: the address names no store, its client is not installed, or a variable that it
            needs is not set.
    """
    from skymark.references import load_object

    scheme = url.partition(":")[0]
    if scheme not in OPENERS:
        raise UsageError(
            f"--store {url} names no store; known are s3://BUCKET/PREFIX, wandb, file:///DIRECTORY"
        )
    opener: Callable[[str, str], Store] = load_object(OPENERS[scheme])
    return opener(url, run_id)


def open_source(url: str) -> Source:
    """Open what ``skymark fetch`` names; contacts nobody yet.

    Args:
        url: ``s3://bucket/prefix/RUN-ID``, ``file:///directory/RUN-ID`` or ``wandb://…``.

    Raises:
        UsageError: the address names no store, or its client is not installed.
    """
    from skymark.references import load_object

    scheme = url.partition(":")[0]
    if scheme == "wandb":
        opened: Source = load_object("skymark.store.wandb.store:open_artifact")(url)
        return opened
    address, _, run_id = url.rstrip("/").rpartition("/")
    if scheme not in SOURCES or not run_id or address.endswith(":/"):
        raise UsageError(
            f"{url} names no stored run; known are s3://BUCKET/PREFIX/RUN-ID, "
            "wandb://ENTITY/PROJECT/ARTIFACT:ALIAS and file:///DIRECTORY/RUN-ID"
        )
    opener: Callable[[str, str], Source] = load_object(SOURCES[scheme])
    return opener(address, run_id)


def runs_at(url: str) -> list[str]:
    """Return the ids of the runs at an address; empty where stores cannot tell."""
    from skymark.references import load_object

    scheme = url.partition(":")[0]
    if scheme not in LISTERS:
        return []
    lister: Callable[[str], list[str]] = load_object(LISTERS[scheme])
    return lister(url)
