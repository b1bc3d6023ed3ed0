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
    """Longest time of one round."""
    limits: dict[str, float] = Field(default_factory=dict)
    """Least and largest work of a round, in the suite's own terms."""

    @property
    def largest_taken_share(self) -> float | None:
        """Largest share of the processors that others may take of an undisturbed round.

        A rate falls by at most this share, and its mean over rounds by less. Half of the wanted
        interval leaves the other half to chance. None for too few rounds to set one aside.
        """
        return self.target_relative_interval / 2 if self.max_rounds >= LEAST_ROUNDS else None


Goal = Literal["table", "best"]

LEAST_ROUNDS = 3
"""Fewer rounds make an interval that says little."""

MOST_ROUNDS = 200
"""With this many, an interval is a seventh of the spread of rounds; errors common to all rounds are
larger."""


class Allotment(Frozen):
    """Time budget of a run's rounds on a machine, in seconds, and its goal."""

    time_s: float = Field(gt=0, le=LONGEST_S)
    goal: Goal = "table"
    """``table``: rank all compared cells, and narrow their intervals. ``best``: only the candidates
    for the best."""

    def bounds(self, effort: Effort) -> Effort:
        """Return an effort with the bounds of rounds for a time budget."""
        rounds = {
            "min_rounds": max(effort.min_rounds, LEAST_ROUNDS),
            "max_rounds": max(effort.max_rounds, MOST_ROUNDS),
        }
        return effort.model_copy(update=rounds)
