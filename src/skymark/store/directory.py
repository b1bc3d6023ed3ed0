"""Store on a mounted file system: NFS, a Slurm cluster's shared disk, a mounted bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from skymark.model.errors import StoreRefusedError, StoreUnavailableError, UsageError
from skymark.run.layout import MANIFEST
from skymark.store.kind import StoreKind
from skymark.whole_files import LARGEST_FILE_BYTES, write_whole


class DirectoryStore:
    """Files of one run below a directory. Implements `skymark.store.store.Store`."""

    live = True
    parallel = 1

    def __init__(self, root: Path) -> None:
        self.root = root

    @property
    def url(self) -> str:
        """The directory as a ``file://`` address."""
        return self.root.absolute().as_uri()

    def check(self) -> None:
        """Prove that the directory can be written; one that is not there is not made yet.

        Raises:
            StoreRefusedError: its parent is not there, or may not be written.
        """
        if not self.root.parent.is_dir():
            raise StoreRefusedError(f"{self.root.parent} is no directory; make or mount it first")
        place = self.root if self.root.is_dir() else self.root.parent
        with _explained(place):
            write_whole(place / ".probe", b"skymark")
            (place / ".probe").unlink(missing_ok=True)  # another run may have removed it

    def put(self, path: str, data: bytes) -> None:
        """Write one file whole."""
        with _explained(self.root):
            write_whole(self.root / path, data)

    def get(self, path: str) -> bytes:
        """Read one file."""
        file = self.root / path
        with _explained(self.root):
            if file.stat().st_size > LARGEST_FILE_BYTES:
                raise StoreRefusedError(f"{file} is larger than skymark's files ever are")
            return file.read_bytes()

    def sizes(self) -> Mapping[str, int]:
        """Return the size of every file of the run."""
        with _explained(self.root):
            return {
                path.relative_to(self.root).as_posix(): path.stat().st_size
                for path in self.root.rglob("*")
                if path.is_file() and not path.name.startswith(".")
            }

    def delete(self, path: str) -> None:
        """Remove one file."""
        with _explained(self.root):
            (self.root / path).unlink(missing_ok=True)

    def complete(self, directory: Path) -> str | None:
        """Do nothing: every file was put by itself."""
        del directory
        return None

    def close(self) -> None:
        """Do nothing: no connection is held."""


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
    return sorted(path.parent.name for path in root.glob(f"*/{MANIFEST}"))


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
