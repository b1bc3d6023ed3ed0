"""Datasets of the Hugging Face Hub as sources: the Parquet files of one split, at one revision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from skymark.cache.hub import HUB, chosen_tables, downloaded, parquet_tables, parse, reached
from skymark.model.base import digest_of
from skymark.suites.loading.dataset.sources.data_source import DataSource, Row
from skymark.suites.loading.dataset.sources.parquet import ParquetFiles, index_columns, opened


@dataclass(frozen=True)
class KnownDataset:
    """A well-known dataset: its configuration, its split, and the meaning of its fields.

    `fields` maps a field's own name to the name that skymark looks for.
    """

    configuration: str = "default"
    split: str = "train"
    fields: tuple[tuple[str, str], ...] = ()


KNOWN_DATASETS = {
    "uoft-cs/cifar10": KnownDataset("plain_text", fields=(("img", "image"),)),
    "frgfm/imagenette": KnownDataset("320px"),
    "salesforce/wikitext": KnownDataset("wikitext-2-raw-v1"),
    "lmms-lab/coco-caption": KnownDataset(split="val", fields=(("answer", "captions"),)),
    "lmms-lab/coco-caption2017": KnownDataset(split="val", fields=(("answer", "captions"),)),
    "reczoo/criteo_x4": KnownDataset(),
}
"""Datasets with a known mapping: CIFAR-10, Imagenette, WikiText, COCO captions, Criteo sample."""


class HubDataset(DataSource):
    """One split of a dataset of the Hub. Files are downloaded when rows are read, not before."""

    is_remote: ClassVar = True

    def __init__(self, data: str) -> None:
        super().__init__()
        reference = parse(data)
        self._name = reference.name
        known = KNOWN_DATASETS.get(self._name.casefold(), KnownDataset())
        _, self._revision, tables = parquet_tables(reference)
        self._tables = chosen_tables(reference, tables, known.configuration, known.split)
        self._paths = [table.path for table in self._tables]
        self.notes.append(f"split {self._tables[0].split}")
        self._own = {new: own for own, new in known.fields}
        with self._remote(self._paths[0]) as file:
            index = index_columns(file.schema_arrow)
            names = [name for name in file.schema_arrow.names if name not in index]
        renamed = {own: new for new, own in self._own.items()}
        self.fields = tuple(renamed.get(name, name) for name in names)

    def counts(self) -> Iterator[int]:
        """Count the rows, which fetches the files' footers only."""
        for path in self._paths:
            with self._remote(path) as file:
                rows = file.metadata.num_rows
            yield rows

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order, downloading file after file as needed."""
        own = [self._own.get(field, field) for field in fields]
        left = limit
        for path in self._paths:
            if not left:
                return
            for row in ParquetFiles([downloaded(self._name, path, self._revision)]).read(own, left):
                place = f"{self._name}/{path} {row.place.rpartition(', ')[2]}"
                yield row._replace(place=place)
                left -= 1

    def fingerprint(self) -> str:
        """Return a digest of the revision and the split's files."""
        return digest_of([self._name, self._revision, self._paths])

    def size_bytes(self) -> int | None:
        """Return the size of the split's files; None where the Hub does not tell it."""
        sizes = [table.size_bytes for table in self._tables]
        return None if None in sizes else sum(size or 0 for size in sizes)

    @contextmanager
    def _remote(self, path: str) -> Iterator[Any]:
        from huggingface_hub import HfFileSystem

        with reached(f"{HUB}{self._name}"):
            files = HfFileSystem()
            with (
                files.open(f"datasets/{self._name}@{self._revision}/{path}", "rb") as file,
                opened(file, f"{HUB}{self._name}/{path}") as parquet,
            ):
                yield parquet


@cache
def open_hub(data: str) -> HubDataset:
    """Open a dataset of the Hub, resolved to one revision for the life of this process."""
    return HubDataset(data)
