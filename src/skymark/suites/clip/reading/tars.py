"""Tar shards in WebDataset's layout: the members of a sample share a name up to a dot."""

from __future__ import annotations

import io
import re
import tarfile
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import Kind, is_sound, require_shard
from skymark.suites.clip.reading.samples import (
    SKIP,
    DamagedElement,
    Place,
    Samples,
    SplitFile,
    require_image_size,
)
from skymark.tar_files import FOREIGN, members_of, not_whole, opened_tar, printable

IMAGES = ("webp", "png", "jpg", "jpeg")
"""Extensions of images in order of preference, as in `clip_benchmark`."""
LARGEST_LABEL_BYTES = 1 << 24
MOST_CAPTIONS = 10_000
MOST_GROUPS = 1_000_000
LABEL = re.compile(rb"\s*[+-]?[0-9]{1,18}\s*")
"""A class number; later checks compare it with the number of classes."""
LARGEST_ROW_HEADER = 10_000
HEADER_READERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
NPY_ERRORS = (
    ValueError, TypeError, LookupError, EOFError, ArithmeticError, SyntaxError, MemoryError,
    RecursionError, tokenize.TokenError,
)  # fmt: skip
"""Errors that NumPy raises for damaged arrays."""


class TarSample(NamedTuple):
    """A sample: its key, and its members by extension."""

    name: str
    file: int
    members: dict[str, tarfile.TarInfo]
    archive: tarfile.TarFile

    @property
    def extensions(self) -> str:
        """Extensions of its members, for messages."""
        return printable(", ".join(sorted(self.members))[:200])

    def data(self, extension: str) -> bytes:
        """Read a small member.

        Raises:
            DataError: the member is missing, too large, or cut off.
        """
        member = self.members.get(extension)
        if member is None:
            raise DataError(
                f"{self.name} has no .{extension}, only {self.extensions}; "
                "check dataset_type.txt, or build the data set again"
            )
        if member.size > LARGEST_LABEL_BYTES:
            raise DataError(f"{self.name}.{extension} has {member.size:,} bytes, which is no label")
        try:
            opened = self.archive.extractfile(member)
            data = b"" if opened is None else opened.read()
        except FOREIGN as error:
            raise not_whole(Path(str(self.archive.name)), error) from error
        if len(data) != member.size:
            raise DataError(f"{self.name}.{extension} is cut off; copy the shard again")
        return data

    def place(self, extension: str) -> Place:
        """Return the position of an image in the shard.

        Raises:
            DataError: the image is empty or too large.
        """
        member = self.members[extension]
        require_image_size(member.size, f"{self.name}.{extension}")
        return Place(self.file, member.offset_data, member.size)


def read_shards(
    shards: Sequence[Path],
    kind: Kind,
    *,
    skip_damaged: bool = False,
    group_column: int | None = None,
) -> Samples:
    """Return the samples of shards in order, without reading their images.

    Args:
        shards: in order.
        kind: type of the data set.
        skip_damaged: leave out incomplete samples, and list them.
        group_column: column of each image's metadata (``KEY.npy``) that has its group.

    Raises:
        DataError: a shard is empty or damaged, a member would leave the directory, or a sample is
            incomplete.
    """
    read: list[SampleContent] = []
    left_out: list[DamagedElement] = []
    for number, shard in enumerate(shards):
        for sample in _samples_of(shard, number):
            try:
                read.append(_content(sample, kind, group_column))
            except DataError as error:
                if not skip_damaged:
                    raise DataError(f"{error}; {SKIP}") from error
                left_out.append(DamagedElement(sample.name, str(error)))
    if not read:
        fault = f" that is whole ({left_out[0].cause})" if left_out else ""
        raise DataError(
            f"{shards[0].parent} holds no sample{fault}; name members KEY.jpg, KEY.cls …"
        )
    per_instance = {len(one.places) for one in read}
    if len(per_instance) > 1:
        raise DataError(f"{shards[0].parent}: samples have {sorted(per_instance)} images each")
    labels = tuple(one.label for one in read)
    return Samples(
        files=tuple(map(SplitFile.of, shards)),
        places=tuple(place for one in read for place in one.places),
        images_per_instance=per_instance.pop(),
        labels=labels if kind == "classification" else None,
        multilabels=labels if kind == "multilabel" else None,
        groups=None if group_column is None else tuple(one.group for one in read),
        captions=labels if kind in {"retrieval", "selection"} else None,
        left_out=tuple(left_out),
    )


class SampleContent(NamedTuple):
    """The images of a sample, with their label or captions."""

    places: list[Place]
    label: Any
    """Class, row of ones and zeros, or captions."""
    group: int = 0


def _content(sample: TarSample, kind: Kind, group_column: int | None) -> SampleContent:
    places = [sample.place(extension) for extension in _images_of(sample, kind)]
    readers = {"classification": _label, "multilabel": _multilabel}
    label = readers.get(kind, _captions)(sample)
    return SampleContent(places, label, 0 if group_column is None else _group(sample, group_column))


def _samples_of(shard: Path, number: int) -> Iterator[TarSample]:
    """Yield samples: consecutive members that share a key.

    Raises:
        DataError: the shard is damaged or empty, or a member would leave the directory.
    """
    require_shard(shard)
    key, found = "", dict[str, tarfile.TarInfo]()
    with opened_tar(shard, "r:") as archive:
        for member in members_of(archive):
            _check_place(member, shard)
            path = PurePosixPath(member.name)
            if not member.isfile() or path.name.startswith("._"):  # macOS adds the second
                continue
            stem, _, extension = path.name.partition(".")
            if (named := f"{path.parent}/{stem}") != key:
                if found:
                    yield TarSample(f"{shard}: {printable(key)}", number, found, archive)
                key, found = named, {}
            if extension.lower() in found:
                raise DataError(f"{shard} has {printable(member.name)} twice; build it again")
            found[extension.lower()] = member
        if not found:
            raise DataError(f"{shard} holds no sample; name members KEY.jpg, KEY.cls …")
        yield TarSample(f"{shard}: {printable(key)}", number, found, archive)


def _check_place(member: tarfile.TarInfo, shard: Path) -> None:
    """Refuse a member that an unpacking program would write outside the directory."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or member.islnk() or member.issym():
        raise DataError(
            f"{shard} has the member {printable(member.name)!r}, which leaves the directory; "
            "do not trust this file"
        )


def _images_of(sample: TarSample, kind: Kind) -> list[str]:
    if kind == "selection":
        numbered = [
            name
            for name in sample.members
            if name.partition(".")[0].isdecimal() and name.partition(".")[2] in IMAGES
        ]
        if found := sorted(numbered, key=lambda name: int(name.partition(".")[0])):
            return found
    for extension in IMAGES:
        if extension in sample.members:
            return [extension]
    raise DataError(
        f"{sample.name} has no image, only {sample.extensions}; "
        f"an image has the extension {', '.join(IMAGES)}"
    )


def _label(sample: TarSample) -> int:
    text = sample.data("cls")
    if not LABEL.fullmatch(text):
        raise DataError(f"{sample.name}.cls is no class number: {text[:20]!r}")
    return int(text)


def _multilabel(sample: TarSample) -> tuple[int, ...]:
    values = _row(sample, "row of ones and zeros, one per class")
    if not np.isin(values, (0, 1)).all():
        raise DataError(f"{sample.name}.npy is no row of ones and zeros, one per class")
    return tuple(int(value) for value in values)


def _group(sample: TarSample, column: int) -> int:
    values = _row(sample, "row of metadata")
    if len(values) <= column or not 0 <= values[column] <= MOST_GROUPS:
        raise DataError(
            f"{sample.name}.npy has no group in column {column}, which is a number from 0 to "
            f"{MOST_GROUPS:,}; build the data set again"
        )
    return int(values[column])


def _row(sample: TarSample, noun: str) -> npt.NDArray[Any]:
    """Return the numbers of a one-dimensional array.

    Args:
        sample: with the member ``KEY.npy``.
        noun: for messages.

    Raises:
        DataError: the array is damaged, or has another shape or type.
    """
    file = io.BytesIO(sample.data("npy"))
    try:
        version = np.lib.format.read_magic(file)
        read = HEADER_READERS[version]
        shape, _, dtype = read(file, max_header_size=LARGEST_ROW_HEADER)
        if len(shape) != 1 or dtype.kind not in "biuf":
            raise ValueError(f"shape {shape} of {dtype}")
        values = np.frombuffer(file.read(), dtype)
        if len(values) != shape[0]:
            raise ValueError(f"{len(values)} of {shape[0]} values")
    except NPY_ERRORS as error:
        raise DataError(
            f"{sample.name}.npy is no {noun} ({error or type(error).__name__})"
        ) from error
    return values


def _captions(sample: TarSample) -> tuple[str, ...]:
    try:
        lines = tuple(sample.data("txt").decode().splitlines())
    except UnicodeDecodeError as error:
        raise DataError(f"{sample.name}.txt is no UTF-8 text ({error})") from error
    if not 1 <= len(lines) <= MOST_CAPTIONS:
        raise DataError(f"{sample.name}.txt holds {len(lines):,} captions; write 1 to 10,000")
    if not all(map(is_sound, lines)):
        raise DataError(f"{sample.name}.txt has a caption or a word that is too long; shorten it")
    return lines
