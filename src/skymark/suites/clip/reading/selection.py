"""Image-caption selection as it is published: SugarCrepe's annotations, Winoground's examples."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.suites.clip.reading.samples import Place, Samples, SplitFile, require_image_size

SUGAR_CREPE_IMAGES = "val2017"
WINOGROUND_FILE = "examples.jsonl"
WINOGROUND_IMAGES = "images"


def read_sugar_crepe(directory: Path, part: str) -> Samples:
    """Return the images of SugarCrepe, each with its caption and a wrong one.

    Args:
        directory: holds ``PART.json`` and the images of COCO 2017 in ``val2017``.
        part: such as ``add_att``, or its file's name.

    Raises:
        DataError: a file is missing, or an entry lacks a field.
    """
    file = directory / f"{part.removesuffix('.json')}.json"
    entries = _json(file.read_text(encoding="utf-8") if file.exists() else None, file)
    if not isinstance(entries, dict) or not entries:
        raise DataError(f"{file} is no JSON object of entries")
    images: list[SplitFile] = []
    captions: list[tuple[str, str]] = []
    for name, entry in entries.items():
        where = f"{file}, entry {name}"
        images.append(_image(directory / SUGAR_CREPE_IMAGES, _text(entry, "filename", where)))
        captions.append(
            (_text(entry, "caption", where), _text(entry, "negative_caption", where)),
        )
    return _samples(images, captions, per_instance=1)


def read_winoground(directory: Path) -> Samples:
    """Return the pairs of images of Winoground, each with its pair of captions.

    Args:
        directory: holds ``examples.jsonl`` and ``images/NAME.png``, as the hub has them.

    Raises:
        DataError: a file is missing, or an entry lacks a field.
    """
    file = directory / WINOGROUND_FILE
    if not file.exists():
        raise DataError(f"{file} is missing; fetch Winoground, whose licence is to be accepted")
    images: list[SplitFile] = []
    captions: list[tuple[str, str]] = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{file}:{number}"
        entry = _json(line, Path(where))
        for key in ("image_0", "image_1"):
            name = _text(entry, key, where)
            images.append(_image(directory / WINOGROUND_IMAGES, f"{Path(name).stem}.png"))
        captions.append((_text(entry, "caption_0", where), _text(entry, "caption_1", where)))
    if not images:
        raise DataError(f"{file} is empty")
    return _samples(images, captions, per_instance=2)


def _samples(
    images: list[SplitFile], captions: list[tuple[str, str]], per_instance: int
) -> Samples:
    return Samples(
        files=tuple(images),
        places=tuple(Place(number, 0, file.size) for number, file in enumerate(images)),
        images_per_instance=per_instance,
        captions=tuple(captions),
    )


def _json(text: str | None, file: Path) -> Any:
    if text is None:
        raise DataError(f"{file} is missing")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON ({error})") from error


def _text(entry: Any, key: str, where: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(value, str):
        raise DataError(f"{where} has no text {key!r}")
    return value


def _image(directory: Path, name: str) -> SplitFile:
    file = directory / name
    if not file.resolve().is_relative_to(directory.resolve()):
        raise DataError(f"{name!r} leaves {directory}; do not trust this data set")
    if not file.is_file():
        raise DataError(f"{file} is missing; fetch the images again")
    found = SplitFile.of(file)
    require_image_size(found.size, found.path)
    return found
