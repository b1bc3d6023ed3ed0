"""Make a plan of a profile and the command line's selection; nothing is started."""

from __future__ import annotations

import math

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
) -> Plan:
    """Plan a run: the command line's selection over the profile's.

    Args:
        profile: gives the suite, and scenarios, adapters, effort and settings where the selection
            has none.
        selection: what the command line asked for.
        effort: the name of one of the suite's; None for the profile's.
        rounds: exactly this many rounds per cell; None for the effort's bounds.
        timeout_s: the longest time of a round; None for the effort's.

    Raises:
        UsageError: a name is unknown, a number means nothing, or nothing is left to run.
    """
    suite = suite_named(profile.suite)
    bounds = _bounds(suite, effort or profile.effort, rounds, timeout_s)
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
