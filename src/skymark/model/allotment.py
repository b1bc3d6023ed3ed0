"""Allotment of time to a run, and the aim that it is spent on."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.span import LONGEST_S

Goal = Literal["table", "best"]
"""``table``: rank all cells that are compared, and narrow their intervals. ``best``: the same of
those that may be the best."""


class Allotment(Frozen):
    """Seconds that the rounds of a run may take on a machine, and their aim."""

    time_s: float = Field(gt=0, le=LONGEST_S)
    goal: Goal = "table"
