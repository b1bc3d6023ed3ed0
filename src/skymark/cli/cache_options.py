"""Options that the commands of `skymark cache` share, some of them with `skymark run`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from skymark.cli.parameters import COUNT

POLICY_VARIABLE = "SKYMARK_CACHE_POLICY"
"""Tells a run on a rented machine its `--cache-policy`."""
ROOT_VARIABLE = "SKYMARK_CACHE_ROOT"
"""Likewise its `--cache-root`."""

PolicyName = Literal[
    "auto", "per-job", "shared", "prebuilt", "parquet", "parquet+shared", "staggered"
]

RunPolicy = Annotated[
    PolicyName,
    Parameter(
        help="Directory of downloads: per-job ends with the run; shared and staggered lie in "
        "--cache-root. --data can be Parquet: parquet makes it for this run, parquet+shared once "
        "for all runs, and `skymark cache build --data` makes prebuilt. auto chooses, and says "
        "why."
    ),
]
Sources = Annotated[
    str,
    Parameter(
        help="Files or http addresses of the data set (JSON, CSV, Parquet, tar), SPLIT=ADDRESS for "
        "another split than train, or hf://owner/name[@revision][:configuration/split]."
    ),
]
DataOfRuns = Annotated[
    str | None,
    Parameter(
        metavar="PATH",
        help="Data of `skymark run --data` in place of sources: a folder, tar shards, a table or "
        "hf://owner/name. For prebuilt or parquet+shared.",
    ),
]
Field = Annotated[str | None, Parameter(metavar="KEY", help="Key of the rows in a JSON file.")]
Prepare = Annotated[
    str | None,
    Parameter(
        metavar="COMMAND",
        help="Command of yours that loads the data once, in place of the library's call, such as "
        "for Streaming or LitData.",
    ),
]
Python = Annotated[
    str | None,
    Parameter(
        metavar="FILE",
        help="Python interpreter with the library that builds. [default: python]",
    ),
]
BuildLimit = Annotated[
    str | None,
    Parameter(
        metavar="TIME",
        help="Longest time of a build, such as 90m. [default: 6h]",
    ),
]
PolicyOption = Annotated[
    PolicyName,
    Parameter(help="Policy of the caches; `skymark cache plan` explains each."),
]
Root = Annotated[
    Path | None,
    Parameter(
        metavar="DIRECTORY",
        help="Directory of the caches, on a disk that all jobs see. [default: $SKYMARK_CACHE]",
    ),
]
Jobs = Annotated[int | None, COUNT, Parameter(help="For auto: jobs that start at once.")]
UseOption = Annotated[
    Literal["once", "often"],
    Parameter(help="For auto: one wave of jobs reads the data once, or many often."),
]
