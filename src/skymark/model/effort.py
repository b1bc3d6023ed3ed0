"""Effort of a run: bounds on the repetitions of its cells."""

from __future__ import annotations

from pydantic import Field

from skymark.model.base import Frozen


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
