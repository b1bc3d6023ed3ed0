"""The limits of a run on rented machines: those that were asked for, else the profile's."""

from __future__ import annotations

from skymark.model.base import Frozen
from skymark.model.duration_text import seconds_of
from skymark.model.errors import UsageError
from skymark.model.plan import Plan, Profile


class Limits(Frozen):
    """The most time and money of a run; None for no limit."""

    deadline_s: int | None
    """Of set-up and run together."""
    max_cost_usd: float | None
    """Of all machines together."""


def require_time_before(plan: Plan, deadline_s: float | None) -> None:
    """Refuse a plan whose rounds may take longer than its machine may live.

    Args:
        plan: with the time of its rounds, if it has one.
        deadline_s: of set-up and run together; None where nothing ends them.

    Raises:
        UsageError: cells would be left over when the machine ends.
    """
    if plan.allotment is None or deadline_s is None or plan.allotment.time_s < deadline_s:
        return
    raise UsageError(
        f"--time {plan.allotment.time_s:g}s does not end before the deadline of {deadline_s:g} s, "
        "which is for set-up and run together; give a longer --deadline or a shorter --time"
    )


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
