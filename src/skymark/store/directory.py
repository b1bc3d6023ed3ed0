"""Store on a mounted file system: NFS, a Slurm cluster's shared disk, a mounted bucket."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.plain_files import (
    LARGEST_FILE_BYTES,
    entries_below,
    read_below,
    remove_below,
    write_below,
)
from skymark.rundir.newest import runs_in
from skymark.store.kinds import Store, StoreKind


class DirectoryStore(Store):
    """Files of one run below a directory.

    The directory of the run, and all below it, is never taken through a link.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def url(self) -> str:
        """The directory as a ``file://`` address."""
        return self.root.absolute().as_uri()

    def check(self) -> None:
        """Prove that the directory can be written; an absent one is not made yet.

        Raises:
            StoreRefusedError: its parent is not there, or may not be written.
        """
        if not self.root.parent.is_dir():
            raise StoreRefusedError(f"{self.root.parent} is no directory; make or mount it first")
        inside = f"{self.root.name}/" if os.path.lexists(self.root) else ""
        with _explained(self.root.parent):
            write_below(self.root.parent, f"{inside}.probe", b"skymark")
            remove_below(self.root.parent, f"{inside}.probe")  # another run may have done so

    def put(self, path: str, data: bytes) -> None:
        """Write one file whole."""
        with _explained(self.root):
            write_below(self.root.parent, f"{self.root.name}/{path}", data)

    def get(self, path: str) -> bytes:
        """Read one file."""
        with _explained(self.root):
            try:
                return read_below(
                    self.root.parent, f"{self.root.name}/{path}", largest=LARGEST_FILE_BYTES
                )
            except ValueError as error:
                raise StoreRefusedError(f"{self.root / path} {error}") from error

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every regular file of the run."""
        with _explained(self.root):
            return {
                path: entry.stat(follow_symlinks=False).st_size
                for path, entry in entries_below(self.root)
                if entry.is_file(follow_symlinks=False) and not entry.name.startswith(".")
            }

    def delete(self, path: str) -> None:
        """Remove one file."""
        with _explained(self.root):
            remove_below(self.root.parent, f"{self.root.name}/{path}")


def open_directory(url: str, run_id: str) -> DirectoryStore:
    """Open ``file:///shared/results`` for a run.

    Raises:
        UsageError: the address is not that of a local directory.
    """
    parts = urlsplit(url)
    if parts.netloc or not parts.path.startswith("/"):
        raise UsageError(f"--store {url} must be file:///ABSOLUTE/DIRECTORY")
    return DirectoryStore(Path(unquote(parts.path)) / run_id)


def list_runs(url: str) -> list[str]:
    """Return the ids of the runs below a ``file://`` address."""
    root = open_directory(url, "").root
    return [path.name for path in runs_in(root)]


DIRECTORY = StoreKind(
    scheme="file",
    address="file:///DIRECTORY",
    opener=open_directory,
    lister=list_runs,
    outlives_machine=False,  # nothing tells a mounted disk from the machine's own
    leaves_machine=lambda _: False,
)


@contextmanager
def _explained(root: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise
    except PermissionError as error:
        raise StoreRefusedError(f"{root}: {error.strerror}; allow this user to write") from error
    except OSError as error:
        raise StoreUnavailableError(f"{root}: {error.strerror or error}") from error
