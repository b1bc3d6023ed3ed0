"""Directories that W&B's client works in: below the cache, never in a run's directory.

A run's directory may come from somebody else, and the client takes its server's address from files
in the directory that it works in.
"""

from __future__ import annotations

from pathlib import Path

from skymark.cache.location import own_cache
from skymark.machine.private_directory import own_folder, private_directory
from skymark.model.base import digest_of
from skymark.model.errors import CacheError, StoreRefusedError, UsageError
from skymark.store.wandb.content import RunContent
from skymark.store.wandb.names import wandb_id

KEY_LENGTH = 12


def home_of(content: RunContent) -> Path:
    """Return the directory for a run's id and plan, made on first use and this user's alone.

    Raises:
        StoreRefusedError: it cannot be made, or somebody else may write there.
    """
    manifest = content.manifest
    key = digest_of([manifest.run_id, manifest.plan_hash])[:KEY_LENGTH]
    try:
        homes = private_directory([own_folder(own_cache()) / "wandb"])
        return private_directory([homes / f"{wandb_id(manifest.run_id)}-{key}"])
    except (CacheError, UsageError) as error:
        raise StoreRefusedError(str(error)) from error
