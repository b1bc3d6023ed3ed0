"""Real data that a user names, and the account of what a scenario takes of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from pydantic import Field

from skymark.model.base import Count, Frozen


class NamedData(Protocol):
    """Real data that a user names, whose reader belongs to a suite. Opening it reads no row."""

    @property
    def address(self) -> str:
        """The name that the user gave, a path of this disk made absolute."""

    @property
    def fingerprint(self) -> str:
        """A digest that changes with the data, as it was when it was opened."""

    @property
    def size_bytes(self) -> int | None:
        """The size of the files; None where nobody tells it."""

    @property
    def files(self) -> tuple[Path, ...]:
        """The files of this disk that it is read from; none where it lies elsewhere."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of a row's values."""

    def rows(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the place of each row, for messages, and its values.

        Raises:
            DataError: one cannot be read.
        """

    def has_changed(self) -> bool:
        """Whether the data is not what it was when it was opened."""


class LeftOut(Frozen):
    """Elements or files that are not taken, with the reason."""

    count: Count
    what: str
    """Such as ``beyond the size`` or ``.heic (no decoder)``."""

    def __str__(self) -> str:
        return f"{self.count:,} {self.what}"


class DataTaken(Frozen):
    """Elements that a scenario takes of real data, out of all that are there.

    Everything in the data is either taken or named here.
    """

    name: str
    """The user's name for the data."""
    noun: str
    """Of its elements, such as ``photos``."""
    taken: Count
    found: Count
    is_whole: bool = True
    """Whether all elements were counted; in very large data counting stops early."""
    classes: Count | None = None
    """Different labels; None where the work has no label."""
    left_out: tuple[LeftOut, ...] = Field(default=())
    notes: tuple[str, ...] = Field(default=())
    """Anything else to know of the data, such as the split that was taken."""

    @property
    def sentence(self) -> str:
        """Say it for a reader: ``./photos: 810 of 1,000 images; left out: 190 beyond the size``."""
        found = f"{self.found:,}" if self.is_whole else f"more than {self.found:,}"
        parts = [f"{self.taken:,} of {found} {self.noun}"]
        if self.classes is not None:
            parts.append(f"{self.classes:,} class" + ("es" if self.classes != 1 else ""))
        said = [", ".join([*parts, *self.notes])]
        if self.left_out:
            said.append(f"left out: {', '.join(map(str, self.left_out))}")
        return f"{self.name}: {'; '.join(said)}"
