"""References to adapters: a slug, a slug at a version, or a class in a user's own file.

`AdapterReference.parse` is the only place where their text is taken apart; `str` puts it together
again, so that a reference can be sent to another process as text.
"""

from __future__ import annotations

from pathlib import Path

from skymark.model.base import Frozen
from skymark.model.errors import UsageError


class AdapterReference(Frozen):
    """The way to an adapter's class: a `SlugReference` or a `FileReference`."""

    @staticmethod
    def parse(text: str) -> SlugReference | FileReference:
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


class SlugReference(AdapterReference):
    """An adapter of skymark or of an installed package, by its slug."""

    slug: str
    version: str | None = None
    """The version of the library to install; None for the one that the adapter's pins have."""

    def __str__(self) -> str:
        return self.slug if self.version is None else f"{self.slug}@{self.version}"


class FileReference(AdapterReference):
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
