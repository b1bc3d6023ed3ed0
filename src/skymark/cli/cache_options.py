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
        help="Where libraries of this run keep what they fetch: per-job, in a directory that goes "
        "with the run; shared or staggered, in one of --cache-root. What --data names is besides "
        "read from Parquet: parquet makes it for this run, parquet+shared once for all, prebuilt "
        "was made by `skymark cache build --data`. auto chooses, and says why."
    ),
]
Sources = Annotated[
    str,
    Parameter(
        help="Files or http addresses of the data set (JSON, CSV, Parquet, tar), SPLIT=ADDRESS for "
        "another split than train; or hf://owner/name[@revision][:configuration/split]."
    ),
]
DataOfRuns = Annotated[
    str | None,
    Parameter(
        help="What `skymark run --data` names, in place of files: a folder, tar shards, a table or "
        "hf://owner/name. Built for runs, with prebuilt or parquet+shared."
    ),
]
Field = Annotated[str | None, Parameter(help="Key of a JSON file that holds the rows.")]
Prepare = Annotated[
    str | None,
    Parameter(
        help="A command of your own that loads the data once, in place of the library's call: for "
        "Streaming, LitData or your own code."
    ),
]
Python = Annotated[
    str | None,
    Parameter(
        help="Interpreter of your program, which has the library that builds. [default: python]"
    ),
]
BuildLimit = Annotated[
    str | None,
    Parameter(
        help="Longest time that the library or --prepare may take to build, such as 90m. "
        "[default: 6h]"
    ),
]
PolicyOption = Annotated[
    PolicyName,
    Parameter(
        help="auto, per-job, shared, prebuilt, parquet, parquet+shared or staggered; "
        "`skymark cache plan` says what each is for."
    ),
]
Root = Annotated[
    Path | None,
    Parameter(
        help="Directory of the caches, on a disk that all jobs see. [default: $SKYMARK_CACHE]"
    ),
]
Jobs = Annotated[int | None, COUNT, Parameter(help="Jobs that start at once, for auto.")]
UseOption = Annotated[
    Literal["once", "often"],
    Parameter(help="Whether one wave of jobs reads the data, or many over weeks; for auto."),
]
