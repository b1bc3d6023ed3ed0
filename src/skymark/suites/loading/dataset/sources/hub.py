"""Datasets of the Hugging Face Hub: the Parquet files of one split, at one revision.

A dataset that is kept in another format is read from the Parquet copy that the Hub makes of it
(branch ``refs/convert/parquet``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, NamedTuple

from skymark.model.base import digest_of
from skymark.model.errors import DataError, UnknownNameError
from skymark.suites.loading.dataset.sources.data_source import DataSource, Row, needs
from skymark.suites.loading.dataset.sources.parquet import ParquetFiles, opened

CONVERTED = "refs/convert/parquet"
_REFERENCE = re.compile(
    r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<split>[\w./-]+))?"
)
_SHARD = re.compile(r"(?P<split>.+?)-\d+-of-\d+(?:-[0-9a-f]+)?")


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


class HubReference(NamedTuple):
    """A user's name for a dataset: repository, revision and split."""

    name: str
    revision: str | None
    split: str | None


class ParquetTable(NamedTuple):
    """One Parquet file of a dataset, with the configuration and split in its path."""

    path: str
    configuration: str
    split: str


def parse(data: str) -> HubReference:
    """Take ``hf://owner/name[@revision][:split]`` apart; a split may be ``configuration/split``.

    Raises:
        DataError: it is not of that form.
    """
    match = _REFERENCE.fullmatch(data)
    if match is None:
        raise DataError(
            f"{data!r} names no dataset of the Hub; write hf://owner/name[@revision][:split], "
            "such as hf://uoft-cs/cifar10:test"
        )
    return HubReference(*match.group("name", "revision", "split"))


def table_of(path: str) -> ParquetTable:
    """Tell a Parquet file's configuration and split from its path.

    Known are ``CONFIGURATION/SPLIT-00000-of-00003.parquet``, ``data/SPLIT-…``, ``SPLIT-…``,
    ``CONFIGURATION/SPLIT/0000.parquet`` and ``CONFIGURATION/partial-SPLIT/0000.parquet``; any
    other file is of the split ``train``.
    """
    folders = list(PurePosixPath(path).parent.parts)
    stem = PurePosixPath(path).stem
    if match := _SHARD.fullmatch(stem):
        split = match["split"]
    elif stem.isdigit() and folders:
        split = folders.pop().removeprefix("partial-")
    else:
        split = "train"
    named = [folder for folder in folders if folder != "data"]
    return ParquetTable(path, named[0] if named else "default", split)


def chosen_tables(reference: HubReference, tables: Sequence[ParquetTable]) -> list[ParquetTable]:
    """Return the files of the requested split, or of the dataset's usual one, in order.

    Raises:
        UnknownNameError: there is no such configuration or split.
        DataError: there are several configurations and none is asked for.
    """
    known = KNOWN_DATASETS.get(reference.name.casefold(), KnownDataset())
    configuration, _, split = (reference.split or "").rpartition("/")
    configurations = sorted({table.configuration for table in tables})
    if not configuration:
        if known.configuration in configurations:
            configuration = known.configuration
        elif len(configurations) == 1:
            configuration = configurations[0]
        else:
            raise DataError(
                f"{reference.name} has the configurations {', '.join(configurations)}; choose one "
                f"with hf://{reference.name}:{configurations[0]}/{split or known.split}"
            )
    if configuration not in configurations:
        kind = f"configuration of {reference.name}"
        raise UnknownNameError(kind, configuration, configurations)
    splits = {table.split for table in tables if table.configuration == configuration}
    split = split or known.split
    if split not in splits:
        raise UnknownNameError(f"split of {reference.name}", split, splits)
    return sorted(t for t in tables if (t.configuration, t.split) == (configuration, split))


class HubDataset(DataSource):
    """One split of a dataset of the Hub. Files are downloaded when rows are read, not before."""

    is_remote: ClassVar = True

    def __init__(self, data: str) -> None:
        reference = parse(data)
        self._name = reference.name
        with reached(data) as api:
            self._revision, tables = _parquet_tables(api, reference)
        self._paths = [table.path for table in chosen_tables(reference, tables)]
        self._own = {
            new: own
            for own, new in KNOWN_DATASETS.get(self._name.casefold(), KnownDataset()).fields
        }
        with self._remote(self._paths[0]) as file:
            names: list[str] = file.schema_arrow.names
        renamed = {own: new for new, own in self._own.items()}
        self.fields = tuple(renamed.get(name, name) for name in names)

    def count(self, limit: int) -> int:
        """Return the number of rows, which fetches the files' footers only."""
        rows = 0
        for path in self._paths:
            with self._remote(path) as file:
                rows += file.metadata.num_rows
            if rows >= limit:
                break
        return min(rows, limit)

    def read(self, fields: Sequence[str], limit: int) -> Iterator[Row]:
        """Read rows in stored order, downloading file after file as needed."""
        own = [self._own.get(field, field) for field in fields]
        left = limit
        for path in self._paths:
            if not left:
                return
            for row in ParquetFiles([self._downloaded(path)]).read(own, left):
                yield Row(f"{self._name}/{path} {row.place.rpartition(', ')[2]}", row.values)
                left -= 1

    def fingerprint(self) -> str:
        """Return a digest of the revision and the split's files."""
        return digest_of([self._name, self._revision, self._paths])

    @contextmanager
    def _remote(self, path: str) -> Iterator[Any]:
        from huggingface_hub import HfFileSystem

        with reached(f"hf://{self._name}"):
            files = HfFileSystem()
            with (
                files.open(f"datasets/{self._name}@{self._revision}/{path}", "rb") as file,
                opened(file, f"hf://{self._name}/{path}") as parquet,
            ):
                yield parquet

    def _downloaded(self, path: str) -> Path:
        from huggingface_hub import hf_hub_download

        with reached(f"hf://{self._name}/{path}"):
            return Path(
                hf_hub_download(
                    self._name,
                    path,
                    repo_type="dataset",
                    revision=self._revision,
                )
            )


@cache
def open_hub(data: str) -> HubDataset:
    """Open a dataset of the Hub, resolved to one revision for the life of this process."""
    return HubDataset(data)


def _parquet_tables(api: Any, reference: HubReference) -> tuple[str, list[ParquetTable]]:
    """Return the commit and its Parquet files, or those of the Hub's own conversion."""
    revisions = [reference.revision] if reference.revision else [None, CONVERTED]
    for revision in revisions:
        try:
            info = api.dataset_info(reference.name, revision=revision)
        except _hub_errors().RevisionNotFoundError:
            if revision != CONVERTED:
                raise
            continue
        names = [sibling.rfilename for sibling in info.siblings or ()]
        if tables := [table_of(name) for name in names if name.endswith(".parquet")]:
            return str(info.sha), tables
    raise DataError(
        f"hf://{reference.name} holds no Parquet file, nor has the Hub converted it; "
        "download it and give the folder"
    )


def _hub_errors() -> Any:
    with needs("huggingface_hub"):
        # Imported by name: the transport's HTTPError is there, but not declared as exported.
        return import_module("huggingface_hub.errors")


@contextmanager
def reached(data: str) -> Iterator[Any]:
    """Yield the Hub's API; add the next action to its errors.

    Raises:
        DataError: the Hub cannot be reached, or has no such dataset for this user.
    """
    errors = _hub_errors()
    from huggingface_hub import HfApi

    try:
        yield HfApi()
    except errors.GatedRepoError as error:
        raise DataError(f"{data} is gated; ask for access on its page and set HF_TOKEN") from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"{data} has no such revision; check what follows the @") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            f"{data}: the Hub has no such dataset, or it is private; check the name or set HF_TOKEN"
        ) from error
    except (errors.HTTPError, OSError) as error:
        raise DataError(
            f"{data} could not be fetched ({error}); check the network and run again"
        ) from error
