"""Real data that a user names, as the suite that measures it reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol


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
