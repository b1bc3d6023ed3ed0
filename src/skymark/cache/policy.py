"""Policies of caches, and the variables that tell libraries where to keep theirs."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from skymark.cache.location import own_cache
from skymark.machine.private_directory import other_hand, own_folder, private_directory
from skymark.model.base import digest_of
from skymark.model.errors import CacheError, UsageError


class Policy(StrEnum):
    """A way to keep the caches of many jobs apart, or to have them share one."""

    AUTO = "auto"
    PER_JOB = "per-job"
    SHARED = "shared"
    PREBUILT = "prebuilt"
    PARQUET = "parquet"
    PARQUET_SHARED = "parquet+shared"
    STAGGERED = "staggered"

    @property
    def needs_data_set(self) -> bool:
        """Whether it prepares one data set, which must be named."""
        return self in {Policy.SHARED, Policy.PREBUILT, Policy.PARQUET, Policy.PARQUET_SHARED}

    @property
    def needs_data_of_run(self) -> bool:
        """Whether a run can have it only for data that its user names."""
        return self is Policy.PREBUILT or self.converts

    @property
    def converts(self) -> bool:
        """Whether it converts the data set to Parquet."""
        return self in {Policy.PARQUET, Policy.PARQUET_SHARED}


DATA_VARIABLE = "SKYMARK_CACHE_DATA"
"""Directory of the converted data set, under the policies that convert it."""
JOB_VARIABLE = "SKYMARK_CACHE_JOB"
"""Directory of the job, for libraries that are told theirs by an argument (`streaming`)."""
HUGGING_FACE = "huggingface"
MODULES = f"{HUGGING_FACE}/modules"
"""Code that the libraries of Hugging Face fetch and import."""
SHARDS = "webdataset"
LONGEST_NAME = 60


def folder_of(addresses: Sequence[str]) -> str:
    """Return the name of the folder for the shards of a data set: another one for each."""
    if not addresses:
        return "data"
    last = addresses[0].partition("?")[0].rpartition("/")[2]  # a query may hold a key
    first = re.sub(r"[^A-Za-z0-9_-]+", "_", last)[:LONGEST_NAME]
    return f"{first}-{digest_of(list(addresses))[:12]}"


def library_variables(directory: Path, folder: str) -> dict[str, str]:
    """Return the variables that send every library below one directory, and make the folders.

    ``HF_HOME`` is left as it is, for the user's token lies there; all caches in it have a
    variable of their own. Code goes where only the user writes.

    Args:
        directory: of a job, or of what is being built.
        folder: for tar shards: those of different data sets may have the same names, and get a
            folder each; see `folder_of`.
    """
    home = directory / HUGGING_FACE
    places = {
        "HF_DATASETS_CACHE": home / "datasets",
        "HF_HUB_CACHE": home / "hub",
        "HF_XET_CACHE": home / "xet",
        "HF_ASSETS_CACHE": home / "assets",
        "HF_MODULES_CACHE": _modules_for(directory),
        "WDS_CACHE": directory / SHARDS / folder,
        "LITDATA_CACHE_DIR": directory / "litdata",
        "DATA_OPTIMIZER_CACHE_FOLDER": directory / "litdata" / "chunks",
        "DATA_OPTIMIZER_DATA_CACHE_FOLDER": directory / "litdata" / "data",
    }
    for place in places.values():
        place.mkdir(parents=True, exist_ok=True)
    return {JOB_VARIABLE: str(directory), **{name: str(one) for name, one in places.items()}}


def _modules_for(directory: Path) -> Path:
    modules = directory / MODULES
    if other_hand(modules) is None:
        return modules
    try:
        return own_folder(own_cache() / MODULES)
    except (CacheError, UsageError):  # a user without a home
        return private_directory([Path(tempfile.gettempdir(), f"skymark-modules-{os.getuid()}")])
