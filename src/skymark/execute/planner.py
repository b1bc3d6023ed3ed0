"""From a profile and the command line to a plan, with nothing started."""

from __future__ import annotations

from skymark.model.effort import EFFORTS
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan, Profile, Selection
from skymark.references import load_object
from skymark.suite.contract import Suite

SUITES = {"loading": "skymark.suites.loading.suite:LoadingSuite"}


def suite_named(name: str) -> Suite:
    """Return a suite's planning side.

    Raises:
        UnknownNameError: there is no such suite.
    """
    if name not in SUITES:
        raise UnknownNameError("suite", name, SUITES)
    suite: Suite = load_object(SUITES[name])()
    return suite


def make_plan(
    profile: Profile,
    selection: Selection,
    effort: str | None = None,
    rounds: int | None = None,
    suite: str = "loading",
) -> Plan:
    """Plan a run: the command line's selection over the profile's.

    Args:
        profile: gives scenarios, adapters, effort and settings where the selection has none.
        selection: what the command line asked for.
        effort: ``quick``, ``standard`` or ``rigorous``; None for the profile's.
        rounds: exactly this many rounds per cell; None for the effort's bounds.
        suite: which suite plans.

    Raises:
        UsageError: a name is unknown, or nothing is left to run.
    """
    effort_name = effort or profile.effort
    if effort_name not in EFFORTS:
        raise UnknownNameError("effort", effort_name, EFFORTS)
    chosen = EFFORTS[effort_name]
    if rounds is not None:
        if rounds < 1:
            raise UsageError(f"--rounds {rounds} must be at least 1")
        chosen = chosen.model_copy(update={"min_rounds": rounds, "max_rounds": rounds})
    merged = selection.model_copy(
        update={
            "scenarios": selection.scenarios or profile.scenarios,
            "adapters": selection.adapters or profile.adapters,
            "settings": {**profile.settings, **selection.settings},
        }
    )
    cells = suite_named(suite).plan(merged)
    if not cells:
        raise UsageError("the selection has no cell; name at least one scenario and one adapter")
    return Plan(
        profile=profile.name,
        effort=chosen,
        settings=merged.settings,
        settings_from={
            name: "command line" if name in selection.settings else "profile"
            for name in merged.settings
        },
        cells=tuple(cells),
    )
