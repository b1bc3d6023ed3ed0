"""A kind of store of another package: a run is one ZIP file in a directory."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

from skymark.model.errors import StoreRefusedError, UsageError
from skymark.store.kinds import ClientLibrary, Store, StoreKind


class ZipStore(Store):
    """The files of one run in an archive."""

    several_writers = False

    def __init__(self, archive: Path) -> None:
        self.archive = archive

    @property
    def url(self):
        return f"zip://{self.archive.with_suffix('')}"

    def check(self):
        if not self.archive.parent.is_dir():
            raise StoreRefusedError(f"{self.archive.parent} is no directory; make it first")

    def put(self, path, data):
        self._write(self._files() | {path: data})

    def get(self, path):
        try:
            return self._files()[path]
        except KeyError as error:
            raise FileNotFoundError(path) from error

    def sizes(self):
        return {path: len(data) for path, data in self._files().items()}

    def delete(self, path):
        self._write({name: data for name, data in self._files().items() if name != path})

    def complete(self, directory):
        del directory
        return f"an archive of {len(self._files())} files"

    def _files(self):
        if not self.archive.exists():
            return {}
        with ZipFile(self.archive) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    def _write(self, files):
        part = self.archive.with_suffix(".part")
        with ZipFile(part, "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
        part.replace(self.archive)


def directory_of(url):
    scheme, _, directory = url.partition("://")
    if scheme != "zip" or not directory.startswith("/"):
        raise UsageError(f"--store {url} must be zip:///DIRECTORY")
    return Path(directory)


ZIP = StoreKind(
    scheme="zip",
    address="zip:///DIRECTORY",
    opener=lambda url, run_id: ZipStore(directory_of(url) / f"{run_id}.zip"),
    lister=lambda url: sorted(path.stem for path in directory_of(url).glob("*.zip")),
    outlives_machine=True,
    leaves_machine=lambda variables: variables.get("ZIP_MOUNTED") == "yes",
    default_url=lambda variables: variables.get("ZIP_STORE"),
    variables=("ZIP_STORE", "ZIP_MOUNTED"),
    client=ClientLibrary("zipfile", lambda: "pip install zip-store"),
)
