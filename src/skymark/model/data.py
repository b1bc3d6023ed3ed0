"""Real data that a user names, and the share of it that a scenario uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from skymark.model.base import Count, Frozen


class NamedData(Protocol):
    """Real data that a user names, with a reader of a suite. Opening it reads no row."""

    @property
    def address(self) -> str:
        """The user's name for the data; local paths are absolute."""

    @property
    def fingerprint(self) -> str:
        """A digest of the data when it was opened; it changes with the data."""

    @property
    def size_bytes(self) -> int | None:
        """The size of the files; None if it is unknown."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The local files of the data; none for remote data."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of a row's values."""

    def rows(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the location of each row, for messages, and its values.

        Raises:
            DataError: a row cannot be read.
        """

    def has_changed(self) -> bool:
        """Whether the data has changed since it was opened."""


class LeftOut(Frozen):
    """Unused elements or files, with the reason."""

    count: Count
    what: str
    """Such as ``beyond the size`` or ``.heic (no decoder)``."""

    def __str__(self) -> str:
        return f"{self.count:,} {self.what}"


class DataTaken(Frozen):
    """Elements that a scenario uses, out of all elements of real data.

    Every element is either used or counted in `left_out`.
    """

    name: str
    """The user's name for the data."""
    noun: str
    """Name of its elements, such as ``photos``."""
    taken: Count
    found: Count
    is_whole: bool = True
    """Whether all elements were counted; in very large data counting stops early."""
    classes: Count | None = None
    """Number of different labels; None for work without labels."""
    left_out: tuple[LeftOut, ...] = Field(default=())
    notes: tuple[str, ...] = Field(default=())
    """Further notes on the data, such as the split used."""

    @property
    def sentence(self) -> str:
        """Summary in words: ``./photos: 810 of 1,000 images; left out: 190 beyond the size``."""
        found = f"{self.found:,}" if self.is_whole else f"more than {self.found:,}"
        parts = [f"{self.taken:,} of {found} {self.noun}"]
        if self.classes is not None:
            parts.append(f"{self.classes:,} class" + ("es" if self.classes != 1 else ""))
        said = [", ".join([*parts, *self.notes])]
        if self.left_out:
            said.append(f"left out: {', '.join(map(str, self.left_out))}")
        return f"{self.name}: {'; '.join(said)}"
