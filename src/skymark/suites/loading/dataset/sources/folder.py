"""A folder of images, sounds or clips: one folder per class, captions beside them in text files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.plain_files import open_regular, read_regular
from skymark.suites.loading.dataset.sources.data_source import (
    LARGEST_VALUE_BYTES,
    DataSource,
    Row,
)
from skymark.suites.loading.dataset.sources.paths import suffix_of
from skymark.suites.loading.dataset.sources.signs import check_jpeg

IMAGES = frozenset({".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp"})
MEDIA = {"image": IMAGES, "audio": frozenset({".flac", ".wav"}), "video": frozenset({".mp4"})}
"""Suffixes by the field that such files are. A folder is of the first kind that it has."""
MEDIA_SUFFIXES = frozenset[str]().union(*MEDIA.values())


class MediaFolder(DataSource):
    """Files in folders. The folder's place among the others, by name, is the label.

    Rows are taken from the classes in turn, so that the first rows hold all classes. A file of
    the same name that ends in ``.txt`` is the text of an image, sound or clip.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        suffixes = {suffix_of(path) for path in files}
        field, wanted = next((one, kind) for one, kind in MEDIA.items() if kind & suffixes)
        media = [path for path in files if suffix_of(path) in wanted]
        by_class: dict[Path, list[Path]] = {}
        for path in media:
            by_class.setdefault(path.parent, []).append(path)
        self._labels = {parent: number for number, parent in enumerate(sorted(by_class))}
        turns = zip_longest(*(by_class[parent] for parent in self._labels))
        self._media = [path for turn in turns for path in turn if path is not None]
        present = set(files)
        texts = [path.with_suffix(".txt") for path in media]
        self.files = (*media, *(text for text in texts if text in present))
        self.fields = (field, "label")
        if any(text in present for text in texts):
            self.fields += ("text",)

    def count(self, limit: int) -> int:
        """Return the number of images, sounds or clips."""
        return min(limit, len(self._media))

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read files in turn from each class."""
        for path in islice(self._media, limit):
            yield Row(str(path), tuple(self._value(path, field) for field in fields))

    def _value(self, path: Path, field: str) -> Any:
        if field == "label":
            return self._labels[path.parent]
        wanted = path.with_suffix(".txt") if field == "text" else path
        try:
            data = read_regular(wanted, largest=LARGEST_VALUE_BYTES, through_links=True)
            return data.decode().strip() if field == "text" else data
        except FileNotFoundError as error:
            raise DataError(f"{path} has no text beside it; add {wanted.name}") from error
        except UnicodeDecodeError as error:
            raise DataError(f"{wanted} is no UTF-8 text ({error}); convert it") from error
        except OSError as error:
            raise DataError(f"{wanted} cannot be read: {error}") from error
        except ValueError as error:
            raise DataError(f"{wanted} cannot be read: it {error}") from error

    def check(self, field: str, limit: int) -> None:
        """Look at the first and last bytes of JPEG files."""
        if field != "image":
            return
        for path in islice(self._media, limit):
            if suffix_of(path) in {".jpg", ".jpeg"}:
                try:
                    descriptor = open_regular(path, through_links=True)
                except ValueError as error:
                    raise DataError(f"{path} cannot be read: it {error}") from error
                with os.fdopen(descriptor, "rb") as file:
                    check_jpeg(file, os.fstat(descriptor).st_size, str(path))
