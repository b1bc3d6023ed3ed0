"""A data set on this disk, opened for a cell and checked before any compute."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

from filelock import FileLock

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import ChangedSincePlanError, DataError
from skymark.plain_files import write_whole
from skymark.suites.clip.datasets.local import local_set, sugar_crepe
from skymark.suites.clip.reading.fetching import local_directory
from skymark.suites.clip.reading.folder import class_folders, folder_prompts, read_folder
from skymark.suites.clip.reading.layout import (
    CLASS_FILE,
    Prompts,
    kind_of,
    prompts_of,
    read_text,
    shards_of,
)
from skymark.suites.clip.reading.samples import DamagedElement, Place, Samples, readable
from skymark.suites.clip.reading.selection import (
    WINOGROUND_FILE,
    read_sugar_crepe,
    read_winogavil,
    read_winoground,
)
from skymark.suites.clip.reading.tars import read_shards
from skymark.suites.clip.reading.user_files import Naming, Prompting
from skymark.suites.clip.specification import ClipSpecification, Source

MOST_CLASSES = 100_000
"""Largest number of classes of a data set without class names."""


class OpenedSplit(Frozen):
    """A split of a data set: its directory and its samples."""

    source: Source
    split: str
    directory: Path
    samples: Samples
    skips: bool = False
    """Whether opening skipped damaged elements."""
    limit: int | None = None
    """Largest number of elements; None for all."""
    group_column: int | None = None
    """Column of the metadata that has each image's group; None without groups."""

    @property
    def slug(self) -> str:
        """Readable name for files; `identity` distinguishes data sets of one name."""
        return slug_of(self.source, self.split)

    @cached_property
    def identity(self) -> str:
        """SHA-256 hex digest of the source and all its images."""
        content = [self.source.kind, self.source.address, self.source.layout, self.split]
        return digest_of([*content, self.samples.identity, self.samples.labels_digest])


def slug_of(source: Source, split: str) -> str:
    """Return a readable name of a split for files."""
    return re.sub(r"[^\w.+-]", "_", f"{source.name}-{split}")[:80]


def open_for(specification: ClipSpecification, split: str, cache: Path) -> OpenedSplit:
    """Open a split of a cell's data set.

    Raises:
        DataError: the split is missing, damaged, or does not fit the task.
    """
    return open_split(
        specification.source,
        split,
        specification.task,
        cache,
        skip_damaged=specification.skip_damaged,
        limit=specification.limit,
        group_column=specification.group_column if split == specification.split else None,
    )


def open_split(
    source: Source,
    split: str,
    task: str,
    cache: Path,
    *,
    skip_damaged: bool = False,
    limit: int | None = None,
    group_column: int | None = None,
) -> OpenedSplit:
    """Open a split on this disk; the cache has its samples after the first time.

    Args:
        source: of the data set.
        split: to open.
        task: of the cell.
        cache: directory for the samples.
        skip_damaged: decode all images once, and leave out damaged elements.
        limit: take only this many elements, drawn at random.
        group_column: column of the metadata that has each image's group.

    Raises:
        DataError: the split is missing, damaged, or does not fit the task.
    """
    directory = local_directory(source, cache)
    if not directory.is_dir():
        raise DataError(f"{directory} is no directory; give the data set's own")
    opened = OpenedSplit(
        source=source,
        split=split,
        directory=directory,
        samples=Samples(files=(), places=()),
        skips=skip_damaged,
        limit=limit,
        group_column=group_column,
    )
    index = _index_file(cache, opened, task)
    index.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(index.with_suffix(".lock")):
        samples = _from_index(index)
        if samples is None:
            with readable(directory):
                samples = _read(opened, task)
            samples = samples if limit is None else samples.limited(limit)
            if skip_damaged:
                samples = without_damaged(samples)
            with readable(directory):
                content = {"content_digest": samples.digest_of_content()}
            samples = samples.model_copy(update=content)
            write_whole(index, samples.model_dump_json().encode(), durable=False)
    opened = opened.model_copy(update={"samples": samples})
    _check_kind(opened, task)
    return opened


def check_fingerprint(source: Source, split: str) -> None:
    """Refuse a directory whose files changed since the plan.

    Raises:
        ChangedSincePlanError: a file differs, is new or is missing.
    """
    if source.kind != "directory" or source.fingerprint is None:
        return
    directory = Path(source.address)
    part = directory / f"{source.name.rpartition('/')[2].removesuffix('.json')}.json"
    is_part = source.layout == "folder" and part.is_file()
    found = (
        sugar_crepe(part, source.name) if is_part else local_set(directory, source.name, split)
    ).source
    if found.fingerprint != source.fingerprint:
        raise ChangedSincePlanError(source.address)


def prompts_for(specification: ClipSpecification, opened: OpenedSplit) -> Prompts:
    """Read a cell's class names and prompts from their files.

    Raises:
        DataError: the cell's language or a class lacks them, or they do not fit the labels.
    """
    if opened.source.layout == "folder":
        found = folder_prompts(opened.directory, opened.split, specification.language)
    else:
        found = prompts_of(opened.directory, specification.language)
    check_labels(opened, len(found.classes))
    if (file := specification.name_file) is not None:
        names = Naming.read_again(file).names(file.entry, len(found.classes))
        found = found.model_copy(update={"classes": names})
    if (file := specification.prompt_file) is not None:
        return Prompting.read_again(file).prompts(file.entry, found.classes)
    return found


def class_count(opened: OpenedSplit) -> int:
    """Return the number of classes from folders or class names; else `MOST_CLASSES`.

    Raises:
        DataError: the class names cannot be read.
    """
    if opened.source.layout == "folder":
        return len(class_folders(opened.directory, opened.split))
    if not (opened.directory / CLASS_FILE).exists():
        return MOST_CLASSES
    return len(read_text(opened.directory / CLASS_FILE).splitlines())


def check_same_classes(opened: Sequence[OpenedSplit]) -> None:
    """Refuse splits with different folders: equal labels would mean different classes.

    Raises:
        DataError: two splits differ.
    """
    first, *others = opened
    if first.source.layout != "folder" or not others:
        return
    names = class_folders(first.directory, first.split)
    for other in others:
        if differing := set(names) ^ set(class_folders(other.directory, other.split)):
            raise DataError(
                f"{first.directory}: the splits {first.split} and {other.split} have different "
                f"classes ({', '.join(sorted(differing)[:3])}); give both the same folders"
            )


def check_labels(opened: OpenedSplit, classes: int) -> None:
    """Refuse labels without a class name.

    Raises:
        DataError: a label has no class name.
    """
    samples = opened.samples
    if samples.labels is not None and not 0 <= min(samples.labels) <= max(samples.labels) < classes:
        raise DataError(
            f"{opened.directory} has labels from {min(samples.labels)} to {max(samples.labels)}, "
            f"and {classes} class names; correct classnames.txt"
        )
    if samples.multilabels is not None and {len(row) for row in samples.multilabels} != {classes}:
        raise DataError(
            f"{opened.directory} has rows of {len(samples.multilabels[0])} labels, and {classes} "
            "class names; correct classnames.txt"
        )


def reread(opened: OpenedSplit, file: int) -> tuple[Samples, Samples]:
    """Read a shard again, or a whole split without shards; returns new and old samples."""
    samples = opened.samples
    # Skip the same elements again, without decoding all images.
    skipped = {one.place: one for one in samples.left_out if one.place is not None}
    if opened.source.layout == "webdataset":
        shard = Path(samples.files[file].path)
        again = _read_shards(opened, [shard])
        skipped = {
            place._replace(file=0): one for place, one in skipped.items() if place.file == file
        }
        samples = samples.of_file(file)
        again = _without_places(again, skipped)
        again = again if opened.limit is None else again.at(samples.places)
    else:
        task = "image_caption_selection" if samples.captions else "zeroshot_classification"
        again = _read(opened, "image_association" if samples.associations else task)
        again = again if opened.limit is None else again.limited(opened.limit)
        again = _without_places(again, skipped)
    return again, samples.model_copy(update={"left_out": (), "content_digest": ""})


def _without_places(samples: Samples, skipped: Mapping[Place, DamagedElement]) -> Samples:
    found = {
        number: skipped[place] for number, place in enumerate(samples.places) if place in skipped
    }
    return samples.without(found).model_copy(update={"left_out": ()})


def without_damaged(samples: Samples) -> Samples:
    """Return the samples without instances whose images cannot be decoded.

    Raises:
        DataError: no instance remains.
    """
    from skymark.suites.clip.pixels.preprocessing import decoded

    def fault(number: int) -> DataError | None:
        try:
            decoded(samples.read(number), samples.name_of(number))
        except DataError as error:
            return error
        return None

    with ThreadPoolExecutor(len(os.sched_getaffinity(0)), "checking") as pool:
        faults = {
            number: one for number, one in enumerate(pool.map(fault, range(len(samples)))) if one
        }
    found = {
        number: DamagedElement(samples.name_of(number), str(one), samples.places[number])
        for number, one in faults.items()
    }
    whole = samples.without(found)
    if not len(whole):
        raise DataError(f"no element is whole: {next(iter(faults.values()))}")
    return whole


def _read_shards(opened: OpenedSplit, shards: Sequence[Path]) -> Samples:
    return read_shards(
        shards,
        kind_of(opened.directory),
        skip_damaged=opened.skips,
        group_column=opened.group_column,
    )


def _read(opened: OpenedSplit, task: str) -> Samples:
    """Read all samples of a split, besides those already opened."""
    source, directory, split = opened.source, opened.directory, opened.split
    skip_damaged = opened.skips
    if source.layout == "webdataset":
        return _read_shards(opened, shards_of(directory, split))
    if task == "image_association":
        return read_winogavil(directory)
    if task == "image_caption_selection":
        if (directory / WINOGROUND_FILE).exists():
            return read_winoground(directory, skip_damaged=skip_damaged)
        part = source.name.rpartition("/")[2]
        return read_sugar_crepe(directory, part, skip_damaged=skip_damaged)
    return read_folder(directory, split, skip_damaged=skip_damaged)


def _check_kind(opened: OpenedSplit, task: str) -> None:
    samples = opened.samples
    fits = {
        "zeroshot_classification": (samples.captions or samples.associations) is None,
        "linear_probe": samples.labels is not None,
        "zeroshot_retrieval": samples.captions is not None and samples.images_per_instance == 1,
        "captioning": samples.captions is not None and samples.images_per_instance == 1,
        "image_caption_selection": samples.captions is not None,
        "image_association": samples.associations is not None,
    }
    if not fits[task]:
        kinds = {
            "captions": samples.captions,
            "several labels per image": samples.multilabels,
            "one label per image": samples.labels,
            "words with candidates": samples.associations,
        }
        has = next(kind for kind, content in kinds.items() if content is not None)
        raise DataError(f"{opened.source.name} has {has}, which the task {task} has no use for")
    counts = sorted({len(texts) for texts in samples.captions or ()})
    if task == "image_caption_selection" and len(counts) > 1:
        raise DataError(
            f"{opened.source.name} has {counts[0]} to {counts[-1]} captions per instance, and "
            f"{task} needs as many for each; correct the captions"
        )


def _index_file(cache: Path, opened: OpenedSplit, task: str) -> Path:
    source = opened.source
    kinds = {"image_caption_selection": "selection", "image_association": "association"}
    kind = kinds.get(task, "images")
    kind += " without damaged ones" if opened.skips else ""
    kind += "" if opened.limit is None else f", {opened.limit} of them"
    kind += "" if opened.group_column is None else f", groups of column {opened.group_column}"
    place = str(opened.directory)
    key = digest_of([source.kind, place, source.name, source.layout, opened.split, kind])
    return cache / "clip" / "samples" / f"{key[:32]}.json"


def _from_index(index: Path) -> Samples | None:
    """Read cached samples; None if a file changed, or the index is damaged."""
    try:
        samples = Samples.model_validate_json(index.read_bytes())
    except (OSError, ValueError):
        return None
    return samples if samples.is_current() else None
