"""Published data of SugarCrepe, Winoground and WinoGAViL: images that are chosen by texts."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple, TypeVar

from skymark.model.errors import DataError
from skymark.suites.clip.reading.folder import image_file
from skymark.suites.clip.reading.layout import is_sound, read_text
from skymark.suites.clip.reading.samples import (
    SKIP,
    Association,
    DamagedElement,
    Place,
    Samples,
    SplitFile,
    readable,
)
from skymark.tar_files import printable

Entry = TypeVar("Entry")

SUGAR_CREPE_IMAGES = "val2017"
WINOGROUND_FILE = "examples.jsonl"
WINOGROUND_IMAGES = "images"
WINOGAVIL_FILE = "associations.jsonl"


def read_sugar_crepe(directory: Path, part: str, *, skip_damaged: bool = False) -> Samples:
    """Return the images of SugarCrepe, each with its caption and a wrong caption.

    Args:
        directory: with ``PART.json``, and the images of COCO 2017 in ``val2017``.
        part: such as ``add_att``, or its file's name.
        skip_damaged: leave out entries that lack a field or an image, and list them.

    Raises:
        DataError: a file is missing, or an entry lacks a field.
    """
    file = directory / f"{part.removesuffix('.json')}.json"
    entries = _json(read_text(file), file)
    if not isinstance(entries, dict) or not entries:
        raise DataError(f"{file} is no JSON object of entries")

    def instance(entry: Any, where: str) -> SelectionInstance:
        image = _image(directory / SUGAR_CREPE_IMAGES, _text(entry, "filename", where))
        texts = (_text(entry, "caption", where), _text(entry, "negative_caption", where))
        return SelectionInstance((image,), texts)

    named = ((f"{file}, entry {printable(name)}", entry) for name, entry in entries.items())
    return _samples(named, instance, file, skip_damaged=skip_damaged)


def read_winoground(directory: Path, *, skip_damaged: bool = False) -> Samples:
    """Return the pairs of images of Winoground, each with its pair of captions.

    Args:
        directory: with ``examples.jsonl`` and ``images/NAME.png``, as on the hub.
        skip_damaged: leave out examples that lack a field or an image, and list them.

    Raises:
        DataError: a file is missing, or an entry lacks a field.
    """
    file = directory / WINOGROUND_FILE
    if not file.exists():
        raise DataError(f"{file} is missing; fetch Winoground, whose licence is to be accepted")

    def instance(line: str, where: str) -> SelectionInstance:
        entry = _json(line, Path(where))
        names = (_text(entry, key, where) for key in ("image_0", "image_1"))
        folder = directory / WINOGROUND_IMAGES
        images = tuple(_image(folder, f"{PurePosixPath(name).stem}.png") for name in names)
        return SelectionInstance(
            images, (_text(entry, "caption_0", where), _text(entry, "caption_1", where))
        )

    # `splitlines` would also split at Unicode's line separators inside texts.
    lines = read_text(file).split("\n")
    named = ((f"{file}:{number}", line) for number, line in enumerate(lines, 1) if line.strip())
    return _samples(named, instance, file, skip_damaged=skip_damaged)


def read_winogavil(directory: Path) -> Samples:
    """Return the words of WinoGAViL with their candidates; images that they share come once.

    Args:
        directory: with ``associations.jsonl``, whose lines have the fields ``cue``, ``candidates``
            and ``associations`` as on the hub, and ``images/CANDIDATE.jpg``.

    Raises:
        DataError: a file is missing, or a line lacks a field.
    """
    file = directory / WINOGAVIL_FILE
    images: list[SplitFile] = []
    number_of: dict[str, int] = {}
    found: list[Association] = []
    for number, line in enumerate(read_text(file).split("\n"), 1):
        if line.strip():
            where = f"{file}:{number}"
            entry = _json(line, Path(where))
            names, own = (_names(entry, key, where) for key in ("candidates", "associations"))
            if strange := set(own) - set(names):
                raise DataError(f"{where}: {printable(strange.pop()[:80])!r} is no candidate")
            for name in names:
                if name not in number_of:
                    number_of[name] = len(images)
                    images.append(_image(directory / WINOGROUND_IMAGES, f"{name}.jpg"))
            found.append(
                Association(
                    cue=_text(entry, "cue", where),
                    candidates=tuple(number_of[name] for name in names),
                    right=tuple(name in own for name in names),
                )
            )
    if not found:
        raise DataError(f"{file} holds no line; fetch it again")
    return Samples(
        files=tuple(images),
        places=tuple(Place(number, 0, one.size) for number, one in enumerate(images)),
        associations=tuple(found),
    )


class SelectionInstance(NamedTuple):
    """The images of an instance, and their captions."""

    images: tuple[SplitFile, ...]
    captions: tuple[str, str]


def _samples(
    entries: Iterable[tuple[str, Entry]],
    instance: Callable[[Entry, str], SelectionInstance],
    file: Path,
    *,
    skip_damaged: bool,
) -> Samples:
    """Return the samples of entries; each entry comes with its position for messages.

    Raises:
        DataError: an entry lacks a field or an image, or no entry is whole.
    """
    found: list[SelectionInstance] = []
    left_out: list[DamagedElement] = []
    for where, entry in entries:
        try:
            found.append(instance(entry, where))
        except DataError as error:
            if not skip_damaged:
                raise DataError(f"{error}; {SKIP}") from error
            left_out.append(DamagedElement(where, str(error)))
    if not found:
        raise DataError(f"{file} holds no entry that is whole; fetch it again")
    images = tuple(image for one in found for image in one.images)
    return Samples(
        files=images,
        places=tuple(Place(number, 0, image.size) for number, image in enumerate(images)),
        images_per_instance=len(found[0].images),
        captions=tuple(one.captions for one in found),
        left_out=tuple(left_out),
    )


def _json(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{file} is no JSON ({error})") from error


def _text(entry: Any, key: str, where: str) -> str:
    value = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(value, str) or not is_sound(value):
        raise DataError(f"{where} has no text {key!r}")
    return value


def _names(entry: Any, key: str, where: str) -> list[str]:
    values = entry.get(key) if isinstance(entry, Mapping) else None
    if not isinstance(values, list) or not values:
        raise DataError(f"{where} has no list {key!r}")
    if not all(isinstance(one, str) and one and is_sound(one) for one in values):
        raise DataError(f"{where} has names in {key!r} that are empty or no texts")
    if len(set(values)) < len(values):
        raise DataError(f"{where} has a name in {key!r} twice")
    return values


def _image(directory: Path, name: str) -> SplitFile:
    if "\0" in name:
        raise DataError(f"{name[:40]!r} is no name of a file in {directory}; fetch it again")
    file = directory / name
    if not Path(os.path.realpath(file)).is_relative_to(os.path.realpath(directory)):
        raise DataError(f"{name!r} leaves {directory}; do not trust this data set")
    with readable(file):
        if not file.is_file():
            raise DataError(f"{file} is missing; fetch the images again")
        return image_file(file)
