"""A file of class names for data sets, in another wording or language than their own.

Its format is that of CLIP_benchmark's ``--custom_classname_file``, such as its
``it_classnames.json``: an object with an entry per data set, each a list of names in the order of
labels.
"""

from __future__ import annotations

from typing import ClassVar

from skymark.model.errors import DataError
from skymark.suites.clip.reading.entries import Entries
from skymark.suites.clip.reading.layout import is_sound
from skymark.suites.clip.specification import FileEntry


class Naming(Entries):
    """The content of a file of class names, read and checked once."""

    noun: ClassVar[str] = "class names"

    def names(self, entry: str, count: int | None) -> tuple[str, ...]:
        """Return the names of a data set's classes.

        Args:
            entry: of the data set.
            count: of its classes; None where that is not known yet.

        Raises:
            DataError: there are more or fewer, or they are in another format.
        """
        self.check(entry)
        found = tuple(self.entries[entry])
        if count is not None and len(found) != count:
            raise DataError(
                f"{self.path} has {len(found)} class names for {entry}, which has {count} classes; "
                "write one for each, in the order of its labels"
            )
        return found

    def check(self, entry: str) -> None:
        """Refuse an entry that is no list of names."""
        found = self.entries[entry]
        if not isinstance(found, list) or not found:
            raise DataError(f"{self.path} has no list of class names for {entry}")
        if not all(isinstance(name, str) and name.strip() and is_sound(name) for name in found):
            raise DataError(f"{self.path} has class names for {entry} that are empty or no texts")


def names_in(file: FileEntry, count: int) -> tuple[str, ...]:
    """Return the class names that a cell was planned with.

    Raises:
        DataError: the file changed since, or has names for another number of classes.
    """
    return Naming.read_again(file).names(file.entry, count)
