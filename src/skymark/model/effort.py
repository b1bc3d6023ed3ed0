"""Effort of a run: bounds on the repetitions of its cells, and the time allotted to them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from skymark.model.base import Frozen
from skymark.model.duration import LONGEST_S


class Effort(Frozen):
    """Bounds on the repetitions of a cell.

    Rounds go on from `min_rounds` until the 95 % interval of the primary metric is within
    `target_relative_interval` of its value (half width ÷ value) or `max_rounds` are done.
    """

    name: str
    min_rounds: int
    max_rounds: int
    target_relative_interval: float
    cell_timeout_s: float
    """Time that one round may take."""
    limits: dict[str, float] = Field(default_factory=dict)
    """What a round measures at least and at most, in the suite's own terms."""


Goal = Literal["table", "best"]

LEAST_ROUNDS = 3
"""Below, an interval says little."""

MOST_ROUNDS = 200
"""Beyond, an interval is a seventh of the spread of rounds, and what disturbs all of them alike is
more."""


class Allotment(Frozen):
    """Seconds that the rounds of a run may take on a machine, and their aim."""

    time_s: float = Field(gt=0, le=LONGEST_S)
    goal: Goal = "table"
    """``table``: rank all cells that are compared, and narrow their intervals. ``best``: do so
    with those that may be the best."""

    def bounds(self, effort: Effort) -> Effort:
        """Return an effort with the rounds that a time allows."""
        rounds = {
            "min_rounds": max(effort.min_rounds, LEAST_ROUNDS),
            "max_rounds": max(effort.max_rounds, MOST_ROUNDS),
        }
        return effort.model_copy(update=rounds)
