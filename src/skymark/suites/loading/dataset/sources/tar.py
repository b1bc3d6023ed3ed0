"""Tar shards named as WebDataset has them: the files of one element share a name up to a dot."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)
from skymark.suites.loading.dataset.sources.folder import MEDIA
from skymark.suites.loading.dataset.sources.signs import check_jpeg

FIELDS = {
    **dict.fromkeys(("jpg", "jpeg", "png", "webp", "gif", "bmp"), "image"),
    **dict.fromkeys(("cls", "class", "index"), "label"),
    **dict.fromkeys(("txt", "text", "caption", "transcript"), "text"),
    **dict.fromkeys(("flac", "wav"), "audio"),
    "mp4": "video",
}
"""Field by extension; the keys of a ``.json`` member are fields of their own."""


LARGEST_HEADER_BYTES = 1 << 20
"""Of the names and attributes that precede a member; tarfile reads them whole."""
HEADERS = {
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
}


class BoundedHeader(tarfile.TarInfo):
    """Member of an archive whose further headers have a bounded size."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        """Read what follows a header, as tarfile calls this method for subclasses to extend."""
        if self.type in HEADERS and self.size > LARGEST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of {self.size:,} bytes")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        return found


class Group(NamedTuple):
    """The members of one element and the archive they are in."""

    place: str
    archive: tarfile.TarFile
    members: dict[str, tarfile.TarInfo]

    def data(self, extension: str) -> bytes:
        """Read one member.

        Raises:
            DataError: the shard ends before the member does.
        """
        member = self.members[extension]
        if member.size > LARGEST_VALUE_BYTES:
            raise DataError(
                f"{self.place} has {member.size:,} bytes in {member.name}, more than any element"
            )
        file = self.archive.extractfile(member)
        data = b"" if file is None else file.read()
        if len(data) != member.size:
            raise DataError(f"{self.place} is cut off in {member.name}; copy the shard again")
        return data


class TarShards(DataSource):
    """Elements of tar shards, shard after shard."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self.files = tuple(paths)
        self._extensions: dict[str, str] = {}
        for first in self._groups():
            self._extensions = _extensions_of(first)
            break
        if not self._extensions:
            raise DataError(f"{paths[0]} holds no element; name its files KEY.jpg, KEY.cls …")
        self.fields = tuple(self._extensions)

    def count(self, limit: int) -> int:
        """Return the number of elements, which reads the members' headers only."""
        return sum(1 for _ in islice(self._groups(), limit))

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read elements in stored order."""
        for group in islice(self._groups(), limit):
            yield Row(group.place, tuple(self._value(group, field) for field in fields))

    def _value(self, group: Group, field: str) -> Any:
        extension = self._extension(group, field)
        if extension == "json":
            values = _json(group)
            if field not in values:
                raise DataError(f"{group.place} has no {field!r} in its .json; add it")
            return values[field]
        data = group.data(extension)
        if field in MEDIA:
            return data
        try:
            return data.decode().strip()
        except UnicodeDecodeError as error:
            raise DataError(f"{group.place}.{extension} is no UTF-8 text ({error})") from error

    def _extension(self, group: Group, field: str) -> str:
        known = self._extensions[field]
        if known in group.members:
            return known
        for extension in group.members:
            if FIELDS.get(extension) == field:
                return extension
        raise DataError(f"{group.place} has no .{known} as the first element has; add or remove it")

    def check(self, field: str, limit: int) -> None:
        """Look at the first and last bytes of JPEG members."""
        if field != "image" or self._extensions[field] == "json":
            return
        for group in islice(self._groups(), limit):
            extension = self._extension(group, field)
            if extension in {"jpg", "jpeg"}:
                file = group.archive.extractfile(group.members[extension])
                size = group.members[extension].size
                check_jpeg(cast(BinaryIO, file), size, f"{group.place}.{extension}")

    def _groups(self) -> Iterator[Group]:
        for path in self.files:
            try:
                with tarfile.open(path, tarinfo=BoundedHeader) as archive:
                    yield from _groups_of(archive, path)
            except (tarfile.TarError, EOFError, OSError) as error:
                raise DataError(f"{path} is no whole tar file ({error}); copy it again") from error


def _groups_of(archive: tarfile.TarFile, path: Path) -> Iterator[Group]:
    """Group consecutive members by the path up to the first dot of the file name."""
    key, members = "", dict[str, tarfile.TarInfo]()
    for member in archive:
        if not member.isfile():
            continue
        folder, slash, name = member.name.rpartition("/")
        stem, _, extension = name.partition(".")
        if f"{folder}{slash}{stem}" != key:
            if members:
                yield Group(f"{path}: {key}", archive, members)
            key, members = f"{folder}{slash}{stem}", {}
        members[extension.lower()] = member
    if members:
        yield Group(f"{path}: {key}", archive, members)


def _extensions_of(group: Group) -> dict[str, str]:
    """Return the fields that an element offers, with the extension each is read from."""
    found: dict[str, str] = {}
    for extension in group.members:
        if extension == "json":
            found |= dict.fromkeys(_json(group), "json")
        else:
            found.setdefault(FIELDS.get(extension, extension), extension)
    return found


def _json(group: Group) -> dict[str, Any]:
    try:
        values = json.loads(group.data("json"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{group.place}.json is no JSON ({error}); mend or remove it") from error
    if not isinstance(values, dict):
        raise DataError(f"{group.place}.json is no JSON object; mend or remove it")
    return values
