"""The images of a split in order, with their labels or captions."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import DataError
from skymark.plain_files import LARGEST_FILE_BYTES
from skymark.tar_files import printable

SKIP = "or leave damaged elements out with --skip-damaged"
"""End of messages about damaged elements."""


LIMIT_SEED = 0


class Place(NamedTuple):
    """Position of an encoded image: a file of the split, and a range of bytes."""

    file: int
    offset: int
    size: int


class DamagedElement(NamedTuple):
    """A damaged element that is not scored, and the cause."""

    name: str
    cause: str
    place: Place | None = None
    """Position of its image; None without a usable image."""


def real_path(path: Path) -> Path:
    """Return an absolute path without links; opening refuses a circle of links."""
    return Path(os.path.realpath(path.expanduser()))


@contextmanager
def readable(place: Path) -> Iterator[None]:
    """Turn an error of the file system into a message with the file, the cause and a remedy.

    Raises:
        DataError: a file or directory is missing, or reading it is not allowed.
    """
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{error.filename or place} cannot be read ({error.strerror or error}); repair or "
            "remove it, and check its permissions"
        ) from error


def require_image_size(size: int, name: str) -> None:
    """Refuse an empty or a huge image: reading takes it whole.

    Raises:
        DataError: the image is empty or too large.
    """
    if size == 0:
        raise DataError(f"{name} has 0 bytes; copy it again or remove it")
    if size > LARGEST_FILE_BYTES:
        raise DataError(
            f"{name} has {size:,} bytes, and an image has {LARGEST_FILE_BYTES:,} at most; remove it"
        )


class Association(NamedTuple):
    """A word, and the images among which some belong to it."""

    cue: str
    candidates: tuple[int, ...]
    """Numbers of images."""
    right: tuple[bool, ...]
    """Whether each of them belongs to the word."""

    @property
    def text(self) -> str:
        """The text for the encoder, as in DataComp."""
        cue = self.cue.lower()
        return f"{'An' if cue.startswith(('a', 'e', 'i', 'o', 'u')) else 'A'} {cue}"


class SplitFile(Frozen):
    """A file with images: a shard, or an image."""

    path: str
    size: int
    modified_ns: int

    @classmethod
    def of(cls, path: Path) -> SplitFile:
        """Return the facts of a file.

        Raises:
            DataError: the file is not regular, or its name is not UTF-8.
            OSError: the file is missing, or looking at it is not allowed.
        """
        name = os.fspath(path)
        if printable(name) != name:
            raise DataError(f"{printable(name)} has a name that is no UTF-8; rename it")
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path} is no regular file; remove it, or put a file in its place")
        return cls(path=name, size=status.st_size, modified_ns=status.st_mtime_ns)


class Samples(Frozen):
    """The images of a split in order, with their labels or captions.

    Classification and linear probes need `labels` or `multilabels`; retrieval and selection need
    `captions`.
    """

    files: tuple[SplitFile, ...]
    places: tuple[Place, ...]
    images_per_instance: int = Field(default=1, ge=1)
    """Consecutive images of one instance, for image-caption selection."""
    labels: tuple[int, ...] | None = None
    """Class of each image."""
    multilabels: tuple[tuple[int, ...], ...] | None = None
    """Ones and zeros per class, for each image."""
    groups: tuple[int, ...] | None = None
    """Group of each image, such as a region, for the accuracy of the worst group."""
    captions: tuple[tuple[str, ...], ...] | None = None
    """Texts of each instance."""
    associations: tuple[Association, ...] | None = None
    """Words with their candidates, which may share images."""
    left_out: tuple[DamagedElement, ...] = ()
    """Skipped damaged elements."""
    content_digest: str = ""
    """Digest of all encoded images in order, from `digest_of_content`; empty until it is known."""

    def __len__(self) -> int:
        """The number of images."""
        return len(self.places)

    @cached_property
    def identity(self) -> str:
        """SHA-256 hex digest of the positions of all images, with sizes and times of files."""
        return digest_of([[one.model_dump() for one in self.files], self.places])

    @cached_property
    def labels_digest(self) -> str:
        """SHA-256 hex digest of all labels and captions, in order."""
        others = [] if self.associations is None else [self.associations]
        return digest_of([self.labels, self.multilabels, self.captions, *others])

    @property
    def texts(self) -> list[str]:
        """Captions instance by instance, or the texts of words."""
        if self.associations is not None:
            return [one.text for one in self.associations]
        return [text for texts in self.captions or () for text in texts]

    def digest_of_content(self) -> str:
        """Return a digest of all encoded images in order; equal ones are the same images.

        BLAKE2b (RFC 7693) of 16 bytes, as hex.

        Raises:
            OSError: a file cannot be read.
        """
        digest = blake2b(digest_size=16)
        for file, places in groupby(self.places, lambda place: place.file):
            with Path(self.files[file].path).open("rb") as opened:
                for place in places:
                    opened.seek(place.offset)
                    digest.update(b"%d " % place.size)
                    digest.update(opened.read(place.size))
        return digest.hexdigest()

    def read(self, index: int) -> bytes:
        """Return the encoded bytes of an image."""
        file, offset, size = self.places[index]
        with Path(self.files[file].path).open("rb") as opened:
            opened.seek(offset)
            return opened.read(size)

    def name_of(self, index: int) -> str:
        """Return an image's name for messages."""
        file, offset, _ = self.places[index]
        path = self.files[file].path
        return path if offset == 0 else f"image {index} in {path}"

    def of_file(self, file: int) -> Samples:
        """Return the samples of one file."""
        images = [number for number, place in enumerate(self.places) if place.file == file]
        first, last = (images[0], images[-1] + 1) if images else (0, 0)
        instances = slice(first // self.images_per_instance, last // self.images_per_instance)
        return Samples(
            files=(self.files[file],),
            places=tuple(place._replace(file=0) for place in self.places[first:last]),
            images_per_instance=self.images_per_instance,
            labels=None if self.labels is None else self.labels[first:last],
            multilabels=None if self.multilabels is None else self.multilabels[first:last],
            groups=None if self.groups is None else self.groups[first:last],
            captions=None if self.captions is None else self.captions[instances],
        )

    def without(self, images: Mapping[int, DamagedElement]) -> Samples:
        """Return the samples without the instances of some images, which `left_out` lists."""
        left_out = (*self.left_out, *images.values())
        if self.associations is not None:
            kept = [
                number
                for number, one in enumerate(self.associations)
                if images.keys().isdisjoint(one.candidates)
            ]
        else:
            damaged = {number // self.images_per_instance for number in images}
            kept = [number for number in range(self._instances) if number not in damaged]
        return self._of_instances(kept).model_copy(update={"left_out": left_out})

    @property
    def _instances(self) -> int:
        if self.associations is not None:
            return len(self.associations)
        return len(self) // self.images_per_instance

    def _of_instances(self, kept: Sequence[int]) -> Samples:
        """Return the samples of some instances."""
        if self.associations is not None:
            return self._of_associations([self.associations[number] for number in kept])
        each = self.images_per_instance
        chosen = [image for number in kept for image in range(number * each, (number + 1) * each)]

        def of_images(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            return None if values is None else tuple(values[number] for number in chosen)

        captions = self.captions
        return self.model_copy(
            update={
                "places": of_images(self.places),
                "labels": of_images(self.labels),
                "multilabels": of_images(self.multilabels),
                "groups": of_images(self.groups),
                "captions": captions and tuple(captions[number] for number in kept),
            }
        )

    def _of_associations(self, kept: Sequence[Association]) -> Samples:
        """Return some words with their images."""
        used = sorted({image for one in kept for image in one.candidates})
        number_of = {image: number for number, image in enumerate(used)}
        return self.model_copy(
            update={
                "places": tuple(self.places[image] for image in used),
                "associations": tuple(
                    one._replace(candidates=tuple(number_of[image] for image in one.candidates))
                    for one in kept
                ),
            }
        )

    def limited(self, limit: int) -> Samples:
        """Return elements drawn at random, in their order, with their images and texts.

        The draw is the same in every run; a smaller limit takes a part of a larger one's elements.

        Args:
            limit: number of elements.
        """
        count = self._instances
        if limit >= count:
            return self
        order = list(range(count))
        random.Random(LIMIT_SEED).shuffle(order)
        return self._of_instances(sorted(order[:limit]))

    def at(self, places: Collection[Place]) -> Samples:
        """Return the samples whose images are at some places."""
        each, wanted = self.images_per_instance, frozenset(places)
        count = len(self) // each
        return self._of_instances(
            [number for number in range(count) if self.places[number * each] in wanted]
        )

    def is_current(self) -> bool:
        """Whether no file has changed."""
        try:
            return all(SplitFile.of(Path(one.path)) == one for one in self.files)
        except (OSError, DataError):
            return False
