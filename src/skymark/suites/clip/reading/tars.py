"""Tar shards in WebDataset's layout: the members of one sample share a name up to a dot."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import numpy as np

from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import Kind, require_shard
from skymark.suites.clip.reading.samples import Place, Samples, SplitFile, require_image_size

IMAGES = ("webp", "png", "jpg", "jpeg")
"""Extensions of images in the order in which one is preferred (`clip_benchmark` reads these)."""
LARGEST_LABEL_BYTES = 1 << 24


class Sample(NamedTuple):
    """One sample: its key, and the members by extension."""

    name: str
    file: int
    members: dict[str, tarfile.TarInfo]
    archive: tarfile.TarFile

    def data(self, extension: str) -> bytes:
        """Read a small member.

        Raises:
            DataError: there is none, it is too large, or the shard ends before it does.
        """
        member = self.members.get(extension)
        if member is None:
            raise DataError(
                f"{self.name} has no .{extension}, only {', '.join(sorted(self.members))}; "
                "check dataset_type.txt, or build the data set again"
            )
        if member.size > LARGEST_LABEL_BYTES:
            raise DataError(f"{self.name}.{extension} has {member.size:,} bytes, which is no label")
        opened = self.archive.extractfile(member)
        data = b"" if opened is None else opened.read()
        if len(data) != member.size:
            raise DataError(f"{self.name}.{extension} is cut off; copy the shard again")
        return data

    def place(self, extension: str) -> Place:
        """Return where an image's bytes are in the shard.

        Raises:
            DataError: there are none, or too many.
        """
        member = self.members[extension]
        require_image_size(member.size, f"{self.name}.{extension}")
        return Place(self.file, member.offset_data, member.size)


def read_shards(shards: Sequence[Path], kind: Kind) -> Samples:
    """Return the samples of shards in order; only headers, labels and texts are read.

    Raises:
        DataError: a shard is empty or damaged, a member would leave the directory, or a sample
            lacks what its kind needs.
    """
    places: list[Place] = []
    labels: list[int] = []
    multilabels: list[tuple[int, ...]] = []
    captions: list[tuple[str, ...]] = []
    per_instance: set[int] = set()
    for number, shard in enumerate(shards):
        for sample in _samples_of(shard, number):
            images = _images_of(sample, kind)
            places += [sample.place(extension) for extension in images]
            per_instance.add(len(images))
            if kind == "classification":
                labels.append(_label(sample))
            elif kind == "multilabel":
                multilabels.append(_multilabel(sample))
            else:
                captions.append(_captions(sample))
    if not places:
        raise DataError(f"{shards[0].parent} holds no sample; name members KEY.jpg, KEY.cls …")
    if len(per_instance) > 1:
        raise DataError(f"{shards[0].parent}: samples have {sorted(per_instance)} images each")
    return Samples(
        files=tuple(map(SplitFile.of, shards)),
        places=tuple(places),
        images_per_instance=per_instance.pop(),
        labels=tuple(labels) if kind == "classification" else None,
        multilabels=tuple(multilabels) if kind == "multilabel" else None,
        captions=tuple(captions) if kind in {"retrieval", "selection"} else None,
    )


def _samples_of(shard: Path, number: int) -> Iterator[Sample]:
    """Yield consecutive members that share a key, as one sample."""
    require_shard(shard)
    key, members = "", dict[str, tarfile.TarInfo]()
    try:
        with tarfile.open(shard, "r:") as archive:
            for member in archive:
                _check_place(member, shard)
                if not member.isfile():
                    continue
                path = PurePosixPath(member.name)
                stem, _, extension = path.name.partition(".")
                if (named := f"{path.parent}/{stem}") != key:
                    if members:
                        yield Sample(f"{shard}: {key}", number, members, archive)
                    key, members = named, {}
                if extension.lower() in members:
                    raise DataError(f"{shard} has {member.name} twice; build it again")
                members[extension.lower()] = member
            if members:
                yield Sample(f"{shard}: {key}", number, members, archive)
            _check_end(archive, shard)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise DataError(f"{shard} is no whole tar file ({error}); fetch it again") from error


def _check_place(member: tarfile.TarInfo, shard: Path) -> None:
    """Refuse what an unpacking program would write elsewhere, though nothing is unpacked here."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or member.islnk() or member.issym():
        raise DataError(
            f"{shard} has the member {member.name!r}, which leaves the directory; "
            "do not trust this file"
        )


def _check_end(archive: tarfile.TarFile, shard: Path) -> None:
    """Refuse a shard whose last member is cut off: `tarfile` takes that for the end."""
    members = archive.getmembers()
    if members:
        end = members[-1].offset_data + members[-1].size
        if end > shard.stat().st_size:
            raise DataError(f"{shard} is cut off in {members[-1].name}; fetch it again")


def _images_of(sample: Sample, kind: Kind) -> list[str]:
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
        f"{sample.name} has no image, only {', '.join(sorted(sample.members))}; "
        f"an image is one of {', '.join(IMAGES)}"
    )


def _label(sample: Sample) -> int:
    text = sample.data("cls")
    try:
        return int(text)
    except ValueError as error:
        raise DataError(f"{sample.name}.cls is no class number: {text[:20]!r}") from error


def _multilabel(sample: Sample) -> tuple[int, ...]:
    try:
        values = np.load(io.BytesIO(sample.data("npy")), allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DataError(f"{sample.name}.npy is no array ({error})") from error
    if not isinstance(values, np.ndarray) or values.ndim != 1 or not np.isin(values, (0, 1)).all():
        raise DataError(f"{sample.name}.npy is no row of ones and zeros, one per class")
    return tuple(int(value) for value in values)


def _captions(sample: Sample) -> tuple[str, ...]:
    try:
        lines = tuple(sample.data("txt").decode().splitlines())
    except UnicodeDecodeError as error:
        raise DataError(f"{sample.name}.txt is no UTF-8 text ({error})") from error
    if not lines:
        raise DataError(f"{sample.name}.txt holds no caption")
    return lines
