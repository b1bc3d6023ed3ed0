"""Kinds of the images in real data: noted when it is imported, looked for when a run is planned.

Adapters name the kinds that their library's own decoder gives as the reference does
(`skymark.suites.loading.adapter.Adapter.undecoded`). Data without a note is all plain JPEG.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skymark.image_formats import image_kind, opened_image
from skymark.model.errors import DataError

if TYPE_CHECKING:
    from skymark.suites.loading.dataset.sources.data_source import DataSource

LOOKED_AT = 1_000
LOOKED_AT_BYTES = 128 << 20
"""Images and bytes of them that planning looks at: a second. The import looks at all."""


def kind_of(data: Any, what: str) -> str:
    """Return the kind of an encoded image, of which only the header is read.

    Raises:
        DataError: it is no image.
    """
    with opened_image(data, what) as image:
        return image_kind(image)


def kinds_seen(source: DataSource, field: str, rows: int) -> frozenset[str]:
    """Return the kinds of the images in a source's first rows, of `LOOKED_AT` at most.

    Damaged ones are left to the import.
    """
    kinds: set[str] = set()
    left = LOOKED_AT_BYTES
    for row in source.read((field,), min(rows, LOOKED_AT)):
        if row.damage is None and isinstance(value := row.values[0], bytes):
            with suppress(DataError):
                kinds.add(kind_of(value, row.place))
            left -= len(value)
        if left < 0:
            break
    return frozenset(kinds)


def note_kinds(directory: Path) -> None:
    """Write the kinds of all images into a canonical dataset's ``meta.json``."""
    from skymark.suites.loading.dataset.canonical import Dataset

    dataset = Dataset(directory)
    columns = [column.name for column in dataset.columns if column.encoding == "jpeg"]
    kinds = {
        kind_of(element[column], f"element {element['index']}")
        for element in (dataset if columns else ())
        for column in columns
    }
    path = directory / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"images": sorted(kinds)}, indent=1))
