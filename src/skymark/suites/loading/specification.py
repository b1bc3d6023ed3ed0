"""The specification of a cell: what decides its data and its work, and which adapter does it.

`parse_reference` is the only place where their text is taken apart; `str` puts it together
again, so that a reference can be sent to another process as text.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from skymark.model.base import Frozen
from skymark.model.errors import UsageError
from skymark.model.record import Cell
from skymark.suites.loading.dataset.sources.paths import split_asked_for
from skymark.suites.loading.work import Size

IMPORT_VERSION = 2
"""Raise when real data becomes other elements. Version 1 encoded all images as JPEG."""


class LoadingSpecification(Frozen):
    """Versions, seed, size, real data and the file of a user's own adapter; all of it is hashed."""

    scenario_version: int = 1
    seed: int = 0
    size: Size
    data: str | None = None
    """The user's ``--data`` text; None for synthetic data."""
    data_fingerprint: str | None = None
    """Fingerprint of the real data in the plan."""
    skip_damaged: bool | None = None
    """True to leave out damaged elements of the real data, None to refuse them."""
    import_version: int | None = None
    """How the real data becomes elements (`IMPORT_VERSION`)."""
    adapter_version: int = 1
    adapter_file: str | None = None
    """``FILE.py:CLASS`` of an adapter outside any package, from the directory it was planned in."""
    adapter_digest: str | None = None
    """SHA-256 hex digest of that file."""

    @classmethod
    def of(cls, cell: Cell) -> LoadingSpecification:
        """Return the specification of a cell.

        Raises:
            ValidationError: the cell is not of this suite.
        """
        return cls.model_validate(cell.specification)

    @property
    def local_files(self) -> list[str]:
        """Files and directories of the user's own that only this machine has."""
        found = [] if self.adapter_file is None else [self.adapter_file.rpartition(":")[0]]
        if self.data is None or "://" in self.data:
            return found
        return [*found, split_asked_for(self.data)[0]]

    def json_content(self) -> dict[str, JsonValue]:
        """Return it in a cell's form, without absent values."""
        content: dict[str, JsonValue] = self.model_dump(mode="json", exclude_none=True)
        return content


def reference_of(cell: Cell) -> str:
    """Return how to find a cell's adapter: its slug, ``slug@version`` or ``FILE.py:CLASS``."""
    return LoadingSpecification.of(cell).adapter_file or cell.adapter


class SlugReference(Frozen):
    """An adapter of skymark or of an installed package, by its slug."""

    slug: str
    version: str | None = None
    """The version of the library to install; None for the adapter's pinned version."""

    def __str__(self) -> str:
        return self.slug if self.version is None else f"{self.slug}@{self.version}"


class FileReference(Frozen):
    """An adapter class in a user's own file."""

    path: Path
    """The Python file, absolute."""
    class_name: str

    @property
    def from_here(self) -> str:
        """Its text with a path from the current directory, if the file lies below that."""
        here = Path.cwd()
        path = self.path.relative_to(here) if self.path.is_relative_to(here) else self.path
        return f"{path}:{self.class_name}"

    def __str__(self) -> str:
        return f"{self.path}:{self.class_name}"


def parse_reference(text: str) -> SlugReference | FileReference:
    """Return the reference that ``slug``, ``slug@version`` or ``file.py:Class`` stands for.

    A file's path is made absolute. Whether there is such an adapter is not asked; see
    `skymark.suites.loading.registry.adapter_reference`, which also takes display names.

    Raises:
        UsageError: nothing stands before or after the ``@``.
    """
    if ".py:" in text:
        path, _, class_name = text.rpartition(":")
        return FileReference(path=Path(path).resolve(), class_name=class_name)
    slug, at, version = text.partition("@")
    if at and not (slug and version):
        raise UsageError(
            f"adapter {text!r} names no {'version' if slug else 'adapter'}; "
            f"write {slug or 'ADAPTER'}@VERSION or {slug or 'ADAPTER'}"
        )
    return SlugReference(slug=slug, version=version or None)
