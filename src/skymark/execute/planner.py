"""Make a plan of a profile and the command line's selection; nothing is started."""

from __future__ import annotations

import math

from skymark.model.allotment import Allotment, Goal
from skymark.model.duration_text import seconds_of
from skymark.model.effort import Effort
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan, Profile, Selection
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named


def make_plan(
    profile: Profile,
    selection: Selection,
    effort: str | None = None,
    rounds: int | None = None,
    timeout_s: float | None = None,
    time: str | None = None,
    goal: Goal | None = None,
) -> Plan:
    """Plan a run: the command line's selection over the profile's.

    Args:
        profile: gives the suite, and scenarios, adapters, effort and settings where the selection
            has none.
        selection: what the command line asked for.
        effort: the name of one of the suite's; None for the profile's.
        rounds: exactly this many rounds per cell; None for the effort's bounds.
        timeout_s: the longest time of a round; None for the effort's.
        time: of all rounds, such as ``20m``; None for the profile's, which ``rounds`` sets aside.
        goal: the aim that the time is spent on; None for the profile's.

    Raises:
        UsageError: a name is unknown, a number or time means nothing, options contradict one
            another, or nothing is left to run.
    """
    suite = suite_named(profile.suite)
    bounds = _bounds(suite, effort or profile.effort, rounds, timeout_s)
    allotment = _allotment(suite, profile, rounds, time, goal)
    merged = selection.model_copy(
        update={
            "platform": profile.platform,
            "scenarios": selection.scenarios or profile.scenarios,
            "size": selection.size or profile.size,
            "adapters": selection.adapters or profile.adapters,
            "settings": {**profile.settings, **selection.settings},
        }
    )
    cells = suite.plan(merged, bounds)
    if not cells:
        raise UsageError("the selection has no cell; name at least one scenario and one adapter")
    return Plan(
        suite=suite.name,
        profile=profile.name,
        platform=profile.platform,
        effort=bounds,
        allotment=allotment,
        settings=merged.settings,
        settings_from={
            name: "command line" if name in selection.settings else "profile"
            for name in merged.settings
        },
        cells=tuple(cells),
    )


def _bounds(suite: Suite, name: str, rounds: int | None, timeout_s: float | None) -> Effort:
    """Return an effort of a suite, with the rounds and the time limit that were asked for."""
    if name not in suite.efforts:
        raise UnknownNameError("effort", name, suite.efforts)
    update: dict[str, object] = {}
    if rounds is not None:
        if rounds < 1:
            raise UsageError(f"--rounds {rounds} must be at least 1")
        update |= {"min_rounds": rounds, "max_rounds": rounds}
    if timeout_s is not None:
        if not 0 < timeout_s < math.inf:
            raise UsageError(f"--timeout {timeout_s:g} must be a number above 0 seconds")
        update |= {"cell_timeout_s": timeout_s}
    return suite.efforts[name].model_copy(update=update)


def _allotment(
    suite: Suite, profile: Profile, rounds: int | None, time: str | None, goal: Goal | None
) -> Allotment | None:
    """Return the time that was asked for, else the profile's; None where there is none."""
    if rounds is not None:
        if time is not None or goal is not None:
            raise UsageError(
                f"--rounds {rounds} is a number of rounds, and --time and --goal give rounds to "
                "the cells that need them; leave one of them out"
            )
        return None
    wanted = profile.time if time is None else time
    if wanted is None:
        if goal is not None:
            raise UsageError(f"--goal {goal} needs --time, which is spent on it, such as 20m")
        return None
    time_s = seconds_of(wanted, "--time")
    metric = suite.declaration.primary_metric
    if metric.scale == "exact":
        raise UsageError(
            f"--time gives rounds to what varies from round to round, and {metric.heading} of the "
            f"suite {suite.name} does not; leave it out"
        )
    return Allotment(time_s=time_s, goal=goal or profile.goal or "table")
