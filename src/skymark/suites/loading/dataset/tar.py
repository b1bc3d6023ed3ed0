"""Tar shards as WebDataset names them: the members of one element share a key.

An element is ``KEY.COLUMN.EXT`` for each encoded or array column, and ``KEY.json`` with its scalar
columns, if there are any: a label does not cost a member of its own. The key is the index.
"""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from skymark.suites.loading.dataset.canonical import Column, Dataset, Element
from skymark.suites.loading.dataset.files import Reader, extension, from_bytes, to_bytes

SHARD_ELEMENTS = 128
SCALARS = "json"


class Members:
    """The mapping between the columns of an element and the members of one key."""

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self._scalars = {c.name: np.dtype(c.dtype).type for c in columns if c.shape == ()}
        # WebDataset and Energon fold the names of members to lower case.
        self._arrays = {f"{c.name}.{extension(c)}".lower(): c for c in columns if c.shape != ()}

    @property
    def suffixes(self) -> tuple[str, ...]:
        """The members' names after the key."""
        return (*self._arrays, *((SCALARS,) if self._scalars else ()))

    def write(self, element: Element) -> dict[str, bytes]:
        """Return the content of each member by suffix."""
        members = {
            suffix: to_bytes(column, element[column.name])
            for suffix, column in self._arrays.items()
        }
        if self._scalars:
            scalars = {name: element[name].item() for name in self._scalars}
            members[SCALARS] = json.dumps(scalars).encode()
        return members

    def read(self, key: str, members: Mapping[str, Any]) -> Element:
        """Return the element of a key from its members, bytes or buffers by suffix."""
        element: Element = {"index": int(key)}
        if self._scalars:
            scalars = json.loads(bytes(members[SCALARS]))
            for name, scalar in self._scalars.items():
                element[name] = scalar(scalars[name])
        for suffix, column in self._arrays.items():
            element[column.name] = from_bytes(column, members[suffix])
        return element


def write_tar(dataset: Dataset, directory: Path) -> None:
    """Write tar shards of `SHARD_ELEMENTS` elements: ``shard-00000.tar`` and so on."""
    layout = Members(dataset.columns)
    for number, start in enumerate(range(0, len(dataset), SHARD_ELEMENTS)):
        with tarfile.open(directory / f"shard-{number:05d}.tar", "w") as archive:
            for index in range(start, min(start + SHARD_ELEMENTS, len(dataset))):
                for suffix, data in layout.write(dataset[index]).items():
                    info = tarfile.TarInfo(f"{index:08d}.{suffix}")
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))


class TarReader(Reader):
    """Random access into tar shards through an index of member offsets made when opened."""

    def __init__(self, directory: Path, dataset: Dataset) -> None:
        self._layout = Members(dataset.columns)
        self._files: dict[Path, IO[bytes]] = {}
        self._places: list[dict[str, tuple[Path, int, int]]] = [{} for _ in range(len(dataset))]
        for shard in sorted(directory.glob("*.tar")):
            with tarfile.open(shard) as archive:
                for member in archive:
                    key, _, suffix = member.name.partition(".")
                    place = (shard, member.offset_data, member.size)
                    self._places[int(key)][suffix] = place

    def __len__(self) -> int:
        return len(self._places)

    def __getitem__(self, index: int) -> Element:
        members = {suffix: self._bytes(*place) for suffix, place in self._places[index].items()}
        return self._layout.read(str(index), members)

    def _bytes(self, shard: Path, offset: int, size: int) -> bytes:
        if (file := self._files.get(shard)) is None:
            # Of threads that open a shard at once, the first one's file stays: it is in use.
            opened = shard.open("rb")
            file = self._files.setdefault(shard, opened)
            if file is not opened:
                opened.close()
        return os.pread(file.fileno(), size, offset)

    def __del__(self) -> None:
        for file in self._files.values():
            file.close()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_files": {}}
