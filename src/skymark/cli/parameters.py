"""Groups of options in help, and kinds of options, that commands share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

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
