"""The images of a split in order, with their labels or captions."""

from __future__ import annotations

import os
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from pydantic import Field

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import DataError
from skymark.whole_files import LARGEST_FILE_BYTES


class Place(NamedTuple):
    """The bytes of one encoded image: a file of the split, and a range in it."""

    file: int
    offset: int
    size: int


def require_image_size(size: int, name: str) -> None:
    """Refuse an image of no byte, or of more than any has: it would be read whole.

    Raises:
        DataError: it is one.
    """
    if size == 0:
        raise DataError(f"{name} has 0 bytes; copy it again or remove it")
    if size > LARGEST_FILE_BYTES:
        raise DataError(
            f"{name} has {size:,} bytes, and an image has {LARGEST_FILE_BYTES:,} at most; remove it"
        )


class SplitFile(Frozen):
    """A file that images are read from: a shard, or an image."""

    path: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> SplitFile:
        """Look at a file."""
        status = path.stat()
        return cls(path=os.fspath(path), size=status.st_size, modified_ns=status.st_mtime_ns)


class Samples(Frozen):
    """The images of a split in order, with what belongs to each.

    Of `labels`, `multilabels` and `captions` there is what the data set has; linear probes and
    classification need one of the first two, retrieval and selection the third.
    """

    files: tuple[SplitFile, ...]
    places: tuple[Place, ...]
    images_per_instance: int = Field(default=1, ge=1)
    """Consecutive images that belong to one instance, which captions are told apart on."""
    labels: tuple[int, ...] | None = None
    """Class of each image."""
    multilabels: tuple[tuple[int, ...], ...] | None = None
    """Ones and zeros per class, of each image."""
    captions: tuple[tuple[str, ...], ...] | None = None
    """Texts of each instance."""

    def __len__(self) -> int:
        """The number of images."""
        return len(self.places)

    @cached_property
    def identity(self) -> str:
        """SHA-256 hex digest of the places of all images in files, sizes and times included."""
        return digest_of([[one.model_dump() for one in self.files], self.places])

    @cached_property
    def labels_digest(self) -> str:
        """SHA-256 hex digest of what images are scored against, in order."""
        return digest_of([self.labels, self.multilabels, self.captions])

    def read(self, index: int) -> bytes:
        """Return the encoded bytes of an image."""
        file, offset, size = self.places[index]
        with Path(self.files[file].path).open("rb") as opened:
            opened.seek(offset)
            return opened.read(size)

    def name_of(self, index: int) -> str:
        """Return a name of an image for messages."""
        file, offset, _ = self.places[index]
        path = self.files[file].path
        return path if offset == 0 else f"image {index} in {path}"

    def of_file(self, file: int) -> Samples:
        """Return the samples of one file, as they would be if there were no other."""
        images = [number for number, place in enumerate(self.places) if place.file == file]
        first, last = images[0], images[-1] + 1
        instances = slice(first // self.images_per_instance, last // self.images_per_instance)
        return Samples(
            files=(self.files[file],),
            places=tuple(place._replace(file=0) for place in self.places[first:last]),
            images_per_instance=self.images_per_instance,
            labels=None if self.labels is None else self.labels[first:last],
            multilabels=None if self.multilabels is None else self.multilabels[first:last],
            captions=None if self.captions is None else self.captions[instances],
        )

    def is_current(self) -> bool:
        """Whether the files are those that were looked at."""
        try:
            return all(SplitFile.of(Path(one.path)) == one for one in self.files)
        except OSError:
            return False
