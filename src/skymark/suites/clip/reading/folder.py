"""Plain image folders: ``SPLIT/CLASS/IMAGE``, or ``CLASS/IMAGE`` where there are no splits."""

from __future__ import annotations

import os
from pathlib import Path

from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import CLASS_FILE, TEMPLATE_FILE, Prompts, language_file
from skymark.suites.clip.reading.layout import prompts_of as written_prompts
from skymark.suites.clip.reading.samples import Place, Samples, SplitFile, require_image_size

EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")
"""Extensions of images, as `torchvision.datasets.ImageFolder` knows them."""
USUAL_TEMPLATE = "a photo of a {c}."
"""Template where the folder has none of its own."""


def read_folder(directory: Path, split: str) -> Samples:
    """Return the images of a folder, class by class in the order of names.

    Raises:
        DataError: there is no class, an image is empty, or a class has no image.
    """
    place = _split_directory(directory, split)
    files: list[SplitFile] = []
    labels: list[int] = []
    for label, name in enumerate(class_folders(directory, split)):
        found = _images_below(place / name)
        if not found:
            raise DataError(f"{place / name} holds no image; add some or remove the folder")
        files += found
        labels += [label] * len(found)
    return Samples(
        files=tuple(files),
        places=tuple(Place(number, 0, file.size) for number, file in enumerate(files)),
        labels=tuple(labels),
    )


def class_folders(directory: Path, split: str) -> list[str]:
    """Return the folders of a split, one per class, in the order of names."""
    place = _split_directory(directory, split)
    if names := sorted(entry.name for entry in os.scandir(place) if entry.is_dir()):
        return names
    raise DataError(f"{place} has no folder per class; write SPLIT/CLASS/IMAGE")


def folder_prompts(directory: Path, split: str, language: str) -> Prompts:
    """Return the folder's own class names and templates, or the folders' names.

    Raises:
        DataError: class names in another language than English are missing.
    """
    if language != "en" or (directory / TEMPLATE_FILE).exists():
        return written_prompts(directory, language)
    named = directory / language_file(CLASS_FILE, language)
    classes = (
        tuple(line.strip() for line in named.read_text(encoding="utf-8").splitlines())
        if named.exists()
        else tuple(name.replace("_", " ") for name in class_folders(directory, split))
    )
    return Prompts(classes=classes, templates=(USUAL_TEMPLATE,))


def _split_directory(directory: Path, split: str) -> Path:
    return directory / split if (directory / split).is_dir() else directory


def _images_below(place: Path) -> list[SplitFile]:
    found: list[SplitFile] = []
    for folder, folders, names in os.walk(place, followlinks=True):
        folders.sort()
        for name in sorted(names):
            if name.lower().endswith(EXTENSIONS):
                file = SplitFile.of(Path(folder, name))
                require_image_size(file.size, file.path)
                found.append(file)
    return found
