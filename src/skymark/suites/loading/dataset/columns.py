"""Recipes that turn fields of real data into the canonical columns of scenarios.

| column                  | made of                                                          |
|-------------------------|------------------------------------------------------------------|
| `jpeg`                  | an image's file as it is, of any of `IMAGE_FORMATS`              |
| `height`, `width`       | the image's, in pixels                                           |
| `label`                 | a number, or a name (numbered in alphabetical order)             |
| `caption`, `transcript`, `document` | a text, the first of several, or a chat's messages   |
| `wav`, `flac`           | a sound; of 16 bits and 16 kHz as it is, others are converted    |
| `mp4`                   | a clip of a constant frame rate; others than MP4 change container |
| `tokens`                | the bytes of a text, each a token (as in Xue et al., "ByT5", 2022) |
| `features`              | all fields but the label, each a number                          |
| `dense`, `categorical`  | the 13 counts and 26 categories of Criteo's click logs           |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from skymark.suites.loading.dataset import values
from skymark.suites.loading.dataset.canonical import Array, Encoding

IMAGES = ("image", "img", "jpg", "jpeg", "png", "picture")
LABELS = ("label", "labels", "class", "cls", "target", "fine_label", "speaker_id", "click", "y")
TEXTS = (
    *("text", "caption", "captions", "sentence", "content", "transcript", "transcription"),
    *("messages", "conversations", "conversation"),
)
SOUNDS = ("audio", "wav", "flac", "sound", "speech")
CLIPS = ("video", "mp4", "clip")


@dataclass(frozen=True)
class Recipe:
    """The recipe of one canonical column: its fields, and the conversion of their values.

    The first of `names` that a source has is read; or the `count` fields that are one of
    `prefixes` with a number behind it, together, in the order of their numbers.
    """

    convert: Callable[[Any, str], Any]
    """Makes a row's value; called with the field's value (several by name) and the place."""
    names: tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    count: int = 0
    takes_rest: bool = False
    """Whether it is made of all fields but the label, together."""
    encoding: Encoding = "raw"
    ragged: bool = False
    finish: Callable[[list[Any]], Array] = np.stack
    """Makes the column of all rows' values where it is not ragged."""

    def fields_of(self, fields: Sequence[str]) -> tuple[str, ...] | None:
        """Return the fields to read from a source that has these, or None if it lacks them."""
        by_folded = {field.casefold(): field for field in fields}
        if self.takes_rest:
            label = next((name for name in LABELS if name in by_folded), None)
            return tuple(field for folded, field in by_folded.items() if folded != label)
        for name in self.names:
            if name in by_folded:
                return (by_folded[name],)
        pattern = re.compile(rf"(?:{'|'.join(self.prefixes)})_?(\d+)")
        numbered = {
            int(match[1]): field
            for folded, field in by_folded.items()
            if (match := pattern.fullmatch(folded))
        }
        found = tuple(numbered[number] for number in sorted(numbered))
        return found if self.prefixes and len(found) == self.count else None

    @property
    def takes_several(self) -> bool:
        """Whether `convert` gets several fields' values by name."""
        return self.takes_rest or bool(self.prefixes)

    @property
    def wanted(self) -> str:
        """The fields that a source must have, for messages."""
        if self.takes_rest:
            return "field besides the label"
        if self.prefixes:
            return f"{self.count} fields {self.prefixes[0]}1 … {self.prefixes[0]}{self.count}"
        return f"field named {', '.join(self.names[:-1])} or {self.names[-1]}"


def _whole(numbers: list[Any]) -> Array:
    return np.array(numbers, np.int32)


_TEXT = Recipe(values.text_bytes, names=TEXTS, ragged=True, encoding="utf8")

RECIPES: Mapping[str, Recipe] = {
    "jpeg": Recipe(values.jpeg, names=IMAGES, ragged=True, encoding="jpeg"),
    "height": Recipe(values.image_height, names=IMAGES, finish=_whole),
    "width": Recipe(values.image_width, names=IMAGES, finish=_whole),
    "label": Recipe(values.label, names=LABELS, finish=values.numbered_labels),
    "caption": _TEXT,
    "transcript": _TEXT,
    "document": _TEXT,
    "wav": Recipe(values.wav, names=SOUNDS, ragged=True, encoding="wav"),
    "flac": Recipe(values.flac, names=SOUNDS, ragged=True, encoding="flac"),
    "mp4": Recipe(values.mp4, names=CLIPS, ragged=True, encoding="mp4"),
    "tokens": Recipe(values.byte_tokens, names=TEXTS, ragged=True),
    "features": Recipe(values.numbers, takes_rest=True),
    "dense": Recipe(values.counts, prefixes=("i", "int", "integer_feature", "dense"), count=13),
    "categorical": Recipe(
        values.categories, prefixes=("c", "cat", "categorical_feature"), count=26
    ),
}
