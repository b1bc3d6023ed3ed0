"""Plans: made of a profile and the command line's selection, or read from a plan's file."""

from __future__ import annotations

import json
import math
import tomllib
from pathlib import Path

from pydantic import ValidationError

from skymark.model.duration import seconds_of
from skymark.model.effort import Allotment, Effort, Goal
from skymark.model.errors import UnknownNameError, UsageError
from skymark.model.plan import Plan, Profile, Selection
from skymark.model.record import SCHEMA_VERSION
from skymark.plain_files import named_by_user, read_named, write_whole
from skymark.resources import resource_directory
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


def profile_paths() -> dict[str, Path]:
    """Return the file of each profile by name."""
    return {path.stem: path for path in sorted(resource_directory("profiles").glob("*.toml"))}


def load_profile(name: str) -> Profile:
    """Load a profile by name, or from a ``.toml`` file.

    Raises:
        UnknownNameError: there is no such profile.
        UsageError: the file is no TOML, or has a key or value that profiles do not have.
    """
    paths = profile_paths()
    path = Path(name) if name.endswith(".toml") else paths.get(name)
    if path is None:
        raise UnknownNameError("profile", name, paths)
    data = read_named(path, "`skymark list profiles` shows those that are there")
    try:
        content = tomllib.loads(data.decode("utf-8"))
        profile = Profile.model_validate({"name": path.stem, **content})
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"profile {path}: {error}; mend the file") from error
    except ValidationError as error:
        raise UsageError(f"profile {path}: {faults_of(error, Profile)}") from error
    if profile.time is not None:
        seconds_of(profile.time, f"profile {path}: time")
    elif profile.goal is not None:
        raise UsageError(f"profile {path}: goal needs a time, which is spent on it")
    return profile


def faults_of(error: ValidationError, model: type[Profile]) -> str:
    """Return the faults of a profile in one line, with the nearest key for an unknown one."""
    faults: list[str] = []
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            faults.append(str(UnknownNameError("key", key, model.model_fields)))
        else:
            given = "" if fault["type"] == "missing" else f" = {fault['input']!r}"
            faults.append(f"{key}{given}: {fault['msg']}")
    return "; ".join(faults)


MAKE_ONE = "`skymark plan --output FILE` writes one"


def plan_text(plan: Plan) -> str:
    """Return a plan as its file has it."""
    return plan.model_dump_json(indent=1) + "\n"


def write_plan(plan: Plan, path: Path) -> None:
    """Write a plan file.

    Raises:
        UsageError: the file cannot be written.
    """
    with named_by_user(path):
        write_whole(path, plan_text(plan).encode())


def read_plan(path: Path) -> Plan:
    """Read a plan file, and see to it that its cells can be run by an installed suite.

    Raises:
        UsageError: there is no such file, it is no plan or a newer skymark's, or its suite is not
            installed.
    """
    data = read_named(path, MAKE_ONE)
    try:
        plan = Plan.model_validate_json(data)
    except ValidationError as error:
        raise UsageError(f"{path} {_fault(data, error)}") from error
    _check(plan, path)
    return plan


def _fault(data: bytes, error: ValidationError) -> str:
    """Return what is wrong with a file that is no plan."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return f"is no plan: it is not JSON; {MAKE_ONE}"
    if not (isinstance(content, dict) and "cells" in content):
        return f"is no plan; {MAKE_ONE}"
    version = content.get("schema_version")
    if isinstance(version, int) and version != SCHEMA_VERSION:
        remedy = "install that skymark" if version > SCHEMA_VERSION else "make it anew"
        age = "a newer" if version > SCHEMA_VERSION else "an earlier"
        return (
            f"is a plan of {age} skymark (schema {version}, here {SCHEMA_VERSION}); {remedy}: "
            f"{MAKE_ONE}"
        )
    fault = error.errors()[0]
    place = ".".join(str(part) for part in fault["loc"])
    return f"is no whole plan: {place}: {fault['msg']}; {MAKE_ONE}"


def _check(plan: Plan, path: Path) -> None:
    """Refuse a plan that was not made by an installed suite.

    Raises:
        UsageError: it was not.
    """
    try:
        suite_named(plan.suite)
    except UnknownNameError as error:
        raise UsageError(
            f"{path}: {error}; install the package that has the suite {plan.suite!r}"
        ) from error
    ids = {planned.cell.id for planned in plan.cells}
    if not plan.cells or len(ids) < len(plan.cells):
        raise UsageError(f"{path} is no whole plan: it has no cell, or one twice; {MAKE_ONE}")
    if strangers := {one.cell.suite for one in plan.cells} - {plan.suite}:
        raise UsageError(
            f"{path} is no whole plan: it is of the suite {plan.suite!r}, and has cells of "
            f"{', '.join(sorted(strangers))}; {MAKE_ONE}"
        )
