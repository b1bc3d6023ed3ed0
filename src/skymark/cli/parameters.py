"""Groups of options in help, and kinds of options, that commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from skymark.model.duration import LONGEST_S

WHAT = Group.create_ordered("What to measure")
HOW = Group.create_ordered("How to measure it")
JOB = Group.create_ordered("The job")
RESULTS = Group.create_ordered("Results")
WHERE = Group.create_ordered("Where it runs, and what is shown")
PAIRS = Group.create_ordered("Beside another revision")
SHARING = Group.create_ordered("How workers share it")

Several = Parameter(consume_multiple=1)
"""An option of several values, which follow it once or repeat it."""

Env = Annotated[
    Literal["own", "current"],
    Parameter(
        help="own: each adapter in a venv of its own, made when it is first needed. "
        "current: all in the one that skymark runs in.",
    ),
]
"""The Python environments of adapters' libraries."""


ProfileName = Annotated[
    str, Parameter(help="A name that `skymark list profiles` shows, or a .toml file.")
]

Cluster = Annotated[str, Parameter(help="The machine's name, as `skymark status` shows it.")]

Output = Annotated[
    Path, Parameter(group=RESULTS, help="Directory of runs; this one gets a directory in it.")
]

JobName = Annotated[
    str | None,
    Parameter(name=("--name", "-n"), group=JOB, help="The job's name in `queue`."),
]
Detach = Annotated[
    bool,
    Parameter(
        name=("--detach-run", "--detach", "-d"),
        group=JOB,
        help="Return when the job is in the queue; results stay on the machine until it ends.",
    ),
]
MOST = 1_000_000
Split = Annotated[
    str | None,
    Parameter(
        group=SHARING,
        help="How workers share the plan: even:10, balanced:10, longest:10, "
        "weighted:heavy=1x60,worker=7x20, two-level:5x10 or waves:5x10/4. Without a number, as "
        "many as the variables of Slurm, SkyPilot, Kubernetes … tell.",
    ),
]
MachinesSplit = Annotated[
    str | None,
    Parameter(
        name="--split",
        group=SHARING,
        help="With several machines: how they share the plan, as `skymark run --split` has it: "
        "balanced, even, longest, weighted:a=1x60,b=3x20, two-level:2x2 … [default: balanced]",
    ),
]
Explain = Annotated[
    bool, Parameter(group=SHARING, help="With --split: say why each takes what it takes.")
]
TotalCpus = Annotated[
    int | None,
    Parameter(
        group=SHARING,
        validator=Number(gte=1, lte=MOST),
        help="CPUs of all machines together, to be divided between the workers that run at once.",
    ),
]
TotalMemory = Annotated[
    float | None,
    Parameter(
        group=SHARING,
        validator=Number(gt=0, lte=MOST),
        help="GB of memory of all machines together, likewise.",
    ),
]
MOST_NODES = 1000
WEEK_MINUTES = 7 * 24 * 60

COUNT = Parameter(validator=Number(gte=1, lte=MOST))
"""A number of things, such as rounds: one or more."""
NODES = Parameter(validator=Number(gte=1, lte=MOST_NODES))
NODE = Parameter(validator=Number(gte=0, lt=MOST_NODES))
"""Of several machines; 0 is the head."""
IDLE_MINUTES = Parameter(validator=Number(gte=1, lte=WEEK_MINUTES))
"""Minutes until a machine ends itself: with none it would be gone before its results are home."""
PART = Parameter(validator=Number(gt=0, lte=1))
"""A part of a whole, such as of a card."""
USD = Parameter(validator=Number(gt=0, lte=MOST))
MILLISECONDS = Parameter(validator=Number(gt=0, lte=MOST))
SECONDS = Parameter(validator=Number(gte=0, lte=LONGEST_S))
SOME_SECONDS = Parameter(validator=Number(gt=0, lte=LONGEST_S))
DIFFERENCE = Parameter(validator=Number(gte=0, lte=MOST))
"""A relative difference; 0.05 is 5 %."""
