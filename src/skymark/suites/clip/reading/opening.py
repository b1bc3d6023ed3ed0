"""A data set on this disk, opened by a cell's specification and checked before any compute."""

from __future__ import annotations

import re
from functools import cached_property
from pathlib import Path

from filelock import FileLock

from skymark.model.base import Frozen, digest_of
from skymark.model.errors import DataError
from skymark.suites.clip.datasets.local import local_set, sugar_crepe
from skymark.suites.clip.reading.fetching import local_directory
from skymark.suites.clip.reading.folder import folder_prompts, read_folder
from skymark.suites.clip.reading.layout import Prompts, kind_of, prompts_of, shards_of
from skymark.suites.clip.reading.name_file import names_in
from skymark.suites.clip.reading.prompt_file import prompts_in
from skymark.suites.clip.reading.samples import Samples
from skymark.suites.clip.reading.selection import (
    WINOGROUND_FILE,
    read_sugar_crepe,
    read_winoground,
)
from skymark.suites.clip.reading.tars import read_shards
from skymark.suites.clip.specification import ClipSpecification, Source
from skymark.whole_files import write_whole


class OpenedSplit(Frozen):
    """A split of a data set: its directory, its samples, and where these are cached."""

    source: Source
    split: str
    directory: Path
    samples: Samples

    @property
    def slug(self) -> str:
        """A readable name for files; the identity keeps data sets of one name apart."""
        return re.sub(r"[^\w.+-]", "_", f"{self.source.name}-{self.split}")[:80]

    @cached_property
    def identity(self) -> str:
        """SHA-256 hex digest of the source and of all its images."""
        content = [self.source.kind, self.source.address, self.source.layout, self.split]
        return digest_of([*content, self.samples.identity, self.samples.labels_digest])


def open_split(source: Source, split: str, task: str, cache: Path) -> OpenedSplit:
    """Open a split that is on this disk; its samples are read from the shards only once.

    Raises:
        DataError: it is not there, damaged, or not of the task's kind.
    """
    directory = local_directory(source, cache)
    if not directory.is_dir():
        raise DataError(f"{directory} is no directory; give the data set's own")
    index = _index_file(cache, source, directory, split, task)
    index.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(index.with_suffix(".lock")):
        samples = _from_index(index)
        if samples is None:
            samples = _read(source, directory, split, task)
            write_whole(index, samples.model_dump_json().encode(), durable=False)
    opened = OpenedSplit(source=source, split=split, directory=directory, samples=samples)
    _check_kind(opened, task)
    return opened


def check_fingerprint(source: Source, split: str) -> None:
    """Refuse a directory whose files are not those that the run was planned for.

    Raises:
        DataError: a file is another, or more or fewer are there.
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
        raise DataError(f"{source.address} changed since the run was planned; plan again")


def prompts_for(specification: ClipSpecification, opened: OpenedSplit) -> Prompts:
    """Return the class names and prompts that a cell asks for, read from their files anew.

    Raises:
        DataError: they are missing in the cell's language or for a class, or do not fit the labels.
    """
    if opened.source.layout == "folder":
        found = folder_prompts(opened.directory, opened.split, specification.language)
    else:
        found = prompts_of(opened.directory, specification.language)
    check_labels(opened, len(found.classes))
    if specification.name_file is not None:
        names = names_in(specification.name_file, len(found.classes))
        found = found.model_copy(update={"classes": names})
    if specification.prompt_file is not None:
        return prompts_in(specification.prompt_file, found.classes)
    return found


def check_labels(opened: OpenedSplit, classes: int) -> None:
    """Refuse labels without a class name.

    Raises:
        DataError: there is one.
    """
    samples = opened.samples
    if samples.labels is not None and not 0 <= min(samples.labels) <= max(samples.labels) < classes:
        raise DataError(
            f"{opened.directory} has labels from {min(samples.labels)} to {max(samples.labels)}, "
            f"and {classes} class names; mend classnames.txt"
        )
    if samples.multilabels is not None and {len(row) for row in samples.multilabels} != {classes}:
        raise DataError(
            f"{opened.directory} has rows of {len(samples.multilabels[0])} labels, and {classes} "
            "class names; mend classnames.txt"
        )


def reread(opened: OpenedSplit, file: int) -> tuple[Samples, Samples]:
    """Read a shard of a split from the disk again; returns that, and what was read of it before.

    A split that is no set of shards is read again as a whole.
    """
    samples = opened.samples
    if opened.source.layout != "webdataset":
        task = "image_caption_selection" if samples.captions else "zeroshot_classification"
        return _read(opened.source, opened.directory, opened.split, task), samples
    shard = Path(samples.files[file].path)
    return read_shards([shard], kind_of(opened.directory)), samples.of_file(file)


def _read(source: Source, directory: Path, split: str, task: str) -> Samples:
    if source.layout == "webdataset":
        return read_shards(shards_of(directory, split), kind_of(directory))
    if task == "image_caption_selection":
        if (directory / WINOGROUND_FILE).exists():
            return read_winoground(directory)
        return read_sugar_crepe(directory, source.name.rpartition("/")[2])
    return read_folder(directory, split)


def _check_kind(opened: OpenedSplit, task: str) -> None:
    samples = opened.samples
    fits = {
        "zeroshot_classification": samples.captions is None,
        "linear_probe": samples.labels is not None,
        "zeroshot_retrieval": samples.captions is not None and samples.images_per_instance == 1,
        "image_caption_selection": samples.captions is not None,
    }
    if not fits[task]:
        has = "captions" if samples.captions is not None else "several labels per image"
        raise DataError(f"{opened.source.name} has {has}, which the task {task} has no use for")


def _index_file(cache: Path, source: Source, directory: Path, split: str, task: str) -> Path:
    kind = "selection" if task == "image_caption_selection" else "images"
    key = digest_of([source.kind, str(directory), source.name, source.layout, split, kind])
    return cache / "clip" / "samples" / f"{key[:32]}.json"


def _from_index(index: Path) -> Samples | None:
    """Read what was found before, unless a file is another one now, or the index is damaged."""
    try:
        samples = Samples.model_validate_json(index.read_bytes())
    except (OSError, ValueError):
        return None
    return samples if samples.is_current() else None
