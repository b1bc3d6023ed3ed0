"""Find the venvs of adapters and plans, over all installed suites."""

from __future__ import annotations

from collections.abc import Sequence

from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan
from skymark.model.platform import Target
from skymark.model.venv import VenvSpec
from skymark.suite.contract import Suite
from skymark.suite.registry import suite_named


def venvs_of_plan(plan: Plan, target: Target) -> dict[str, VenvSpec]:
    """Return the venvs that the cells of a plan need, by name, built for a target.

    Those of libraries that no package installs by itself are not among them.
    """
    suite = suite_named(plan.suite)
    cells = (planned.cell for planned in plan.runnable)
    specs = (suite.venv(cell) for cell in cells if suite.absence(cell) is None)
    return {spec.name: spec.built_for(target) for spec in specs if spec is not None}


def venvs_named(
    names: Sequence[str], suites: Sequence[Suite], target: Target = "cpu"
) -> dict[str, VenvSpec]:
    """Return the venvs of adapters by name; of all that install by themselves if none is named.

    Raises:
        UnknownNameError: no suite has such an adapter.
        UsageError: a name cannot be read.
    """
    if not names:
        found = {name: spec for suite in suites for name, spec in suite.venvs().items()}
    else:
        found = {name: spec for one in names for name, spec in _venvs_of(one, suites).items()}
    return {name: spec.built_for(target) for name, spec in found.items()}


def _venvs_of(name: str, suites: Sequence[Suite]) -> dict[str, VenvSpec]:
    """Return the venv of an adapter, of each suite that has one of this name."""
    found: dict[str, VenvSpec] = {}
    unknown: list[UnknownNameError] = []
    for suite in suites:
        try:
            found |= suite.venvs([name])
        except UnknownNameError as error:
            unknown.append(error)
    if found:
        return found
    if len(unknown) == 1:
        raise unknown[0]
    if unknown:
        rows = (row for suite in suites for row in suite.adapters())
        raise UnknownNameError("adapter", name, {str(next(iter(row.values()))) for row in rows})
    raise UsageError(f"adapter {name!r} has no venv of its own; there is nothing to build")
