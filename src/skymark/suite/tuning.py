"""A suite's declaration for `skymark tune`: goal, cost, candidate settings, lengths of rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from skymark.model.base import Frozen, NonNegative
from skymark.model.cell import Setting
from skymark.model.effort import Effort
from skymark.model.record import Record


class Ceiling(Frozen):
    """A rate that the machine itself reaches in one part of the work: no pipeline has more."""

    name: str
    rate: NonNegative
    """In the unit of the suite's primary metric."""
    basis: str
    """How it was found, with its numbers."""
    binds: bool = True
    """Whether it can be the limit of what was measured; else it is told for comparison."""


Ceilings = Callable[[Record, Path], Sequence[Ceiling]]
"""Measures the ceilings of a cell's work, given its record and the cache directory."""


@dataclass(frozen=True)
class Tuning:
    """A choice among settings: the least of one metric, where another one suffices."""

    goal: str
    """The metric that has to reach the target; a share, of which more is better."""
    stand_in_goal: str
    """The goal where candidates lack it, and are compared by the primary metric's stand-in."""
    cost: str
    """The metric that is to be as small as can be then."""
    step: str
    """The setting that holds the time of an accelerator's step, in milliseconds."""
    batch: str
    """The setting that holds the elements of a batch."""
    scenario: str
    """What is tuned where the user names nothing."""
    points: Callable[[int], Sequence[Mapping[str, Setting]]]
    """Returns the settings to try on a machine with so many cores."""
    efforts: Callable[[float, str], Sequence[Effort]]
    """Returns the efforts of the rungs, the shortest first, for a step of so many milliseconds and
    the name of one of the suite's efforts."""
    ceilings: str
    """``module:function`` of `Ceilings`."""
