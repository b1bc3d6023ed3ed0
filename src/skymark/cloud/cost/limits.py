"""The limits of a run on rented machines: those that were asked for, else the profile's."""

from __future__ import annotations

from skymark.model.base import Frozen
from skymark.model.duration_text import seconds_of
from skymark.model.plan import Profile


class Limits(Frozen):
    """The most time and money of a run; None for no limit."""

    deadline_s: int | None
    """Of set-up and run together."""
    max_cost_usd: float | None
    """Of all machines together."""


def limits_for(
    profile: Profile,
    deadline: str | None = None,
    max_cost_usd: float | None = None,
    num_nodes: int = 1,
) -> Limits:
    """Return the limits of a run.

    Args:
        profile: its own limits count where nothing else is given.
        deadline: such as ``90m``.
        max_cost_usd: of all machines together; a profile's is for each of them.
        num_nodes: how many there are.

    Raises:
        UsageError: the deadline is no duration.
    """
    deadline_s = None if deadline is None else seconds_of(deadline)
    if deadline_s is None and profile.deadline_minutes is not None:
        deadline_s = 60 * profile.deadline_minutes
    if max_cost_usd is None and profile.max_cost_usd is not None:
        max_cost_usd = num_nodes * profile.max_cost_usd
    return Limits(deadline_s=deadline_s, max_cost_usd=max_cost_usd)
