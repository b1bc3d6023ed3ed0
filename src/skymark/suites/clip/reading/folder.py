"""Plain image folders: ``SPLIT/CLASS/IMAGE``."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import (
    CLASS_FILE,
    TEMPLATE_FILE,
    Prompts,
    language_file,
    read_text,
    require_bounded,
)
from skymark.suites.clip.reading.layout import prompts_of as written_prompts
from skymark.suites.clip.reading.samples import (
    DamagedElement,
    Place,
    Samples,
    SplitFile,
    readable,
    require_image_size,
)
from skymark.tar_files import printable

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Extensions of images, as in `torchvision.datasets.ImageFolder`."""
USUAL_TEMPLATE = "a photo of a {c}."
"""Template for a folder without templates."""
UNPACKED_ON_MACOS = "__MACOSX"
"""Folder in macOS's archives; its files are never images."""


def read_folder(directory: Path, split: str, *, skip_damaged: bool = False) -> Samples:
    """Return the images of a folder, class by class in the order of names.

    Args:
        directory: of the data set.
        split: to read.
        skip_damaged: leave out empty images, and list them.

    Raises:
        DataError: there is no class, a class or an image is empty, or links form a circle.
    """
    files: list[SplitFile] = []
    labels: list[int] = []
    left_out: list[DamagedElement] = []
    for label, paths in enumerate(images_by_class(directory, split).values()):
        for path in paths:
            try:
                file = image_file(path)
            except DataError as error:
                if not skip_damaged:
                    raise
                left_out.append(DamagedElement(printable(str(path)), str(error)))
                continue
            files.append(file)
            labels.append(label)
    return Samples(
        files=tuple(files),
        places=tuple(Place(number, 0, file.size) for number, file in enumerate(files)),
        labels=tuple(labels),
        left_out=tuple(left_out),
    )


def image_file(path: Path) -> SplitFile:
    """Check the file of an image.

    Raises:
        DataError: the file is missing, empty, too large, or not regular.
    """
    with readable(path):
        file = SplitFile.of(path)
    require_image_size(file.size, file.path)
    return file


def images_by_class(directory: Path, split: str) -> dict[str, list[Path]]:
    """Return the images of each class, in the order of names.

    Raises:
        DataError: there is no class, a class has no image, or links form a circle.
    """
    place = _split_directory(directory, split)
    found = {name: list(_images_below(place, name)) for name in class_folders(directory, split)}
    for name, images in found.items():
        if not images:
            raise DataError(f"{place / name} holds no image; add some or remove the folder")
    return found


def class_folders(directory: Path, split: str) -> list[str]:
    """Return the folders of a split, one per class, in the order of names.

    Raises:
        DataError: there is no folder, or the split cannot be read.
    """
    place = _split_directory(directory, split)
    with readable(place), os.scandir(place) as entries:
        names = sorted(one.name for one in entries if one.is_dir() and is_named(one.name))
    if names:
        return names
    raise DataError(f"{place} has no folder per class; write SPLIT/CLASS/IMAGE")


def is_named(name: str) -> bool:
    """Whether a file belongs to the data set: not hidden, and not macOS's own."""
    return not name.startswith(".") and name != UNPACKED_ON_MACOS


def other_files(directory: Path, split: str) -> Counter[str]:
    """Count other files among the images by extension."""
    place = _split_directory(directory, split)
    found = Counter(
        path.suffix.casefold() or "no extension"
        for name in class_folders(directory, split)
        for path in _files_below(place, name)
        if not path.name.lower().endswith(EXTENSIONS)
    )
    with readable(place):
        found["in no class"] = sum(one.is_file() for one in place.iterdir() if is_named(one.name))
    return +found


def folder_prompts(directory: Path, split: str, language: str) -> Prompts:
    """Return the folder's own class names and templates, or the folders' names.

    Raises:
        DataError: class names of a language besides English are missing.
    """
    if language != "en" or (directory / TEMPLATE_FILE).exists():
        return written_prompts(directory, language)
    named = directory / language_file(CLASS_FILE, language)
    classes = (
        tuple(line.strip() for line in read_text(named).splitlines())
        if named.exists()
        else tuple(name.replace("_", " ") for name in class_folders(directory, split))
    )
    found = Prompts(classes=classes, templates=(USUAL_TEMPLATE,))
    require_bounded(found)
    return found


def _split_directory(directory: Path, split: str) -> Path:
    """Return the directory of a split.

    Raises:
        DataError: the data set lacks the split.
    """
    place = directory / split
    if not place.is_dir():
        with readable(directory):
            there = sorted(one.name for one in directory.iterdir() if one.is_dir())
        raise DataError(
            f"{directory} has no split {split!r}, but {', '.join(there[:10]) or 'no folder'}; name "
            "one with --test-split, --train-split or --val-split"
        )
    return place


def _images_below(place: Path, name: str) -> Iterator[Path]:
    for path in _files_below(place, name):
        if path.name.lower().endswith(EXTENSIONS):
            yield path


def _files_below(place: Path, name: str) -> Iterator[Path]:
    """Yield the files of a class, folder by folder, and follow links.

    Raises:
        DataError: links lead to the split itself, or twice to a folder.
    """
    with readable(place / name):
        seen = {_identity(place)}
        for folder, folders, names in os.walk(place / name, followlinks=True, onerror=_refused):
            if (identity := _identity(Path(folder))) in seen:
                raise DataError(
                    f"{folder} leads through a link to a folder that was read before; remove the "
                    "link"
                )
            seen.add(identity)
            folders[:] = sorted(filter(is_named, folders))
            yield from (Path(folder, file) for file in sorted(names) if is_named(file))


def _refused(error: OSError) -> None:
    raise error


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino
