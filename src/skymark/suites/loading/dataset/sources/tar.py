"""Tar shards with WebDataset's names: the files of one element share a name up to a dot."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from skymark.model.errors import DataError
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)
from skymark.suites.loading.dataset.sources.folder import MEDIA
from skymark.tar_files import members_of, opened_tar

FIELDS = {
    **{suffix[1:]: field for field, kind in MEDIA.items() for suffix in kind},
    **dict.fromkeys(("cls", "class", "index"), "label"),
    **dict.fromkeys(("txt", "text", "caption", "transcript"), "text"),
}
"""Field by extension; the keys of a ``.json`` member are fields of their own."""
HIDDEN = ("._", ".DS_Store")
"""Beginnings of the names of files that macOS adds."""


class Group(NamedTuple):
    """The members of one element and the archive they are in."""

    place: str
    archive: tarfile.TarFile
    members: dict[str, tarfile.TarInfo]

    def data(self, extension: str) -> bytes:
        """Read one member.

        Raises:
            DataError: the member is larger than any element, or the shard ends before it does.
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

    noun = "elements"

    def __init__(self, paths: Sequence[Path]) -> None:
        super().__init__()
        self.files = tuple(paths)
        self._extensions: dict[str, str] = {}
        for first in self._groups():
            self._extensions = _extensions_of(first)
            break
        if not self._extensions:
            raise DataError(f"{paths[0]} holds no element; name its files KEY.jpg, KEY.cls …")
        self.fields = tuple(self._extensions)

    def counts(self) -> Iterator[int]:
        """Count elements, which reads the members' headers only."""
        self.ignored_inside.clear()
        known = set(self._extensions.values())
        for group in self._groups(counting=True):
            for extension in group.members:
                if extension not in known and FIELDS.get(extension) not in self._extensions:
                    self.ignored_inside[f".{extension} that the first element lacks"] += 1
            yield 1

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read elements in stored order."""
        for group in islice(self._groups(), limit):
            try:
                row = Row(group.place, tuple(self._value(group, field) for field in fields))
            except DataError as damage:
                row = Row(group.place, (), damage)
            yield row

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
            return data.decode("utf-8-sig").strip()
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

    def _groups(self, *, counting: bool = False) -> Iterator[Group]:
        for path in self.files:
            with opened_tar(path) as archive:
                hidden = yield from _groups_of(archive, path)
            if hidden and counting:
                self.ignored_inside["._* of macOS"] += hidden


def _groups_of(archive: tarfile.TarFile, path: Path) -> Generator[Group, None, int]:
    """Group consecutive members by the path up to the first dot of the file name.

    Returns:
        the number of hidden members.

    Raises:
        DataError: members of one element do not lie beside each other, or have one name.
    """
    key, members, seen, hidden = "", dict[str, tarfile.TarInfo](), set[str](), 0
    for member in members_of(archive):
        folder, slash, name = member.name.rpartition("/")
        if not member.isfile() or name.startswith(HIDDEN) or "__MACOSX" in folder:
            hidden += member.isfile()
            continue
        stem, _, extension = name.partition(".")
        extension = extension.lower()
        if f"{folder}{slash}{stem}" != key or not members:
            if members:
                yield Group(f"{path}: {key}", archive, members)
            key, members = f"{folder}{slash}{stem}", {}
            if key in seen:
                raise DataError(
                    f"{path} has members of {key} in two places; write the shard anew with sorted "
                    "names (tar --sort=name), each name once"
                )
            seen.add(key)
        if extension in members:
            raise DataError(f"{path} has {member.name} twice; write the shard anew")
        members[extension] = member
    if members:
        yield Group(f"{path}: {key}", archive, members)
    return hidden


def _extensions_of(group: Group) -> dict[str, str]:
    """Return the fields that an element offers, with the extension each is read from.

    Raises:
        DataError: an element's name has dots before its extension.
    """
    found: dict[str, str] = {}
    for extension in group.members:
        if extension == "json":
            found |= dict.fromkeys(_json(group), "json")
        else:
            found.setdefault(FIELDS.get(extension, extension), extension)
    media = [one for one in group.members if FIELDS.get(one.rpartition(".")[2]) in MEDIA]
    if media and not any(one in FIELDS for one in media):
        name = group.members[media[0]].name
        found_as = f"{media[0]!r} is taken for the kind of file"
        raise DataError(
            f"{group.place} ends at the first dot of {name}, so {found_as}; rename the members, so "
            "that the only dots are before .jpg, .cls …"
        )
    return found


def _json(group: Group) -> dict[str, Any]:
    try:
        values = json.loads(group.data("json"))
    except (ValueError, RecursionError) as error:
        raise DataError(f"{group.place}.json is no JSON ({error}); mend or remove it") from error
    if not isinstance(values, dict):
        raise DataError(f"{group.place}.json is no JSON object; mend or remove it")
    return values
