"""Names of the storage formats, by their writer and by their kind of source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from skymark.model.errors import UsageError

IN_PLACE = frozenset({"canonical", "memory", "computed"})
"""Formats that read the unchanged canonical files."""
SHARED = IN_PLACE | {"files", "tar", "parquet", "http", "http-tar", "http-parquet", "s3"}
"""Formats that skymark writes, once for all libraries; further formats are a library's own."""
BUCKET = "dataset"
"""The one bucket of formats for clients that speak S3: the folder that the server has it in."""
TABLE_IN_BUCKET = f"{BUCKET}/objects"
"""Folder in the bucket for formats that are a folder of files."""

BY_SOURCE: Mapping[str, tuple[str, ...]] = {
    "memory": ("memory",),
    "files": ("files",),
    "tar": ("tar", "indexed-tar"),
    "columnar": ("parquet", "indexed-parquet", "arrow", "lance", "deeplake"),
    "http": ("http", "http-tar", "http-parquet", "http-mds", "http-lance", "http-deeplake", "s3"),
    "computed": ("computed",),
}
"""The formats of each kind of source, the shared one first."""

HTTP = frozenset(BY_SOURCE["http"])
"""Formats read from an object server, which serves what lies on disk."""


def format_of_source(source: str, formats: Iterable[str]) -> str:
    """Return the adapter's format for a kind of source: its own in that class, else the shared one.

    Raises:
        UsageError: the source does not exist.
    """
    if source not in BY_SOURCE:
        raise UsageError(f"unknown source {source!r}; choose from {', '.join(BY_SOURCE)}")
    names = BY_SOURCE[source]
    return next((name for name in formats if name in names), names[0])


def sources_of(formats: Iterable[str]) -> frozenset[str]:
    """Return the kinds of source among some formats, named as abilities: ``source:tar``."""
    formats = set(formats)
    return frozenset(f"source:{kind}" for kind, own in BY_SOURCE.items() if formats & {*own})
