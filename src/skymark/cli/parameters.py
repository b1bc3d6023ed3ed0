"""Groups of options in help, and kinds of options, that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from skymark.cli.help import HOW_TITLE, RARE
from skymark.model.duration import LONGEST_S

WHAT = Group.create_ordered("What to measure")
HOW = Group.create_ordered(HOW_TITLE)
JOB = Group.create_ordered("The job")
RESULTS = Group.create_ordered("Results")
WHERE = Group.create_ordered("Output and place of the run")
PAIRS = Group.create_ordered("Comparison with another revision")
SHARING = Group.create_ordered("Work shared between workers")

Several = Parameter(consume_multiple=1)
"""An option of several values, which follow it once or repeat it."""

Env = Annotated[
    Literal["own", "current"],
    Parameter(
        help="own: each adapter in a venv of its own, which skymark makes on first use. "
        "current: all adapters in skymark's own venv.",
    ),
]
"""The Python environments of adapters' libraries."""


ProfileName = Annotated[
    str, Parameter(help="A name from `skymark list profiles`, or a .toml file.")
]

Cluster = Annotated[str, Parameter(help="The machine's name, as in `skymark status`.")]

Output = Annotated[
    Path | None,
    Parameter(
        group=RESULTS,
        metavar="DIRECTORY",
        help="Directory of runs, in which the run gets its own. [default: results]",
    ),
]

JobName = Annotated[
    str | None,
    Parameter(
        name=("--name", "-n"),
        metavar="NAME",
        group=(JOB, RARE),
        help="The job's name in `skymark queue`.",
    ),
]
Detach = Annotated[
    bool,
    Parameter(
        name=("--detach-run", "--detach", "-d"),
        group=JOB,
        help="Return once the job is in the queue; results stay on the machine until it ends.",
    ),
]
MOST = 1_000_000
Split = Annotated[
    str | None,
    Parameter(
        group=(SHARING, RARE),
        metavar="SPLIT",
        help="Division of the plan between workers: even:10, balanced:10, longest:10, "
        "weighted:heavy=1x60,worker=7x20, two-level:5x10 or waves:5x10/4. Without a number: the "
        "number of workers in the variables of Slurm, SkyPilot, Kubernetes and others.",
    ),
]
MachinesSplit = Annotated[
    str | None,
    Parameter(
        name="--split",
        group=(SHARING, RARE),
        metavar="SPLIT",
        help="Division of the plan between several machines, as in `skymark run --split`: "
        "balanced, even, longest, weighted:a=1x60,b=3x20 or two-level:2x2. [default: balanced]",
    ),
]
Explain = Annotated[
    bool,
    Parameter(group=(SHARING, RARE), help="With --split: give the reason for each worker's part."),
]
TotalCpus = Annotated[
    int | None,
    Parameter(
        group=(SHARING, RARE),
        metavar="N",
        validator=Number(gte=1, lte=MOST),
        help="CPUs of all machines together, which the workers that run at once divide.",
    ),
]
TotalMemory = Annotated[
    float | None,
    Parameter(
        group=(SHARING, RARE),
        metavar="GB",
        validator=Number(gt=0, lte=MOST),
        help="Memory of all machines together in GB, which these workers divide.",
    ),
]
MOST_NODES = 1000
WEEK_MINUTES = 7 * 24 * 60

COUNT = Parameter(validator=Number(gte=1, lte=MOST), metavar="N")
"""A number of things, such as rounds: one or more."""
NODES = Parameter(validator=Number(gte=1, lte=MOST_NODES), metavar="N")
NODE = Parameter(validator=Number(gte=0, lt=MOST_NODES), metavar="N")
"""Of several machines; 0 is the head."""
IDLE_MINUTES = Parameter(validator=Number(gte=1, lte=WEEK_MINUTES), metavar="MINUTES")
"""Minutes until a machine ends itself: with none it would be gone before its results are home."""
PART = Parameter(validator=Number(gt=0, lte=1), metavar="PART")
"""A part of a whole, such as of a GPU."""
USD = Parameter(validator=Number(gt=0, lte=MOST), metavar="USD")
MILLISECONDS = Parameter(validator=Number(gt=0, lte=MOST), metavar="MS")
SECONDS = Parameter(validator=Number(gte=0, lte=LONGEST_S), metavar="SECONDS")
SOME_SECONDS = Parameter(validator=Number(gt=0, lte=LONGEST_S), metavar="SECONDS")
DAYS = Parameter(validator=Number(gte=0, lte=36_500), metavar="DAYS")
DIFFERENCE = Parameter(validator=Number(gte=0, lte=MOST), metavar="PART")
"""A relative difference; 0.05 is 5 %."""
TIME = Parameter(metavar="TIME")
"""A duration with its unit, such as 90m or 2h."""
FILE = Parameter(metavar="FILE")
DIRECTORY = Parameter(metavar="DIRECTORY")
NAME = Parameter(metavar="NAME")

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
