"""Options that the commands for rented machines share."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Group, Parameter

from skymark.cli.cost import CostOptions
from skymark.cli.parameters import RESULTS, Several
from skymark.cli.variables import VariableOptions

MACHINE = Group.create_ordered("The machine")
LIMITS = Group.create_ordered("What it may cost")

DEFAULT_OPTIONS = CostOptions()
DEFAULT_VARIABLES = VariableOptions()

Stores = Annotated[
    tuple[str, ...],
    Several,
    Parameter(
        group=RESULTS,
        help="Where the machine puts results besides, cell by cell: s3://BUCKET/PREFIX or wandb "
        "(a directory would go with the machine). Without, they are lost where the connection is "
        "away for as long as --idle-minutes. Keys are taken from this environment, and tried "
        "before anything is hired.",
    ),
]
