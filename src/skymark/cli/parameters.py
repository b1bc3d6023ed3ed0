"""Groups of options in help, and kinds of options, that commands share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter
from cyclopts.validators import Number

from skymark.model.span import LONGEST_S

WHAT = Group.create_ordered("What to measure")
HOW = Group.create_ordered("How to measure it")
JOB = Group.create_ordered("The job")
WHERE = Group.create_ordered("Where it runs, and what is shown")

Several = Parameter(consume_multiple=1)
"""An option of several values, which follow it once or repeat it."""

Cluster = Annotated[str, Parameter(help="The machine's name, as `skymark status` shows it.")]

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
MOST_NODES = 1000
WEEK_MINUTES = 7 * 24 * 60

COUNT = Parameter(validator=Number(gte=1, lte=MOST))
"""A number of things, such as rounds: one or more."""
NODES = Parameter(validator=Number(gte=1, lte=MOST_NODES))
NODE = Parameter(validator=Number(gte=0, lt=MOST_NODES))
"""Of several machines; 0 is the head."""
IDLE_MINUTES = Parameter(validator=Number(gte=1, lte=WEEK_MINUTES))
"""Minutes until a machine ends itself: with none it would be gone before its results are home."""
USD = Parameter(validator=Number(gt=0, lte=MOST))
SECONDS = Parameter(validator=Number(gte=0, lte=LONGEST_S))
SOME_SECONDS = Parameter(validator=Number(gt=0, lte=LONGEST_S))
DIFFERENCE = Parameter(validator=Number(gte=0, lte=MOST))
"""A relative difference; 0.05 is 5 %."""
