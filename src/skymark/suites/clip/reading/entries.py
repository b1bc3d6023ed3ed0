"""A JSON file with an entry for each of several data sets, as CLIP_benchmark's custom files are."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self

from skymark.model.errors import DataError
from skymark.plain_files import read_regular
from skymark.suites.clip.specification import FileEntry
from skymark.tar_files import printable

LARGEST_BYTES = 256 << 20
"""CLIP_benchmark's prompts of ImageNet take 10 MB."""


class Entries(ABC):
    """The content of such a file, read once."""

    noun: ClassVar[str]
    """What an entry has, for messages."""

    def __init__(self, path: Path) -> None:
        """Read it.

        Raises:
            DataError: it cannot be read, or is in another format.
        """
        self.path = path
        data = self._bytes()
        self.sha256 = sha256(data).hexdigest()
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is no JSON ({error}); mend it") from error
        if not isinstance(content, dict) or not content:
            raise DataError(f"{path} is no JSON object with an entry per data set")
        self.entries: dict[str, Any] = content

    @classmethod
    def read_again(cls, file: FileEntry) -> Self:
        """Return the content that a cell was planned with.

        Raises:
            DataError: the file changed since.
        """
        found = cls(Path(file.path))
        if found.sha256 != file.sha256:
            raise DataError(f"{file.path} changed since the run was planned; plan again")
        return found

    def entry_for(self, name: str) -> FileEntry:
        """Return the place of a data set's entry, by its name with or without ``wds/``.

        Raises:
            DataError: it has none, or it is in another format.
        """
        for entry in (name, name.removeprefix("wds/")):
            if entry in self.entries:
                self.check(entry)
                return FileEntry(path=str(self.path), sha256=self.sha256, entry=entry)
        raise DataError(
            f"{self.path} has no {self.noun} for {name}, but for "
            f"{printable(', '.join(sorted(self.entries)))}; add an entry, or leave the data set out"
        )

    @abstractmethod
    def check(self, entry: str) -> None:
        """Refuse an entry in another format.

        Raises:
            DataError: it is.
        """

    def _bytes(self) -> bytes:
        try:
            return read_regular(self.path, largest=LARGEST_BYTES, through_links=True)
        except (OSError, ValueError) as error:
            raise DataError(f"cannot read the {self.noun} in {self.path}: {error}") from error
