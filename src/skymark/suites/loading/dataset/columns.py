"""Recipes that turn fields of real data into the canonical columns of scenarios.

| column                  | made of                                                          |
|-------------------------|------------------------------------------------------------------|
| `jpeg`                  | an image's unchanged file, in one of `IMAGE_FORMATS`             |
| `height`, `width`       | the image's size in pixels                                       |
| `label`                 | a number, or a name (numbered in alphabetical order)             |
| `caption`, `transcript`, `document` | a text, the first of several, or a chat's messages   |
| `wav`, `flac`           | a sound; converted unless of 16 bits and 16 kHz                  |
| `mp4`                   | a clip of a constant frame rate, moved to an MP4 container       |
| `tokens`                | the bytes of a text, each a token (as in Xue et al., "ByT5", 2022) |
| `features`              | all fields but the label, each a number                          |
| `dense`, `categorical`  | the 13 counts and 26 categories of Criteo's click logs           |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from skymark.model.errors import DataError
from skymark.suites.loading.dataset import values
from skymark.suites.loading.dataset.canonical import Array, Dataset, Encoding, write_dataset
from skymark.suites.loading.dataset.sources.data_source import DataSource, Row, WholeRows, reading

if TYPE_CHECKING:
    from skymark.suites.loading.work import Size

MOST_CLASSES = 100_000
"""That labels may be mixed among: each element has a share of each."""
NOUNS = {"jpeg": "images", "flac": "sounds", "wav": "sounds", "mp4": "clips"}
"""Name of the elements of work on media, by column."""

IMAGES = ("image", "img", "jpg", "jpeg", "png", "picture")
LABELS = ("label", "labels", "class", "cls", "target", "fine_label", "speaker_id", "click", "y")
TEXTS = (
    *("text", "caption", "captions", "sentence", "content", "transcript", "transcription"),
    *("messages", "conversations", "conversation"),
)
SOUNDS = ("audio", "wav", "flac", "sound", "speech")
CLIPS = ("video", "mp4", "clip")


@dataclass(frozen=True)
class ColumnRecipe:
    """The recipe of one canonical column: its fields, and the conversion of their values.

    The conversion reads the first of `names` that a source has, or `count` numbered fields. A
    numbered field's name is one of `prefixes` and a number; the fields are read in that order.
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


_TEXT = ColumnRecipe(values.text_bytes, names=TEXTS, ragged=True, encoding="utf8")

RECIPES: Mapping[str, ColumnRecipe] = {
    "jpeg": ColumnRecipe(values.jpeg, names=IMAGES, ragged=True, encoding="jpeg"),
    "height": ColumnRecipe(values.image_height, names=IMAGES, finish=_whole),
    "width": ColumnRecipe(values.image_width, names=IMAGES, finish=_whole),
    "label": ColumnRecipe(values.label, names=LABELS, finish=values.numbered_labels),
    "caption": _TEXT,
    "transcript": _TEXT,
    "document": _TEXT,
    "wav": ColumnRecipe(values.wav, names=SOUNDS, ragged=True, encoding="wav"),
    "flac": ColumnRecipe(values.flac, names=SOUNDS, ragged=True, encoding="flac"),
    "mp4": ColumnRecipe(values.mp4, names=CLIPS, ragged=True, encoding="mp4"),
    "tokens": ColumnRecipe(values.byte_tokens, names=TEXTS, ragged=True),
    "features": ColumnRecipe(values.numbers, takes_rest=True),
    "dense": ColumnRecipe(
        values.counts, prefixes=("i", "int", "integer_feature", "dense"), count=13
    ),
    "categorical": ColumnRecipe(
        values.categories, prefixes=("c", "cat", "categorical_feature"), count=26
    ),
}


def is_unlabelled(source: DataSource) -> bool:
    """Whether a source of images, sounds or clips has no labels, so that each is taken as 0."""
    has_media = any(RECIPES[column].fields_of(source.fields) for column in NOUNS)
    return has_media and not RECIPES["label"].fields_of(source.fields)


def fields_for(source: DataSource, column: str) -> tuple[str, ...]:
    """Return the fields of a source that a canonical column is made of.

    Labels that are absent have none; see `is_unlabelled`.

    Raises:
        DataError: the source has none for it.
    """
    recipe = RECIPES[column]
    fields = recipe.fields_of(source.fields)
    if not fields and not (column == "label" and is_unlabelled(source)):
        raise DataError(
            f"the data has no {recipe.wanted}, only {', '.join(source.fields)}; "
            f"rename the field that has the {'image' if column == 'jpeg' else column}"
            f"{', or choose a scenario that needs no label' if column == 'label' else ''}"
        )
    return fields or ()


def column_values(source: DataSource, column: str, limit: int) -> Iterator[Any]:
    """Read one canonical column of the first `limit` rows.

    Raises:
        DataError: the source has no field for it, or a value cannot be read.
    """
    recipe = RECIPES[column]
    fields = fields_for(source, column)
    for row in _rows(source, fields or source.fields[:1], limit):
        if row.damage is not None:
            raise row.damage
        yield _converted(recipe, fields, row.values, row.place) if fields else 0


def _rows(source: DataSource, fields: Sequence[str], limit: int) -> Iterator[Row]:
    with reading(str(source.files[0]) if source.files else "the data"):
        yield from source.read(fields, limit)


def _converted(
    recipe: ColumnRecipe, fields: Sequence[str], values: Sequence[Any], place: str
) -> Any:
    """Return a row's value of one column.

    Raises:
        DataError: it is damaged, or no such value.
    """
    with reading(place):
        if recipe.takes_several:
            return recipe.convert(dict(zip(fields, values, strict=True)), place)
        return recipe.convert(values[0], place)


def classes_of(source: DataSource, rows: int) -> int:
    """Return the classes of the first rows, counted from 0 to the largest label.

    Raises:
        DataError: a label is negative, or too large to be a class.
    """
    labels = RECIPES["label"].finish(list(column_values(source, "label", rows)))
    least, most = int(labels.min()), int(labels.max())
    if least < 0 or most >= MOST_CLASSES:
        raise DataError(
            f"the labels of the data are {least} to {most}, where classes are mixed; number them "
            "from 0, or give names"
        )
    return most + 1


def write_columns(
    source: DataSource, columns: Sequence[str], limit: int, directory: Path
) -> Dataset:
    """Write canonical columns of the first `limit` rows, ragged ones as they come."""
    written: dict[str, Array | Iterator[Array]] = {}
    for column in columns:
        recipe, made = RECIPES[column], column_values(source, column, limit)
        written[column] = made if recipe.ragged else recipe.finish(list(made))
    encodings = {column: RECIPES[column].encoding for column in columns}
    return write_dataset(directory, "imported data", written, encodings)


def rows_size(source: DataSource, size: Size) -> Size:
    """Return a size with the source's number of rows, at most `size`'s number of elements."""
    return with_elements(size, source.count(size.elements))


def with_elements(size: Size, count: int) -> Size:
    """Return a variant's size with at most `count` elements, and of the variant's kind.

    A variant ends with a short batch, so that a loader that drops it is found out: where all
    batches would be full, one element fewer is taken. A variant of full batches stays one.

    Raises:
        DataError: there are too few elements.
    """
    if count >= size.elements:
        return size
    left = count % size.batch_size
    elements = count
    if size.elements % size.batch_size == 0:
        elements -= left
    elif left == 0:
        elements -= 1
    if elements < 1:
        needed = size.batch_size if count else 1
        raise DataError(f"the data gives {count} elements, where at least {needed} are needed")
    return size.model_copy(update={"elements": elements})


def whole_rows(source: DataSource, columns: Sequence[str]) -> WholeRows:
    """Return the rows of which every column can be made."""
    fields = {column: fields_for(source, column) for column in columns}

    def convert(row: Row) -> None:
        values = dict(zip(source.fields, row.values, strict=True))
        for column, names in fields.items():
            if names:
                _converted(RECIPES[column], names, [values[name] for name in names], row.place)

    return WholeRows(source, convert)
