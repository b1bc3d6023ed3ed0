"""Data sets of the Hugging Face Hub: their Parquet files, by configuration and split.

A data set that is kept in another format is read from the Parquet copy that the Hub makes of it
(branch ``refs/convert/parquet``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from skymark.model.errors import DataError, UnknownNameError
from skymark.resources import needs

HUB = "hf://"
COPY = "refs/convert/parquet"
MAIN = "main"
USUAL = "default"
"""Configuration of a data set that has only one."""
_REFERENCE = re.compile(
    r"hf://(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?(?::(?P<split>[\w./-]+))?"
)
_SHARD = re.compile(r"(?P<split>.+?)-\d+-of-\d+(?:-[0-9a-f]+)?")


class HubReference(NamedTuple):
    """A user's name for a data set: repository, revision and split."""

    name: str
    revision: str | None
    split: str | None


class ParquetTable(NamedTuple):
    """One Parquet file of a data set, with the configuration and split in its path."""

    path: str
    configuration: str
    split: str
    size_bytes: int | None = None


class HubTables(NamedTuple):
    """The Parquet files of a data set at one commit."""

    revision: str
    """Requested branch, tag or commit."""
    commit: str
    tables: list[ParquetTable]


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


def table_of(path: str, size_bytes: int | None = None) -> ParquetTable:
    """Return a Parquet file's table, with the configuration and split from its path.

    The known forms are ``CONFIGURATION/SPLIT-00000-of-00003.parquet``, ``data/SPLIT-…``,
    ``SPLIT-…``, ``CONFIGURATION/SPLIT/0000.parquet`` and
    ``CONFIGURATION/partial-SPLIT/0000.parquet``. Other files get the split ``train``.
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
    return ParquetTable(path, named[0] if named else USUAL, split, size_bytes)


def chosen_tables(
    reference: HubReference,
    tables: Sequence[ParquetTable],
    usual_configuration: str = USUAL,
    usual_split: str | None = None,
) -> list[ParquetTable]:
    """Return the files of the requested configuration and split, in order.

    Args:
        reference: the user's name for the data set.
        tables: all files of the data set.
        usual_configuration: default configuration.
        usual_split: default split; None for all splits.

    Raises:
        UnknownNameError: there is no such configuration or split.
        DataError: there are several configurations, and the reference names none.
    """
    configuration, _, split = (reference.split or "").rpartition("/")
    configurations = sorted({table.configuration for table in tables})
    wanted = split or usual_split
    if not configuration:
        if usual_configuration in configurations:
            configuration = usual_configuration
        elif len(configurations) == 1:
            configuration = configurations[0]
        else:
            example = wanted or min(table.split for table in tables)
            raise DataError(
                f"{reference.name} has the configurations {', '.join(configurations)}; choose one "
                f"with hf://{reference.name}:{configurations[0]}/{example}"
            )
    if configuration not in configurations:
        kind = f"configuration of {reference.name}"
        raise UnknownNameError(kind, configuration, configurations)
    own = [table for table in tables if table.configuration == configuration]
    splits = {table.split for table in own}
    if wanted is not None and wanted not in splits:
        raise UnknownNameError(f"split of {reference.name}", wanted, splits)
    return sorted(table for table in own if wanted in {None, table.split})


def parquet_tables(reference: HubReference) -> HubTables:
    """List the Parquet files of a data set, or the files of the Hub's own conversion.

    Raises:
        DataError: the Hub cannot be reached, has no such data set, or no Parquet file of it.
    """
    name, asked = reference.name, reference.revision
    with reached(f"{HUB}{name}" if asked is None else f"{HUB}{name}@{asked}") as api:
        for revision in (MAIN, COPY) if asked is None else (asked,):
            try:
                info = api.dataset_info(
                    name, revision=None if revision == MAIN else revision, files_metadata=True
                )
            except _hub_errors().RevisionNotFoundError:
                if revision != COPY or asked is not None:
                    raise
                continue
            files = [(file.rfilename, file.size) for file in info.siblings or ()]
            tables = [table_of(path, size) for path, size in files if path.endswith(".parquet")]
            if tables:
                return HubTables(revision, str(info.sha), tables)
    raise DataError(
        f"{HUB}{name} holds no Parquet file, and the Hub has not converted it; "
        "download it and give the folder"
    )


def downloaded(name: str, path: str, commit: str) -> Path:
    """Return a file of a data set, downloaded into the Hub's cache if absent.

    The cache is the present value of ``HF_HUB_CACHE``: the client reads the variable only once, on
    import.
    """
    with reached(f"{HUB}{name}/{path}"):
        from huggingface_hub import hf_hub_download

        cache = os.environ.get("HF_HUB_CACHE")
        return Path(
            hf_hub_download(name, path, repo_type="dataset", revision=commit, cache_dir=cache)
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
