"""Effects that can be detected, and the time that it takes, by the spread between rounds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from skymark.model.base import Frozen
from skymark.statistics.contrast import UnpairedContrast, sample_variance
from skymark.statistics.power import rounds_to_verdict

EFFECTS = (0.01, 0.02, 0.05, 0.10, 0.20)
"""Relative changes that people ask about."""


class Detection(Frozen):
    """An effect, and the rounds that show it with 80 % probability."""

    effect: float
    """A relative change; 0.05 is 5 %."""
    rounds: int | None
    """Of each of the two sides; None where a thousand would not do."""
    measured_s: float | None
    """Time of the rounds of both sides."""


def detections(
    rounds: Sequence[float], round_s: float, effects: Sequence[float] = EFFECTS
) -> tuple[Detection, ...]:
    """Return the rounds that each effect takes, if rounds vary by the machine alone.

    Args:
        rounds: the time of the same work in each of several rounds; positive.
        round_s: the length of a round.
        effects: relative changes.

    Raises:
        ValueError: there is one round or none.
    """
    if len(rounds) < 2:
        raise ValueError("the spread between rounds needs two of them")
    variance = sample_variance([math.log(one) for one in rounds])
    return tuple(_detection(effect, variance, round_s) for effect in effects)


def _detection(effect: float, variance: float, round_s: float) -> Detection:
    begun = UnpairedContrast(
        change=math.log1p(effect),
        margin=0.0,
        centre=None,
        counts=(1, 1),
        variances=(variance, variance),
    )
    more = rounds_to_verdict(begun)
    if more is None:
        return Detection(effect=effect, rounds=None, measured_s=None)
    rounds = 1 + more
    return Detection(effect=effect, rounds=rounds, measured_s=2 * rounds * round_s)
