"""A folder of images, sounds or clips: one folder per class, captions beside them in text files."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.plain_files import read_regular
from skymark.suites.loading.dataset.columns import LABELS
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
    reading,
)
from skymark.suites.loading.dataset.sources.paths import (
    SPLITS,
    FolderListing,
    one_split,
    split_of_folder,
    suffix_of,
)

MEDIA = {
    "image": frozenset(
        {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"}
    ),
    "audio": frozenset({".flac", ".wav", ".mp3", ".ogg", ".opus", ".m4a", ".aac", ".aiff", ".aif"}),
    "video": frozenset({".mp4", ".m4v", ".mov", ".mkv", ".avi", ".webm", ".mpg", ".mpeg"}),
}
"""Suffixes by the field that such files are."""
NOUNS = {"image": "images", "audio": "sounds", "video": "clips"}
UNDECODED = frozenset(
    {".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".svg", ".psd", ".ico", ".tga", ".ppm"}
    | {".raw", ".dng", ".cr2", ".nef", ".arw", ".wma", ".amr", ".wmv", ".flv", ".3gp"}
)
"""Suffixes of media that skymark has no decoder for."""
METADATA = ("metadata.jsonl", "metadata.csv")
"""Tables of labels and texts beside media, as the Hub's folders have them; their ``file_name`` is
the path of a file from the table's folder."""


def media_kind(files: Sequence[Path]) -> str | None:
    """Return the most frequent kind of files as a field; the first of `MEDIA` wins a tie."""
    suffixes = Counter(map(suffix_of, files))
    found = {field: sum(suffixes[one] for one in kind) for field, kind in MEDIA.items()}
    field = max(found, key=lambda one: found[one])
    return field if found[field] else None


class MediaFolder(DataSource):
    """Files in folders. The first folder below the data's, or below a split's, is the class.

    Rows are taken from the classes in turn, so that the first rows hold all classes. A file of
    the same name that ends in ``.txt`` is the text of an image, sound or clip.
    """

    def __init__(self, folder: Path, listing: FolderListing, field: str, split: str | None) -> None:
        super().__init__()
        self._folder, self.noun = folder, NOUNS[field]
        media = [path for path in listing.files if suffix_of(path) in MEDIA[field]]
        chosen = one_split(media, folder, split, split_of_folder)
        self.ignored += chosen.others
        if chosen.split:
            self.notes.append(f"split {chosen.split}")
        folders = [split_of_folder(path.relative_to(folder)) for path in media]
        self._has_splits = bool(chosen.split) or all(folders)
        tables = [path for path in listing.files if path.name in METADATA]
        self._metadata = {key: row for table in tables for key, row in _rows_of(table)}
        media = self._described(chosen.files, media) if tables else self._with_class(chosen.files)
        by_class: dict[str, list[Path]] = {}
        for path in media:
            by_class.setdefault(self._class_of(path), []).append(path)
        self._labels = {name: number for number, name in enumerate(sorted(by_class))}
        turns = zip_longest(*(by_class[name] for name in self._labels))
        self._media = [path for turn in turns for path in turn if path is not None]
        present = set(listing.files)
        texts = [text for path in media if (text := path.with_suffix(".txt")) in present]
        self.files = (*media, *texts, *tables)
        own = dict.fromkeys(key for row in self._metadata.values() for key in row)
        self._from_folder = not any(key.casefold() in LABELS for key in own)
        label = ("label",) if self._from_folder else ()
        self.fields = tuple(dict.fromkeys((field, *label, *own, *(("text",) if texts else ()))))
        for path in present.difference(texts, tables):
            if suffix_of(path) not in MEDIA[field]:
                self.ignored[_reason(path, field)] += 1
        if listing.hidden:
            self.ignored["hidden"] += listing.hidden
        if listing.empty:
            names = ", ".join(str(path.relative_to(folder)) for path in listing.empty[:3])
            self.notes.append(f"empty folders: {names}{' …' * (len(listing.empty) > 3)}")

    def _class_of(self, path: Path) -> str:
        """Return the first folder after a split's folder, or else the first of all."""
        folders = path.relative_to(self._folder).parent.parts
        if self._has_splits:
            split = next(k for k, name in enumerate(folders) if name.casefold() in SPLITS)
            folders = folders[split + 1 :] or folders[:split]
        return folders[0] if folders else ""

    def _with_class(self, media: Sequence[Path]) -> list[Path]:
        """Leave out files beside the folders of classes."""
        beside = [path for path in media if not self._class_of(path)]
        if not beside or len(beside) == len(media):
            return list(media)
        self.ignored["beside the folders of classes"] += len(beside)
        return [path for path in media if self._class_of(path)]

    def _described(self, chosen: Sequence[Path], all_media: Sequence[Path]) -> list[Path]:
        """Leave out files that no table describes.

        Raises:
            DataError: a table describes a file that is not there.
        """
        if missing := self._metadata.keys() - set(all_media):
            raise DataError(
                f"{self._folder} has no {min(missing)}, which its metadata names; add the file or "
                "remove the row"
            )
        described = [path for path in chosen if path in self._metadata]
        if left := len(chosen) - len(described):
            self.ignored["not in the metadata"] += left
        return described

    def counts(self) -> Iterator[int]:
        """Return the number of images, sounds or clips."""
        yield len(self._media)

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read files in turn from each class."""
        for path in islice(self._media, limit):
            try:
                yield Row(str(path), tuple(self._value(path, field) for field in fields))
            except DataError as damage:
                yield Row(str(path), (), damage)

    def _value(self, path: Path, field: str) -> Any:
        row = self._metadata.get(path, {})
        if field in row:
            return row[field]
        if field == "label":
            return self._labels[self._class_of(path)]
        if field not in {"text", *MEDIA}:
            raise DataError(f"{path} has no {field!r} in its metadata; add it")
        wanted = path.with_suffix(".txt") if field == "text" else path
        try:
            data = read_regular(wanted, largest=LARGEST_VALUE_BYTES, through_links=True)
            return data.decode("utf-8-sig").strip() if field == "text" else data
        except FileNotFoundError as error:
            if field == "text":
                raise DataError(f"{path} has no text beside it; add {wanted.name}") from error
            raise DataError(
                f"{path} is not there, or a link that leads nowhere; copy it again or remove it"
            ) from error
        except UnicodeDecodeError as error:
            raise DataError(f"{wanted} is no UTF-8 text ({error}); convert it") from error
        except OSError as error:
            advice = "check that you may read it, and copy it again or remove it"
            raise DataError(f"{wanted} cannot be read: {error}; {advice}") from error
        except ValueError as error:
            raise DataError(f"{wanted} cannot be read: it {error}") from error


def _reason(path: Path, field: str) -> str:
    """Return the reason why a file is no element of a folder of one kind of media."""
    suffix = suffix_of(path) or path.name
    if suffix in UNDECODED:
        return f"{suffix} (no decoder)"
    other = next((NOUNS[one] for one, kind in MEDIA.items() if suffix in kind), None)
    return f"{suffix} ({other})" if other else f"{suffix} (no {NOUNS[field][:-1]})"


def _rows_of(table: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Read a table of labels and texts: each row's file and its other values.

    Raises:
        DataError: it is no such table.
    """
    with reading(str(table)), table.open(encoding="utf-8-sig", newline="") as file:
        if table.suffix == ".csv":
            rows: Iterator[Any] = csv.DictReader(file)
        else:
            rows = (json.loads(line) for line in file if line.strip())
        for number, row in enumerate(rows, 1):
            name = row.get("file_name") if isinstance(row, dict) else None
            if not isinstance(name, str):
                raise DataError(f"row {number} of {table} has no 'file_name'; add it")
            own = {key: value for key, value in row.items() if key and key != "file_name"}
            yield table.parent / name, own
