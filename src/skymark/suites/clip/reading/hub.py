"""Data sets of the Hugging Face Hub, kept in its own cache (``HF_HOME``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from skymark.model.errors import DataError
from skymark.suites.clip.reading.layout import shards_of

METADATA = ("*.txt",)
"""Files beside the splits: class names, templates, the data set's type."""


def snapshot(address: str, splits: tuple[str, ...], *, offline: bool = False) -> Path:
    """Return the directory of a data set, with the files of some splits in it.

    The hub's client fetches what is missing, each file whole or not at all, and lets processes
    that want the same file wait for one another.

    Args:
        address: ``OWNER/NAME``, or ``OWNER/NAME@REVISION``.
        splits: to fetch.
        offline: look at this disk alone.

    Raises:
        DataError: the hub is away or has no such data set, or it was not fetched.
    """
    if not offline and (there := _complete(address, splits)) is not None:
        return there
    name, _, revision = address.partition("@")
    patterns = [*METADATA, *(f"{split}/*" for split in splits)]
    with _explained(address) as client:
        found = Path(
            client.snapshot_download(
                name,
                repo_type="dataset",
                revision=revision or None,
                allow_patterns=patterns,
                local_files_only=offline,
            )
        )
    for split in splits:
        if not (found / split).is_dir():
            raise DataError(f"{address} has no split {split!r} on the hub")
    return found


def _complete(address: str, splits: tuple[str, ...]) -> Path | None:
    """Return the directory if all shards of the splits are on this disk: then the hub may be away.

    The client gives a file its name when all its bytes have come.
    """
    try:
        found = snapshot(address, (), offline=True)
        shards = [shard for split in splits for shard in shards_of(found, split)]
    except DataError:
        return None
    return found if all(shard.exists() for shard in shards) else None


@contextmanager
def _explained(address: str) -> Iterator[Any]:
    """Yield the hub's client; add the next action to its errors."""
    client = import_module("huggingface_hub")
    errors = import_module("huggingface_hub.errors")
    try:
        yield client
    except errors.GatedRepoError as error:
        raise DataError(f"{address} is gated; ask for access on its page, set HF_TOKEN") from error
    except errors.RevisionNotFoundError as error:
        raise DataError(f"{address} has no such revision; check what follows the @") from error
    except errors.RepositoryNotFoundError as error:
        raise DataError(
            f"{address}: the hub has no such data set, or it is private; check the name or set "
            "HF_TOKEN"
        ) from error
    except errors.LocalEntryNotFoundError as error:
        raise DataError(f"{address} is not on this disk, and the hub is away ({error})") from error
    except (errors.HTTPError, OSError) as error:
        raise DataError(
            f"{address} could not be fetched ({error}); check the network and run again"
        ) from error
